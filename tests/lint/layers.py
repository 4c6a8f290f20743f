#!/usr/bin/env python3
"""Fails on an include or a name that its layer must not see.

    tests/lint/layers.py [ROOT]

A folder may include itself, what its arrow points at, and what that can reach in turn. Beside the
arrows, some libraries and some clocks belong to some folders only; RULES lists them.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sources import walk

# Layer -> the layers that it sees directly. A layer is a folder, or the files of one class; a path
# belongs to the longest layer it starts with.
ARROWS: dict[str, tuple[str, ...]] = {
    "core/base": (),
    "core/layout": ("core/base",),
    "core/plan": ("core/base",),
    "core/device": ("core/base",),
    "core/arena/offset_allocator": ("core/base",),
    "core/arena": ("core/arena/offset_allocator", "core/device"),
    "core/transfer": ("core/device",),
    "core/checkpoint": ("core/layout",),
    "core/model": ("core/arena", "core/layout"),
    "core/region": ("core/arena", "core/layout"),
    "core/lease": ("core/arena", "core/layout"),
    "core/runtime": ("core/arena", "core/layout"),
    "core/store": (
        "core/model",
        "core/region",
        "core/lease",
        "core/runtime",
        "core/checkpoint",
        "core/transfer",
        "core/plan",
    ),
    "proto": (),
    "server": ("proto", "core/store"),
    # Planning is pure: the library holds plans against its validator, and `tenurectl plan` needs no daemon.
    "client/cpp": ("proto", "core/arena/offset_allocator", "core/plan"),
    "client/cli": ("proto", "client/cpp", "core/plan"),
    "client/python": ("proto",),
}
# Tests stand above all of it: they may include anything, except that the core's see only the core.
TESTS = "tests"
CORE_TESTS = ("tests/core/", "tests/support/")

PROJECT_INCLUDE = re.compile(r'#\s*include\s+"([^"]+)"')


@dataclass(frozen=True)
class Rule:
    """Something that only some paths may say.

    Attributes
    ----------
    pattern : re.Pattern[str]
        What is looked for, in one line of code without its comment.
    applies : re.Pattern[str]
        The paths that the rule is for.
    exempt : re.Pattern[str]
        The paths among them that may say it.
    reason : str
        Ends the message.
    """

    pattern: re.Pattern[str]
    applies: re.Pattern[str]
    exempt: re.Pattern[str]
    reason: str


def rule(pattern: str, reason: str, exempt: str = r"(?!)", applies: str = r"") -> Rule:
    """Builds a Rule; `exempt` and `applies` match from the start of a path."""
    return Rule(re.compile(pattern), re.compile(applies), re.compile(exempt), reason)


RULES: tuple[Rule, ...] = (
    rule(
        r"#\s*include\s+[<\"](cuda\w*|nvml|nv\w+)\.h[>\"]|#\s*include\s+[<\"]cuda/",
        "CUDA's headers are for core/device/cuda_* only",
        exempt=r"core/device/cuda_|client/cpp/([\w/]+/)?cuda_|tests/([\w/]+/)?(cuda_|gpu/)",
    ),
    rule(
        r"#\s*include\s+[<\"]((grpc|grpcpp|google/(protobuf|rpc))/|[\w./]+\.pb\.h[>\"])",
        "gRPC and protobuf are for server, proto and client only",
        exempt=r"server/|proto/|client/|tests/(?!core/|support/)",
    ),
    rule(
        r"#\s*include\s+[<\"](prometheus/|civetweb\.h|CivetServer\.h)",
        "Prometheus and HTTP are for server only",
        exempt=r"server/|tests/(?!core/|support/)",
    ),
    rule(
        r"#\s*include\s+[<\"](grpc|grpcpp|google/protobuf)/|\.pb\.h[>\"]",
        "the client's public headers show no gRPC and no protobuf",
        applies=r"client/cpp/include/",
    ),
    rule(
        r"#\s*include\s+\"core/",
        "of the clients, only the C++ library's own sources, and tenurectl where it plans, see "
        "anything of the core",
        applies=r"client/",
        exempt=r"client/cpp/(?!include/|examples/)|client/cli/(command_)?plan[_.]",
    ),
    rule(
        r"#\s*include\s+[<\"](glog/|google/protobuf/stubs/logging|absl/log/)",
        "there is one logger, and it is not this",
    ),
    rule(
        r"#\s*include\s+[<\"]absl/synchronization/",
        "core/base/mutex.h is the mutex, which the sanitizers understand",
    ),
    rule(
        r"\bsteady_clock\b|\bCLOCK_MONOTONIC\b",
        "the steady clock is read in core/base/clock only; take a Clock or an Instant",
        exempt=r"core/base/clock\.(h|cc)$|client/|tests/bench/|tests/lint/",
    ),
    rule(
        r"\bsystem_clock\b|\bCLOCK_REALTIME\b|\bgettimeofday\b",
        "the core has no wall clock",
        applies=r"core/",
    ),
)


def layer_of(path: str) -> str | None:
    """Names the layer a path lies in, None for one outside all layers."""
    for layer in sorted(ARROWS, key=len, reverse=True):
        if re.match(re.escape(layer) + r"(/|(_\w+)?\.\w+$)", path):
            return layer
    return None


def visible_from(layer: str) -> set[str]:
    """Gives the layers that `layer` may include, itself among them."""
    seen: set[str] = set()
    todo = [layer]
    while todo:
        current = todo.pop()
        if current not in seen:
            seen.add(current)
            todo.extend(ARROWS[current])
    return seen


def without_comments(text: str) -> list[str]:
    """Gives the lines of C++ code, comments blanked, line numbers kept."""
    blanked = re.sub(r"/\*.*?\*/", lambda match: "\n" * match.group().count("\n"), text, flags=re.S)
    return [re.sub(r"(?<!:)//.*", "", line) for line in blanked.split("\n")]


def include_fault(path: str, target: str) -> str | None:
    """Says what is wrong with `path` including `target`, a path from the root; None if nothing."""
    seen = layer_of(target)
    if target.startswith(TESTS + "/") and not path.startswith(TESTS + "/"):
        return "only tests include tests"
    if path.startswith(CORE_TESTS):
        if target.startswith(("server/", "proto/", "client/")):
            return "the core's tests see the core only"
        return None
    if path.startswith(TESTS + "/"):
        return None
    layer = layer_of(path)
    if target.startswith(("core/", "server/", "client/", "proto/")) and seen is None:
        return f"{target} lies in no layer; add it to ARROWS"
    if layer is None:
        return "the file lies in no layer; add its folder to ARROWS" if seen else None
    if seen is not None and seen not in visible_from(layer):
        return f"{layer} must not see {seen}"
    return None


def faults(root: Path) -> Iterator[str]:
    """Yields one line for each violation under `root`."""
    for relative in walk(root, ".h", ".cc", ".cpp", ".hpp", ".cu"):
        path = relative.as_posix()
        lines = without_comments((root / relative).read_text(encoding="utf-8"))
        for number, line in enumerate(lines, start=1):
            include = PROJECT_INCLUDE.search(line)
            fault = include_fault(path, include.group(1)) if include else None
            if fault:
                yield f"{path}:{number}: {fault}"
            for each in RULES:
                if not each.applies.match(path) or each.exempt.match(path):
                    continue
                if each.pattern.search(line):
                    yield f"{path}:{number}: {each.reason}"


def main() -> int:
    """Prints the violations and answers 1 if there are any."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2]
    found = list(faults(root))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
