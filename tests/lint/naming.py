#!/usr/bin/env python3
"""Fails on names that say nothing and on files too long to hold in the head.

    tests/lint/naming.py [ROOT]
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from layers import without_comments
from sources import walk

CODE = (".h", ".cc", ".py")
LONG_LINES = 300
MOST_LINES = 400

# Words that a file or folder must not be made of.
FILE_WORDS = {"util", "utils", "helper", "helpers", "common", "manager", "misc"}
# Words that the name of a type must not end in.
TYPE_WORDS = re.compile(r"(Utils?|Helpers?|Common|Managers?|Context|Chunk|Data|Info)$")
ALLOWED_TYPES = {"DeviceInfo", "ErrorInfo"}
CPP_TYPE = re.compile(r"\b(?:class|struct|enum class|enum|union)\s+(?:\w+\([^)]*\)\s+)?(\w+)\s*(?:final\s*)?[:{]")
CPP_ALIAS = re.compile(r"\busing\s+(\w+)\s*=")
PYTHON_TYPE = re.compile(r"^\s*class\s+(\w+)")


def type_names(path: Path, line: str) -> list[str]:
    """Gives the names of the types that a line of code defines."""
    if path.suffix == ".py":
        return PYTHON_TYPE.findall(line)
    return CPP_TYPE.findall(line) + CPP_ALIAS.findall(line)


def faults(root: Path) -> Iterator[str]:
    """Yields one line for each violation under `root`."""
    for path in walk(root):
        for part in path.parts:
            words = set(part.lower().split(".")[0].replace("-", "_").split("_"))
            if words & FILE_WORDS:
                yield f"{path}: '{part}' does not say what is in it"
        if path.suffix not in CODE:
            continue
        text = (root / path).read_text(encoding="utf-8")
        lines = text.split("\n") if path.suffix == ".py" else without_comments(text)
        for number, line in enumerate(lines, start=1):
            for name in type_names(path, line):
                if TYPE_WORDS.search(name) and name not in ALLOWED_TYPES:
                    yield f"{path}:{number}: '{name}' does not say what it is"
        if text.count("\n") > MOST_LINES:
            yield f"{path}: {text.count(chr(10))} lines, more than {MOST_LINES}"


def long_files(root: Path) -> Iterator[str]:
    """Yields a remark for each file that grows towards the limit."""
    for path in walk(root, *CODE):
        length = (root / path).read_text(encoding="utf-8").count("\n")
        if LONG_LINES < length <= MOST_LINES:
            yield f"note: {path} has {length} lines, most have under {LONG_LINES}"


def main() -> int:
    """Prints the violations and answers 1 if there are any."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2]
    print("\n".join(long_files(root)))
    found = list(faults(root))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
