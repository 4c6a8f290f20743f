"""The Dockerfile and the Compose file, as far as that can be known without building an image."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import compose
import pytest
import yaml
from processes import BIN, ROOT

FOLDER = ROOT / "deploy" / "docker"
DOCKERFILE = FOLDER / "Dockerfile"
COMPOSE = Path(compose.__file__).parent / "docker-compose"


def instructions() -> list[tuple[str, str]]:
    """Every instruction, lines that go on joined."""
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(), flags=re.M).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]  # type: ignore[misc]


def stages() -> dict[str, list[tuple[str, str]]]:
    """The instructions of each stage, those of the stage that it starts from among them."""
    found: dict[str, list[tuple[str, str]]] = {}
    name = ""
    for instruction, rest in instructions():
        if instruction == "FROM":
            base, name = re.fullmatch(r"(\S+) AS (\S+)", rest).groups()  # type: ignore[union-attr]
            found[name] = list(found.get(base, []))
        elif name:
            found[name].append((instruction, rest))
    return found


def services(*files: str) -> dict[str, Any]:
    """The services, as Compose itself reads the files."""
    arguments = [argument for file in files for argument in ("-f", str(FOLDER / file))]
    done = subprocess.run([COMPOSE, *arguments, "config", "--format", "json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "warn" not in done.stderr.lower(), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["services"]
    return found


def test_hadolint_has_nothing_to_say() -> None:
    """Of the Dockerfile."""
    done = subprocess.run(["hadolint", DOCKERFILE], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_what_is_copied_is_there() -> None:
    """Out of the project, or out of an earlier stage; and .dockerignore lets it in."""
    admitted = (FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
    names = list(stages())
    for name, own in stages().items():
        for instruction, rest in own:
            if instruction != "COPY":
                continue
            source_stage = re.match(r"--from=(\S+)", rest)
            if source_stage:
                assert names.index(source_stage.group(1)) < names.index(name), rest
                continue
            for source in rest.split()[:-1]:
                assert (ROOT / source).exists(), rest
                assert f"!{source.split('/')[0]}" in admitted, rest


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_an_image_runs_as_nobody_in_particular(target: str) -> None:
    """It says how it is stopped, how it is asked for its health, and what it is."""
    stage = stages()[target]
    of = {instruction: rest for instruction, rest in stage}
    assert of["USER"] == "64400:64400"
    assert of["STOPSIGNAL"] == "SIGTERM"
    assert of["ENTRYPOINT"] == '["tenured"]'
    assert re.search(r'--timeout=\S+ .*CMD \["tenurectl", "health"\]$', of["HEALTHCHECK"])
    labels = re.findall(r"org\.opencontainers\.image\.(\w+)=", of["LABEL"])
    assert labels == ["title", "description", "licenses", "version", "revision"]
    assert ("NVIDIA_VISIBLE_DEVICES" in of["ENV"]) == (target == "cuda")


def test_a_build_without_a_target_serves_without_a_gpu() -> None:
    """The last stage is what it makes."""
    assert list(stages())[-1] == "cpu"


def test_the_image_has_the_libraries_that_the_programs_want() -> None:
    """Each is of a package that packages.txt names for running, or that those depend on."""
    program = BIN / "tenured"
    if not program.exists() or not Path("/usr/bin/dpkg").exists():
        pytest.skip("needs the build, on Debian")
    installed = packages("run") | {"libc6", "libgcc-s1", "libstdc++6", "zlib1g"}
    for _ in range(10):
        depends = subprocess.run(
            ["dpkg-query", "--show", "--showformat=${Depends}, ${Pre-Depends}\n", *installed],
            capture_output=True,
            text=True,
        ).stdout
        installed |= {re.split(r"[ :(]", each.strip())[0] for each in re.split(r"[,|\n]", depends) if each.strip()}
    linked = subprocess.run(["ldd", program, BIN / "tenurectl"], capture_output=True, text=True, check=True).stdout
    libraries = {path for path in re.findall(r"=> (/\S+)", linked) if "libtenure_client" not in path}
    owners = owners_of(libraries)
    assert {path for path in libraries if not owners[path] & installed} == set(), owners


def owners_of(libraries: set[str]) -> dict[str, set[str]]:
    """The packages that have each file, which may be listed by its path before /usr was merged or after."""
    paths = {
        alias: path
        for path in libraries
        for alias in (path, os.path.realpath(path), path.removeprefix("/usr"), f"/usr{path}")
    }
    found: dict[str, set[str]] = {path: set() for path in libraries}
    listed = subprocess.run(["dpkg-query", "--search", *paths], capture_output=True, text=True).stdout
    for line in listed.splitlines():
        package, _, path = line.partition(": ")
        if path in paths:
            found[paths[path]].add(package.split(":")[0])
    return found


def packages(*needs: str) -> set[str]:
    """The packages of packages.txt with one of these needs."""
    lines = (ROOT / "deploy" / "packages.txt").read_text().splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    return {row[0] for row in rows if row[1] in needs}


@pytest.mark.skipif(not Path("/usr/bin/apt-cache").exists(), reason="asks Debian's package lists")
def test_debian_has_every_package() -> None:
    """Those of packages.txt, and those that the Dockerfile installs itself."""
    named = packages("run", "build", "test")
    for _, rest in instructions():
        for listed in re.findall(r"apt-get install --yes --no-install-recommends ([a-z0-9 -]+)", rest):
            named |= set(listed.split())
    known = subprocess.run(["apt-cache", "pkgnames"], capture_output=True, text=True, check=True).stdout.split()
    if len(known) < 10_000:
        pytest.skip("this machine has no package lists")
    assert named - set(known) == set()


def test_compose_understands_the_files() -> None:
    """And what they come to is what a daemon, its client and its watchers need."""
    plain = services("compose.yaml")
    assert plain.keys() == {"tenured", "client", "prometheus", "grafana"}
    for name in ("tenured", "client"):
        assert plain[name]["cap_drop"] == ["ALL"] and plain[name]["read_only"] is True
        assert plain[name]["build"]["target"] in stages()
    shared = {each["target"]: each for each in plain["client"]["volumes"]}
    assert shared["/run/tenure"]["type"] == "volume" and shared["/run/tenure"]["read_only"] is True
    for service in plain.values():
        for port in service.get("ports", []):
            assert port["host_ip"] == "127.0.0.1", "nothing of this is for the network"
        for volume in service.get("volumes", []):
            assert volume["type"] == "volume" or Path(volume["source"]).exists(), volume
    gpu = services("compose.yaml", "compose.cuda.yaml")["tenured"]
    assert gpu["build"]["target"] == "cuda"
    assert gpu["deploy"]["resources"]["reservations"]["devices"][0]["driver"] == "nvidia"


def test_what_is_mounted_fits_together() -> None:
    """Prometheus finds the rules and the daemon, Grafana the dashboards and Prometheus."""
    plain = services("compose.yaml")
    mounted = {each["target"]: Path(each["source"]) for each in plain["prometheus"]["volumes"] if each["source"][0] == "/"}
    prometheus = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())
    rules = mounted["/etc/prometheus/rules"]
    assert prometheus["rule_files"] == ["/etc/prometheus/rules/tenure.*.yaml"]
    assert sorted(rules.glob("tenure.*.yaml")) == sorted((ROOT / "deploy" / "prometheus").glob("*.yaml"))
    scrape = prometheus["scrape_configs"][0]
    assert scrape["job_name"] == "tenure" and scrape["static_configs"][0]["targets"] == ["tenured:9400"]
    assert yaml.safe_load((FOLDER / "tenured.yaml").read_text())["metrics"]["address"].endswith(":9400")
    dashboards = yaml.safe_load((FOLDER / "grafana" / "dashboards.yaml").read_text())
    path = dashboards["providers"][0]["options"]["path"]
    sources = {each["target"]: each["source"] for each in plain["grafana"]["volumes"]}
    assert Path(sources[path]) == ROOT / "deploy" / "grafana"
    home = plain["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (Path(sources[path]) / Path(home).name).exists() and str(Path(home).parent) == path
    datasource = yaml.safe_load((FOLDER / "grafana" / "datasource.yaml").read_text())["datasources"][0]
    assert datasource["url"] == "http://prometheus:9090" and datasource["isDefault"] is True


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
