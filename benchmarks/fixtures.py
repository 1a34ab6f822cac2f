"""The files that the work is done on."""

from __future__ import annotations

from pathlib import Path

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
_FILES_IN_A_DIRECTORY = 100
_DIRECTORIES_IN_A_GROUP = 100
_LINE = "The quick brown fox jumps over the lazy dog, and writes it down.\n"


class Files:
    """A workspace for the benchmark; paths are relative to its root. Made when first asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)

    def text(self, size_bytes: int) -> str:
        """A text file of this size."""
        name = f"text-{size_bytes}.txt"
        path = self.root / name
        if not path.exists():
            path.write_text((_LINE * (size_bytes // len(_LINE) + 1))[:size_bytes])
        return name

    def zeros(self, size_bytes: int) -> str:
        """A file of this size that takes no room on the disk."""
        name = f"zeros-{size_bytes}.dat"
        with (self.root / name).open("wb") as file:
            file.truncate(size_bytes)
        return name

    def directory(self, name: str) -> str:
        (self.root / name).mkdir(exist_ok=True)
        return name

    def tree(self, count: int) -> str:
        """A tree of so many small files, a hundred in a directory, three levels deep."""
        name = f"tree-{count}"
        made = 0
        while made < count and not (self.root / name / "complete").exists():
            number = made // _FILES_IN_A_DIRECTORY
            group, place = divmod(number, _DIRECTORIES_IN_A_GROUP)
            directory = self.root / name / f"group-{group:02d}" / f"part-{place:02d}"
            directory.mkdir(parents=True)
            for index in range(min(_FILES_IN_A_DIRECTORY, count - made)):
                (directory / f"file-{index:02d}.py").write_bytes(b"x = 1\n")
                made += 1
        (self.root / name / "complete").touch()
        return name
