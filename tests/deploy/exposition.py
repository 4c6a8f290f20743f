"""Reads what /metrics says."""

from __future__ import annotations

import re
import urllib.request
from dataclasses import dataclass

_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_HISTOGRAM_SUFFIX = re.compile(r"_(bucket|sum|count)$")


@dataclass(frozen=True)
class Sample:
    """One line."""

    name: str
    labels: dict[str, str]
    value: float


class Scrape:
    """What one scrape answered."""

    def __init__(self, text: str) -> None:
        self.samples: list[Sample] = []
        self.types: dict[str, str] = {}
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                name, kind = line.split()[2:4]
                self.types[name] = kind
            elif line and not line.startswith("#"):
                match = _SAMPLE.match(line)
                assert match, f"no sample: {line}"
                name, labels, value = match.groups()
                self.samples.append(Sample(name, dict(_LABEL.findall(labels or "")), float(value)))

    def series(self, name: str, **labels: str) -> list[Sample]:
        """The samples of a name that have these labels."""
        return [each for each in self.samples if each.name == name and labels.items() <= each.labels.items()]

    def sum(self, name: str, **labels: str) -> float:
        """The sum of those, of which there must be one at least."""
        found = self.series(name, **labels)
        assert found, f"/metrics has no {name}{labels}"
        return sum(each.value for each in found)

    def by(self, name: str, label: str, **labels: str) -> dict[str, float]:
        """Sums for each value of a label."""
        sums: dict[str, float] = {}
        for each in self.series(name, **labels):
            sums[each.labels[label]] = sums.get(each.labels[label], 0) + each.value
        return sums

    def names(self) -> set[str]:
        """Every name that a query may use, those of a histogram's parts among them."""
        return {each.name for each in self.samples}

    def families(self) -> set[str]:
        """Every name that has a TYPE line."""
        return set(self.types)

    def quantile(self, quantile: float, name: str, **labels: str) -> float:
        """What histogram_quantile makes of a histogram's buckets, summed over all that have these labels."""
        counts: dict[float, float] = {}
        for each in self.series(f"{name}_bucket", **labels):
            bound = float(each.labels["le"])
            counts[bound] = counts.get(bound, 0) + each.value
        bounds = sorted(counts)
        rank = quantile * counts[bounds[-1]]
        lower, below = 0.0, 0.0
        for bound in bounds:
            if counts[bound] >= rank:
                return lower + (bound - lower) * (rank - below) / (counts[bound] - below)
            lower, below = bound, counts[bound]
        raise AssertionError(f"{name} is empty")


def scrape(address: str) -> Scrape:
    """Scrapes a daemon's /metrics."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        return Scrape(answer.read().decode())


def family_of(name: str, families: set[str]) -> str:
    """The family that a name belongs to: its own, or the histogram that it is part of."""
    return name if name in families else _HISTOGRAM_SUFFIX.sub("", name)
