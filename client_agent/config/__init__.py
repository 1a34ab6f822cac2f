"""Configuration: TOML into frozen models. The only reader of configuration.

The global file has one table a workspace. A file in the workspace itself, which an agent might come to write, may only
tighten: it can lower limits and add to what is denied, and nothing else.
"""

from client_agent.config.file import newest_format
from client_agent.config.loading import (
    WORKSPACE_FILE,
    Loaded,
    check_server,
    config_path,
    load,
    load_usable,
    local_workspace,
    root_of,
    state_dir,
    tighten_all,
    without,
)
from client_agent.config.models import (
    MEGABYTE,
    Approvals,
    Limits,
    Link,
    OptionSet,
    Policy,
    ProgramTable,
    Sandbox,
    Settings,
    Undo,
    ValueKind,
    Workspace,
    WorkspaceName,
)

__all__ = [
    "MEGABYTE",
    "WORKSPACE_FILE",
    "Approvals",
    "Limits",
    "Link",
    "Loaded",
    "OptionSet",
    "Policy",
    "ProgramTable",
    "Sandbox",
    "Settings",
    "Undo",
    "ValueKind",
    "Workspace",
    "WorkspaceName",
    "check_server",
    "config_path",
    "load",
    "load_usable",
    "local_workspace",
    "newest_format",
    "root_of",
    "state_dir",
    "tighten_all",
    "without",
]
