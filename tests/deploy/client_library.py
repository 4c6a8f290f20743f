"""The Python client out of this tree, for the test and for the programs that it starts.

To be imported instead of `tenure` itself.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

CLIENT = str(Path(__file__).resolve().parents[2] / "client" / "python")
sys.path.insert(0, CLIENT)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [CLIENT, os.environ.get("PYTHONPATH")]))

import generate_protocol  # noqa: E402

generate_protocol.generate()

import tenure  # noqa: E402

__all__ = ["tenure"]
