"""The dashboards can be imported as they are."""

from __future__ import annotations

import sys
from typing import Any

import dashboards
import pytest

BOARDS = dashboards.dashboards()
every_dashboard = pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS.keys())
# The schema of Grafana 12; it migrates older ones.
SCHEMA = 41
VARIABLES = ["datasource", "cluster", "node", "device", "arena"]


@every_dashboard
def test_it_needs_no_answers_to_be_imported(board: dict[str, Any]) -> None:
    """No inputs to fill in, no id of somebody's database, no data source by name."""
    assert "__inputs" not in board and board["id"] is None
    assert board["schemaVersion"] == SCHEMA
    assert board["uid"] in BOARDS, "the file is called as the dashboard"
    sources = [target["datasource"]["uid"] for panel in dashboards.panels(board) for target in panel.get("targets", [])]
    sources += [panel["datasource"]["uid"] for panel in dashboards.panels(board) if "datasource" in panel]
    assert set(sources) == {"${datasource}"}


@every_dashboard
def test_its_variables_are_those_that_queries_use(board: dict[str, Any]) -> None:
    """And choose everything at first, series without the label among them."""
    variables = {each["name"]: each for each in board["templating"]["list"]}
    assert list(variables) == VARIABLES
    for name in VARIABLES[1:]:
        assert variables[name]["allValue"] == ".*"
        assert variables[name]["includeAll"] and variables[name]["current"]["value"] == ["$__all"]


@every_dashboard
def test_its_panels_lie_side_by_side(board: dict[str, Any]) -> None:
    """On Grafana's grid of 24 columns, none over another; each says what it shows."""
    taken: dict[tuple[int, int], str] = {}
    titles = set()
    identities = set()
    for panel in dashboards.panels(board):
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"], panel["title"]
        if panel["type"] != "row":
            assert panel["title"] not in titles and panel["description"].endswith("."), panel["title"]
            titles.add(panel["title"])
            assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["id"] not in identities
        identities.add(panel["id"])


def test_every_query_heeds_the_variables_that_its_metrics_have() -> None:
    """The cluster and the node always."""
    for target in dashboards.targets():
        for variable in ("$cluster", "$node"):
            assert variable in target.expression, target.key


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
