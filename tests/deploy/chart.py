"""Renders the Helm chart by Helm itself, as a library."""

from __future__ import annotations

from typing import Any

import helm_python
import yaml

from processes import ROOT

CHART = ROOT / "deploy" / "helm" / "tenure"
RELEASE = "demo"
NAMESPACE = "serving"


def value_files() -> dict[str, dict[str, Any]]:
    """The values of each file under ci, and those that the chart has by itself."""
    found: dict[str, dict[str, Any]] = {"default": {}}
    for path in sorted((CHART / "ci").glob("*-values.yaml")):
        found[path.stem.removesuffix("-values")] = yaml.safe_load(path.read_text())
    return found


def merged(values: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Values with others laid over them."""
    result = dict(values)
    for key, value in more.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


def render(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Every object, as `helm template` gives them. Raises what Helm says of wrong values."""
    with helm_python.Chart.load(CHART) as chart:
        chart.validate_schema(values)
        files = chart.render(values, name=RELEASE, namespace=NAMESPACE)
    return [
        document
        for path, text in files.items()
        if not path.endswith("NOTES.txt")
        for document in yaml.safe_load_all(text)
        if document
    ]


def one(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """The only object of a kind."""
    found = [each for each in objects if each["kind"] == kind]
    assert len(found) == 1, [each["kind"] for each in objects]
    return found[0]


def pod_spec(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """Of the daemon's pods."""
    spec: dict[str, Any] = one(objects, "DaemonSet")["spec"]["template"]["spec"]
    return spec


def daemon(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """The daemon's container."""
    containers: list[dict[str, Any]] = pod_spec(objects)["containers"]
    assert [each["name"] for each in containers] == ["tenured"]
    return containers[0]


def config(objects: list[dict[str, Any]]) -> str:
    """What the daemon is configured with."""
    maps = [each for each in objects if each["kind"] == "ConfigMap" and "tenured.yaml" in each["data"]]
    assert len(maps) == 1
    text: str = maps[0]["data"]["tenured.yaml"]
    return text
