"""Walks the project's own files, the same way for every lint."""

from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("proto", "core", "server", "client", "deploy", "tests", "configs")
SKIPPED = {"__pycache__", "build", "node_modules", "testdata"}


def walk(root: Path, *suffixes: str) -> Iterator[Path]:
    """Yields the files with one of the suffixes, as paths relative to `root`, in a fixed order.

    Parameters
    ----------
    root : Path
        The project's root.
    suffixes : str
        File name endings such as ".h"; none means every file.

    Yields
    ------
    Path
        Relative to `root`.
    """
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            relative = path.relative_to(root)
            hidden = any(part in SKIPPED or part.endswith(".egg-info") for part in relative.parts)
            if not hidden and path.is_file() and (not suffixes or path.suffix in suffixes):
                yield relative
