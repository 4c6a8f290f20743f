"""The chart, linted and rendered by Helm itself, and what comes of it held against Kubernetes' schemas."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import chart
import helm_python
import kubernetes_validate
import metric_names
import pytest
import yaml
from chart import CHART
from processes import BIN, ROOT

VALUES = chart.value_files()
# The first with what dynamic resource allocation needs, and the oldest that is tried for the rest.
NEWEST, OLDEST = "1.34.0", "1.29.0"
every_values_file = pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())


@every_values_file
def test_it_is_clean(values: dict[str, Any]) -> None:
    """As `helm lint --strict` sees it."""
    report = helm_python.lint(CHART, values, strict=True)
    assert report["errors"] == []
    assert [each for each in report["messages"] if each["severity"] > 1] == []


def test_claims_are_refused_where_kubernetes_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tried with a bound that Helm's own idea of a cluster is under, which nothing can be told here."""
    copy = tmp_path / "tenure"
    shutil.copytree(CHART, copy)
    template = copy / "templates" / "resourceclaimtemplate.yaml"
    template.write_text(template.read_text().replace("<1.34.0-0", "<9.0.0-0"))
    monkeypatch.setattr(chart, "CHART", copy)
    assert chart.render({})
    with pytest.raises(helm_python.HelmError, match="gpuAccess: dra needs Kubernetes 1.34, not v1"):
        chart.render({"gpuAccess": "dra"})


@every_values_file
def test_its_objects_are_what_kubernetes_takes(values: dict[str, Any]) -> None:
    """Against the schemas of two versions, unknown fields being errors."""
    for each in chart.render(values):
        valid(each)


@pytest.mark.parametrize("path", sorted((CHART / "examples").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_examples_are_what_kubernetes_takes(path: Path) -> None:
    """And are what a client needs: the directory, its group, no more rights than that."""
    text = path.read_text()
    for each in yaml.safe_load_all(text):
        valid(each)
        spec = each["spec"].get("template", each)["spec"]
        if "containers" in spec:
            assert spec["volumes"] == [{"name": "tenure", "hostPath": {"path": "/run/tenure", "type": "Directory"}}]
            group = yaml.safe_load((CHART / "values.yaml").read_text())["podSecurityContext"]["runAsGroup"]
            assert spec["securityContext"]["supplementalGroups"] == [group]
            assert spec["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            gpu = spec["containers"][0]["resources"]
            assert "claims" in gpu or any(name.startswith("nvidia.com/gpu") for name in gpu["limits"])


def valid(document: dict[str, Any]) -> None:
    """Fails with what is wrong; custom resources have no schema here."""
    group = document["apiVersion"].rpartition("/")[0]
    if group == "monitoring.coreos.com":
        assert document["kind"] in ("ServiceMonitor", "PrometheusRule")
        return
    allocates = group == "resource.k8s.io" or "resourceClaims" in json.dumps(document)
    for version in [NEWEST] if allocates else [NEWEST, OLDEST]:
        kubernetes_validate.validate(document, version, strict=True)


@every_values_file
def test_the_daemon_takes_its_configuration(values: dict[str, Any], tmp_path: Path) -> None:
    """The one that is rendered, with the paths moved to where there are some here."""
    rendered = yaml.safe_load(chart.config(chart.render(values)))
    assert rendered["directory"] == "/run/tenure"
    rendered["directory"] = str(tmp_path / "run")
    for root in rendered.get("model_roots") or []:
        assert root["path"] == f"/models/{root['name']}"
        root["path"] = str(tmp_path)
    (tmp_path / "tenured.yaml").write_text(yaml.safe_dump(rendered))
    command = [BIN / "tenured", "--config", tmp_path / "tenured.yaml", "--check-config"]
    if not command[0].exists():
        pytest.skip(f"{command[0]} is not built")
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@every_values_file
def test_the_daemon_has_no_more_rights_than_it_needs(values: dict[str, Any]) -> None:
    """Nobody is privileged, and only the directory's preparation is root, with two capabilities."""
    objects = chart.render(values)
    pod = chart.pod_spec(objects)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    assert pod["automountServiceAccountToken"] is False
    for container in pod["containers"] + pod["initContainers"]:
        rights = container["securityContext"]
        assert rights["readOnlyRootFilesystem"] is True and rights["allowPrivilegeEscalation"] is False
        assert rights["capabilities"]["drop"] == ["ALL"] and "privileged" not in rights
    assert "add" not in chart.daemon(objects)["securityContext"]["capabilities"]
    assert pod["initContainers"][0]["securityContext"]["capabilities"]["add"] == ["CHOWN", "FOWNER"]
    sockets = [each["hostPath"] for each in pod["volumes"] if each["name"] == "sockets"]
    assert sockets == [{"path": "/run/tenure", "type": "DirectoryOrCreate"}]
    models = [each for each in chart.daemon(objects)["volumeMounts"] if each["name"].startswith("models-")]
    assert all(each["readOnly"] for each in models) and len(models) == len(values.get("modelRoots", []))


@every_values_file
def test_the_daemon_takes_no_gpu_from_its_clients(values: dict[str, Any]) -> None:
    """It requests none, whichever way it comes to them."""
    assert "nvidia.com/gpu" not in json.dumps(chart.daemon(chart.render(values))["resources"])


def test_gpus_come_in_the_way_that_is_asked_for() -> None:
    """By the container runtime, by a claim, or not at all."""

    def seen(**values: Any) -> tuple[Any, Any, Any]:
        objects = chart.render(values)
        environment = {each["name"]: each["value"] for each in chart.daemon(objects)["env"]}
        pod = chart.pod_spec(objects)
        claims = [each["resourceClaimTemplateName"] for each in pod.get("resourceClaims", [])]
        assert ("claims" in chart.daemon(objects)["resources"]) == bool(claims)
        return environment["NVIDIA_VISIBLE_DEVICES"], pod.get("runtimeClassName"), claims

    host = [{"name": "host:0", "backend": "host", "total": "1GiB"}]
    assert seen() == ("all", "nvidia", [])
    assert seen(visibleDevices="GPU-1,GPU-2", runtimeClassName="") == ("GPU-1,GPU-2", None, [])
    assert seen(gpuAccess="dra") == ("void", None, ["demo-tenure-gpus"])
    assert seen(gpuAccess="dra", dra={"resourceClaimTemplateName": "mine"}) == ("void", None, ["mine"])
    assert seen(gpuAccess="none", devices=host) == ("void", None, [])
    request = chart.one(chart.render({"gpuAccess": "dra"}), "ResourceClaimTemplate")["spec"]["spec"]["devices"]
    exactly = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "All", "adminAccess": True}
    assert request["requests"] == [{"name": "gpus", "exactly": exactly}]


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ([], "2048Mi"),
        ([{"total": "10GiB"}], "11264Mi"),
        ([{"total": "10GiB", "weights": "95%"}], "12288Mi"),
        ([{"total": "10GiB", "weights": "4GiB", "runtime": "1GiB"}], "7168Mi"),
        ([{"total": "10GiB", "weights": "all-4GiB", "runtime": "10%"}], "9216Mi"),
        ([{"name": "host:0", "total": "1GiB"}, {"name": "gpu:0", "backend": "cuda"}], "2970Mi"),
    ],
)
def test_the_memory_that_is_requested_is_that_of_the_arenas(devices: list[dict[str, str]], expected: str) -> None:
    """And 2 GiB beside them; as a limit too, so that a mistake costs this pod and not the node."""
    resources = chart.daemon(chart.render({"devices": devices}))["resources"]
    assert resources["requests"]["memory"] == resources["limits"]["memory"] == expected


def test_huge_pages_that_must_be_are_requested_as_such() -> None:
    """And not once more as ordinary memory."""
    devices = [{"total": "1GiB", "weights": "512MiB", "runtime": "64MiB", "huge_pages": "require"}]
    resources = chart.daemon(chart.render({"devices": devices, "memory": {"overhead": "1GiB"}}))["resources"]
    assert resources["limits"] == {"memory": "1024Mi", "hugepages-2Mi": "576Mi"}


def test_what_is_given_goes_before_what_is_computed() -> None:
    """Of the resources."""
    resources = chart.daemon(chart.render({"resources": {"requests": {"memory": "3Gi"}}}))["resources"]
    assert resources == {"requests": {"memory": "3Gi"}, "limits": {"memory": "2048Mi"}}


def test_a_pod_has_time_to_drain() -> None:
    """As long as the daemon may take, and ten seconds more; pods are replaced when somebody deletes them."""
    objects = chart.render({"config": {"drain_timeout": "1m30s", "driver_timeout": "500ms"}})
    assert chart.pod_spec(objects)["terminationGracePeriodSeconds"] == 101
    assert chart.pod_spec(chart.render({}))["terminationGracePeriodSeconds"] == 100
    assert chart.one(objects, "DaemonSet")["spec"]["updateStrategy"] == {"type": "OnDelete"}


def test_a_changed_configuration_shows_in_the_pods_annotation() -> None:
    """So that `kubectl get daemonset` tells which pods are up to date."""

    def checksum(**values: Any) -> str:
        template = chart.one(chart.render(values), "DaemonSet")["spec"]["template"]
        found: str = template["metadata"]["annotations"]["checksum/config"]
        return found

    assert checksum() == checksum(podLabels={"a": "b"})
    assert checksum() != checksum(config={"drain_timeout": "31s"})


def test_rules_and_dashboards_are_those_of_the_source() -> None:
    """There is one of each: the chart's are links, and are rendered as they are there."""
    objects = chart.render(VALUES["production"])
    base = VALUES["production"]["prometheusRule"]["runbookBase"]
    groups = []
    for path in metric_names.RULES:
        groups += yaml.safe_load(path.read_text().replace("deploy/RUNBOOK.md", base))["groups"]
    assert chart.one(objects, "PrometheusRule")["spec"]["groups"] == groups
    rendered = {}
    for each in objects:
        if each["kind"] == "ConfigMap" and "tenured.yaml" not in each["data"]:
            assert each["metadata"]["labels"]["grafana_dashboard"] == "1"
            rendered.update(each["data"])
    source = {path.name: path for path in (ROOT / "deploy" / "grafana").glob("*.json")}
    assert rendered.keys() == source.keys()
    for name, text in rendered.items():
        assert json.loads(text) == json.loads(source[name].read_text()), name


def test_what_is_scraped_has_the_labels_that_alerts_and_dashboards_know() -> None:
    """The job, the node, and the cluster if there is one."""
    endpoint = chart.one(chart.render(VALUES["production"]), "ServiceMonitor")["spec"]["endpoints"][0]
    labels = {each["targetLabel"]: each.get("replacement") for each in endpoint["relabelings"]}
    assert labels == {"job": "tenure", "node": None, "cluster": "east"}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"gpuAccess": "all"}, "gpuAccess"),
        ({"replicas": 2}, "replicas"),
        ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
        ({"devices": [{"total": "10 gigabytes"}]}, "total"),
        ({"devices": [{"backend": "rocm"}]}, "backend"),
        ({"devices": [{"backend": "host"}]}, "host:0 must say its total"),
        ({"devices": [{"backend": "host", "total": "all-4GiB"}]}, "a size is a whole number"),
        ({"devices": [{"total": "1GiB", "weights": "90%", "runtime": "20%"}]}, "more than its total"),
        ({"modelRoots": [{"name": "models"}]}, "modelRoots"),
        ({"modelRoots": [{"name": "My models", "hostPath": {"path": "/srv"}}]}, "name"),
        ({"modelRoots": [{"name": "a", "hostPath": {"path": "srv"}}]}, "path"),
        ({"socketDirectory": {"path": "/run/tenure/grpc.sock"}}, "socketDirectory"),
        ({"config": {"directory": "/run/other"}}, "config.directory is the chart's own: set socketDirectory.path"),
        ({"config": {"devices": []}}, "set devices instead"),
        ({"config": {"model_roots": []}}, "set modelRoots instead"),
        ({"config": {"metrics": {"address": ":1"}}}, "set metrics.port instead"),
        ({"config": {"drain_timeout": "soon"}}, "a duration is whole numbers with falling units"),
        ({"terminationGracePeriodSeconds": 60}, "would be killed while it drains"),
        ({"resources": {"limits": {"nvidia.com/gpu": 1}}}, "takes no nvidia.com/gpu"),
        ({"podSecurityContext": {"runAsUser": 0}}, "runAsUser"),
        ({"securityContext": {"privileged": True}}, "privileged"),
        ({"metrics": {"port": 0}}, "port"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_values_are_refused_with_words(values: dict[str, Any], words: str) -> None:
    """That name what is wrong."""
    with pytest.raises(helm_python.HelmError) as refused:
        chart.render(values)
    assert words in str(refused.value)


def test_every_value_has_a_place_in_the_schema() -> None:
    """And the other way round."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
    assert values.keys() == schema.keys() - {"global"}


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
