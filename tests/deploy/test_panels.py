"""Every panel of the dashboards, asked of a real Prometheus that scrapes a live daemon, shows what there is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import dashboards
import known_ledger
import metric_names
import panel_numbers
import pytest
from exposition import Scrape, scrape
from processes import ROOT, Daemon, Prometheus, eventually

# Longer than it takes, so that a rate over it is a count through it.
RANGE = 600
TOLERANCE = 0.06
# What the variables are set to, with labels of a cluster and a node and without.
# Of a load that failed before a device was asked, the device is `none`.
CHOICES = {
    "plain": [dashboards.EVERYTHING, {**dashboards.EVERYTHING, "device": "(host:0|none)"}],
    "labelled": [
        dashboards.EVERYTHING,
        {"cluster": "east", "node": "(n1|n2)", "device": "(host:0|none)", "arena": "(weights|runtime)"},
    ],
}


@dataclass(frozen=True)
class Known:
    """The daemon whose numbers are known, and two that scrape it, with and without more labels."""

    scrape: Scrape
    prometheus: dict[str, Prometheus]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Known]:
    """Brings it about."""
    folder: Path = tmp_path_factory.mktemp("panels")
    with ExitStack() as stack:
        daemon = stack.enter_context(Daemon(folder, known_ledger.CONFIG))
        labels = {"plain": {}, "labelled": {"cluster": "east", "node": "n1"}}
        servers = {
            name: stack.enter_context(Prometheus(folder / name, daemon.metrics_address, each))
            for name, each in labels.items()
        }
        stack.enter_context(known_ledger.known(daemon))
        now = scrape(daemon.metrics_address)
        calls = f"sum(tenure_rpcs_total) >= {now.sum('tenure_rpcs_total')}"
        # Rates end up to one scrape's interval beyond what was scraped: after so many that is within tolerance.
        many = f"count_over_time(tenure_build_info[{RANGE}s]) > 25"
        for server in servers.values():
            for what in (calls, many):
                eventually("all of it is scraped", lambda server=server, what=what: server.query(what))
        yield Known(now, servers)


def shown(server: Prometheus, target: dashboards.Target, variables: dict[str, str]) -> dict[str, float]:
    """What a query shows, by legend."""
    answer = server.query(target.filled_in(RANGE, variables))
    series = {target.legend_of(labels): value for labels, value in answer}
    assert len(series) == len(answer), f"{target.key}: two series of one name in {answer}"
    return series


def expected_of(known: Known, target: dashboards.Target) -> dict[str, float] | None:
    """What it is to show; None: something within bounds."""
    board = {
        panel_numbers.OVERVIEW: panel_numbers.overview,
        panel_numbers.LOADS: panel_numbers.loads_and_leases,
    }[target.dashboard]
    numbers = board(known.scrape, RANGE)
    key = (target.panel, target.ref)
    if key in panel_numbers.BOUNDS:
        return None
    assert key in numbers, f"nobody has said what {target.key} is to show"
    return numbers[key]


@pytest.mark.parametrize("labels", ["plain", "labelled"])
@pytest.mark.parametrize("target", dashboards.targets(), ids=lambda target: "-".join(target.key))
def test_a_panel_shows_what_there_is(world: Known, target: dashboards.Target, labels: str) -> None:
    """Whatever labels Prometheus adds, and whatever the variables choose."""
    for variables in CHOICES[labels]:
        series = shown(world.prometheus[labels], target, variables)
        expected = expected_of(world, target)
        if expected is None:
            bounds = panel_numbers.BOUNDS[target.panel, target.ref]
            assert series.keys() == bounds.keys(), target.key
            for name, (least, most) in bounds.items():
                assert least <= series[name] <= most, target.key
        else:
            assert series == pytest.approx(expected, rel=TOLERANCE), target.key


@pytest.mark.parametrize("target", dashboards.targets(), ids=lambda target: "-".join(target.key))
def test_a_panel_of_another_node_shows_nothing(world: Known, target: dashboards.Target) -> None:
    """Every query heeds the variables."""
    elsewhere = {**dashboards.EVERYTHING, "node": "n9"}
    answer = world.prometheus["labelled"].query(target.filled_in(RANGE, elsewhere))
    assert all(value == 0 for _, value in answer) and len(answer) <= 1, target.key


def test_what_dashboards_and_rules_name_is_exported(world: Known) -> None:
    """By its name; what has no series on this machine, such as a GPU's, by its TYPE line."""
    exported = world.scrape.families() | world.scrape.names()
    missing = {name: where for name, where in metric_names.named_where().items() if name not in exported}
    assert missing == {}


def test_the_readme_explains_what_is_exported(world: Known) -> None:
    """Every family, by its whole name, in the section that explains the metrics."""
    section = metrics_section((ROOT / "README.md").read_text())
    missing = sorted(name for name in world.scrape.families() if name not in metric_names.spelt_out(section))
    assert missing == []


def metrics_section(readme: str) -> str:
    """The README's section on metrics."""
    return readme.split("\n## Metrics\n", 1)[1].split("\n## ", 1)[0]


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
