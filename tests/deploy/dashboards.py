"""Reads the Grafana dashboards as Grafana does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from processes import ROOT

FOLDER = ROOT / "deploy" / "grafana"
# What stands for everything, as the variables' allValue says.
EVERYTHING = {"cluster": ".*", "node": ".*", "device": ".*", "arena": ".*"}


@dataclass(frozen=True)
class Target:
    """One query of a panel."""

    dashboard: str
    panel: str
    ref: str
    expression: str
    legend: str

    @property
    def key(self) -> tuple[str, str, str]:
        """Names it."""
        return (self.dashboard, self.panel, self.ref)

    def filled_in(self, seconds: int, variables: Mapping[str, str] = EVERYTHING) -> str:
        """The query as Grafana sends it, with the range and the rate's interval both so long."""
        query = self.expression
        for name in ("__rate_interval", "__range"):
            query = query.replace(f"${name}", f"{seconds}s")
        for name, value in variables.items():
            query = re.sub(rf"\${name}\b", lambda _: value, query)
        assert "$" not in query, f"{self.key}: {query}"
        return query

    def legend_of(self, labels: Mapping[str, str]) -> str:
        """What Grafana would call a series."""
        return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda match: labels.get(match.group(1), ""), self.legend).strip()


def dashboards() -> dict[str, dict[str, Any]]:
    """Every dashboard by the name of its file."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def panels(dashboard: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Its panels, those of rows among them."""
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", [])


def targets() -> list[Target]:
    """Every query of every panel."""
    return [
        Target(name, panel["title"], target["refId"], target["expr"], target["legendFormat"])
        for name, dashboard in dashboards().items()
        for panel in panels(dashboard)
        for target in panel.get("targets", [])
    ]


def other_queries() -> list[str]:
    """What is asked beside the panels: for variables and annotations."""
    found = []
    for dashboard in dashboards().values():
        found += [each["definition"] for each in dashboard["templating"]["list"] if each["type"] == "query"]
        found += [each["expr"] for each in dashboard["annotations"]["list"] if "expr" in each]
    return found
