"""Prometheus' own tool on the rule files, and on their tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import metric_names
import pytest

TESTS = sorted((Path(__file__).parent / "prometheus").glob("*_test.yaml"))


def promtool(*arguments: str | Path) -> None:
    """Runs it, and shows what it says if it fails."""
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, cwd=TESTS[0].parent)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rule_files_are_well_formed() -> None:
    """As `promtool check rules` sees them."""
    promtool("check", "rules", "--lint=all", "--lint-fatal", *metric_names.RULES)


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_the_rules_do_what_their_tests_say(path: Path) -> None:
    """Each alert fires and does not, each recording rule comes to its number."""
    promtool("test", "rules", path)


def test_every_rule_is_tested() -> None:
    """By its name."""
    told = "".join(path.read_text() for path in TESTS)
    names = [rule.get("alert") or rule["record"] for rule in metric_names.rules()]
    assert [name for name in names if name not in told] == []


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
