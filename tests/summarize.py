#!/usr/bin/env python3
"""Adds up what the stages of tests/run.sh did and says it in one table and one line.

    tests/summarize.py STAGES.tsv

Each line of the file is one stage: name, compiler, sanitizer, build seconds, test seconds, exit
status, JUnit file. A stage whose JUnit file is missing failed before it could run a test. The exit
status is 1 if anything failed or nothing passed.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Stage:
    """One line of the table.

    Attributes
    ----------
    name, compiler, sanitizer : str
        What ran and how it was built.
    build_seconds, test_seconds : str
        How long it took.
    passed : int
        Tests that passed.
    passed_on_cuda : int
        Of these, those on the CUDA backend, which have it in their name.
    failed : list[str]
        The names of those that failed.
    skipped : list[tuple[str, str]]
        Name and reason of those that were skipped.
    """

    name: str
    compiler: str
    sanitizer: str
    build_seconds: str
    test_seconds: str
    passed: int = 0
    passed_on_cuda: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)


def skip_reason(output: str, message: str) -> str:
    """Finds why a test was skipped in its output, else gives the runner's own message."""
    ours = re.search(r"^SKIP: (.+)$", output, flags=re.M)
    if ours:
        return ours.group(1)
    googletest = re.search(r": Skipped\n(.+)$", output, flags=re.M)
    if googletest:
        return googletest.group(1)
    return message.split("\n")[0] or "no reason given"


def count(stage: Stage, junit: Path) -> None:
    """Adds the test cases of a JUnit file to `stage`.

    A test that ctest could not start stands in the file as "notrun" without a skip of its own
    making; it counts as failed.
    """
    for case in ElementTree.parse(junit).getroot().iter("testcase"):
        name = case.get("name", "")
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            stage.failed.append(name)
        elif skipped is not None:
            message = skipped.get("message", "")
            if case.get("status") == "notrun" and not message.startswith("SKIP_"):
                stage.failed.append(f"{name} ({message or 'not run'})")
            else:
                output = case.findtext("system-out", "")
                stage.skipped.append((name, skip_reason(output, message)))
        elif case.get("status") == "disabled":
            stage.skipped.append((name, "disabled"))
        else:
            stage.passed += 1
            stage.passed_on_cuda += "cuda" in name.lower()


def read_stages(path: Path) -> list[Stage]:
    """Reads the file that tests/run.sh wrote."""
    stages: list[Stage] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        name, compiler, sanitizer, build_seconds, test_seconds, status, junit = line.split("\t")
        stage = Stage(name, compiler, sanitizer, build_seconds, test_seconds)
        if Path(junit).is_file():
            count(stage, Path(junit))
            if status != "0" and not stage.failed:
                stage.failed.append(f"the runner ended with {status}")
            elif not stage.passed and not stage.failed and not stage.skipped:
                stage.failed.append("no test ran")
        else:
            stage.failed.append(f"ended with {status} before a test ran")
        stages.append(stage)
    return stages


def print_table(stages: list[Stage]) -> None:
    """Prints the stages, each column as wide as it needs."""
    rows = [("stage", "compiler", "sanitizer", "passed", "on cuda", "failed", "skipped", "build s", "test s")]
    for stage in stages:
        counts = (stage.passed, stage.passed_on_cuda, len(stage.failed), len(stage.skipped))
        times = (stage.build_seconds, stage.test_seconds)
        rows.append((stage.name, stage.compiler, stage.sanitizer, *map(str, counts), *times))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def main() -> int:
    """Prints table, failures, skips and the closing line."""
    stages = read_stages(Path(sys.argv[1]))
    print()
    print_table(stages)
    for stage in stages:
        for name in stage.failed:
            print(f"failed in {stage.name}: {name}")
    for stage in stages:
        for reason, times in Counter(reason for _, reason in stage.skipped).items():
            print(f"skipped in {stage.name}: {times} ({reason})")
    passed = sum(stage.passed for stage in stages)
    failed = sum(len(stage.failed) for stage in stages)
    skipped = sum(len(stage.skipped) for stage in stages)
    on_cuda = sum(stage.passed_on_cuda for stage in stages)
    print(f"\n{passed} passed ({on_cuda} on the CUDA backend), {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
