"""Where the bundle begins: it is the command line, and the sandbox's launcher when it is asked to be."""

import os
import sys
from importlib import import_module

from client_agent.bundle import LAUNCHER_WORD


def give_back_library_path() -> None:
    """The bundle's own libraries are found by now; what it starts must not load them instead of the system's."""
    own = os.environ.pop("LD_LIBRARY_PATH_ORIG", None)
    os.environ.pop("LD_LIBRARY_PATH", None)
    if own is not None:
        os.environ["LD_LIBRARY_PATH"] = own


give_back_library_path()
if len(sys.argv) > 1 and sys.argv[1].startswith(LAUNCHER_WORD):
    module = sys.argv.pop(1).removeprefix(LAUNCHER_WORD)
    sys.path.append(sys.argv[1])  # the launcher's few files lie there in clear
    import_module(f"launcher.{module}").main()
else:
    from client_agent.cli import main

    main()
