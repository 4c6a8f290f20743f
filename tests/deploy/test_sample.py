"""What the images run, without containers: their configuration, and the sample client."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import client_library  # noqa: F401  the sample needs it in its path
import pytest
import yaml
from processes import PATIENCE, ROOT, Daemon

FOLDER = ROOT / "deploy" / "docker"


def test_the_sample_client_serves_from_the_images_configuration(tmp_path: Path) -> None:
    """Which is moved to where there is room for it here; the client writes the model itself."""
    config = yaml.safe_load((FOLDER / "tenured.yaml").read_text())
    config["directory"] = "{directory}"
    config["model_roots"][0]["path"] = "{models}"
    config["metrics"]["address"] = "127.0.0.1:0"
    config["devices"] = [{"total": "256MiB"}]
    text = yaml.safe_dump(config, default_style='"').replace("{", "{{").replace("}", "}}")
    for name in ("directory", "models"):
        text = text.replace(f"{{{{{name}}}}}", f"{{{name}}}")
    with Daemon(tmp_path, text) as daemon:
        done = subprocess.run(
            [sys.executable, FOLDER / "sample_client.py", "--models", daemon.models, "--requests", "5"],
            env={**os.environ, "TENURE_DIR": str(daemon.directory)},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        assert "sample is online: fresh, 16777216 bytes copied" in done.stdout
        assert "served 5 requests" in done.stdout
        assert daemon.ledger("weights")["leased"] == 0 and daemon.ledger("runtime")["leased"] == 0


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
