"""Finds the names of metrics in what is written about them."""

from __future__ import annotations

import re

import yaml

import dashboards
from processes import ROOT

RULES = sorted((ROOT / "deploy" / "prometheus").glob("*.yaml"))
# What the daemon exports, as a query writes it; recording rules have colons.
_NAME = re.compile(r"(?<![\w:$])((?:tenure|process)_[a-z0-9_]+)(?![\w:])")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring)\s*\([^)]*\)")


def names_in(query: str) -> set[str]:
    """The daemon's metrics that a query reads."""
    return set(_NAME.findall(_GROUPING.sub("", _STRING.sub('""', query))))


def rules() -> list[dict[str, str]]:
    """Every rule of every rule file."""
    return [
        rule
        for path in RULES
        for group in yaml.safe_load(path.read_text())["groups"]
        for rule in group["rules"]
    ]


def named_where() -> dict[str, str]:
    """Every metric that a dashboard or a rule reads, with one place that does."""
    found: dict[str, str] = {}
    for target in dashboards.targets():
        found.update(dict.fromkeys(names_in(target.expression), " / ".join(target.key)))
    for query in dashboards.other_queries():
        found.update(dict.fromkeys(names_in(query), query))
    for rule in rules():
        found.update(dict.fromkeys(names_in(rule["expr"]), rule.get("record") or rule["alert"]))
    return found


# `tenure_leases_{granted,released}_total{device}`: alternatives inside a name, labels behind it.
_ALTERNATIVES = re.compile(r"((?:tenure|process)_[a-z0-9_]*)\{([a-z0-9_,]+)\}(_[a-z0-9_]+)")


def spelt_out(text: str) -> set[str]:
    """The metrics that a text names, alternatives in braces spelt out."""
    found = set(_NAME.findall(text))
    for before, alternatives, after in _ALTERNATIVES.findall(text):
        found.update(before + each + after for each in alternatives.split(","))
    return found
