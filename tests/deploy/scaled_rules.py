"""The alerts sixty times as fast: an hour is a minute, so that a test can wait for them.

Every duration of the real rule files is divided: `for`, the ranges, the offsets, and how long a load may take.
Everything else is as it stands there.
"""

from __future__ import annotations

import re
from pathlib import Path

import yaml

import metric_names
from processes import SCRAPE_INTERVAL

SPEED = 60
_RANGE = re.compile(r"(\[|\boffset )(\d+)([smh])")
_SECONDS = {"s": 1, "m": 60, "h": 3600}
SLOW_LOAD_SECONDS = 60


def _faster(match: re.Match[str]) -> str:
    return f"{match.group(1)}{milliseconds(match.group(2) + match.group(3))}ms"


def milliseconds(duration: str) -> int:
    """A duration of a rule, such as 5m, sixty times as short."""
    return int(duration[:-1]) * _SECONDS[duration[-1]] * 1000 // SPEED


def write(folder: Path) -> list[Path]:
    """Writes the rule files into a folder, and gives their paths."""
    written = []
    for path in metric_names.RULES:
        rules = yaml.safe_load(path.read_text())
        for group in rules["groups"]:
            group["interval"] = SCRAPE_INTERVAL
            for rule in group["rules"]:
                rule["expr"] = _RANGE.sub(_faster, rule["expr"])
                if "for" in rule:
                    rule["for"] = f"{milliseconds(rule['for'])}ms"
                if rule.get("alert") == "TenureLoadsSlow":
                    slow, threshold = rule["expr"].split(" > ")
                    assert threshold == str(SLOW_LOAD_SECONDS)
                    rule["expr"] = f"{slow} > {SLOW_LOAD_SECONDS / SPEED}"
        written.append(folder / path.name)
        written[-1].write_text(yaml.safe_dump(rules))
    return written
