"""Makes docs/demo.svg from what `client-agent demo` really prints: python docs/demo_picture.py"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

STYLES = {
    r"^ ▸.*": "bold cyan",
    r"✓": "bold green",
    r"✗": "bold red",
    r"── (MEDIUM|HIGH) ──.*": "bold yellow",
    r"│ \+(?!\+\+).*": "green",
    r"│ -(?!--).*": "red",
    r"refused: .*": "magenta",
}


def main() -> None:
    program = Path(sys.executable).parent / "client-agent"
    shown = subprocess.run([program, "demo"], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    output = re.sub(r"\S*/client-agent-demo-[^/\s]+", "/tmp/client-agent-demo", shown.stdout)
    console = Console(record=True, width=100, file=Path("/dev/null").open("w"))  # noqa: SIM115
    for line in ["$ make run", *output.splitlines()]:
        text = Text(line)
        for pattern, style in STYLES.items():
            text.highlight_regex(pattern, style)
        console.print(text)
    picture = Path(__file__).with_name("demo.svg")
    console.save_svg(str(picture), title="client-agent")
    # The picture must not fetch anything when it is looked at.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", picture.read_text(), flags=re.DOTALL)
    picture.write_text(svg.replace("Fira Code, monospace", "monospace"))


main()
