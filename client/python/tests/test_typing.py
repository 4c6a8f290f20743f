"""The package is what its type hints say, if there is somebody to tell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def test_mypy_finds_nothing() -> None:
    pytest.importorskip("mypy")
    root = Path(__file__).parents[1]
    checked = subprocess.run([sys.executable, "-m", "mypy"], cwd=root, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
