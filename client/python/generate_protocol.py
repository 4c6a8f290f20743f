#!/usr/bin/env python3
"""Generates the Python code of Tenure's protocol, unless it is there and newer than the protocol.

    generate_protocol.py [FOLDER]

It goes to FOLDER/tenure, FOLDER being this one unless given. Uses the protoc of grpcio-tools, or else
that of the system.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROTO = HERE.parents[1] / "proto"


def sources() -> list[Path]:
    """Finds the protocol's files."""
    found = [*sorted((PROTO / "tenure" / "v1").glob("*.proto")), HERE / "tenure" / "error_detail.proto"]
    if len(found) == 1:
        raise SystemExit(f"no protocol to generate code from in {PROTO}: build in a checkout of Tenure")
    return found


def output_of(source: Path) -> Path:
    """Gives the path of a file's module, relative to the folder that is generated into."""
    root = PROTO if source.is_relative_to(PROTO) else HERE
    relative = source.relative_to(root)
    return relative.with_name(f"{relative.stem}_pb2.py")


def protoc() -> list[str]:
    """Gives the command that runs a protoc."""
    if importlib.util.find_spec("grpc_tools") is None:
        return ["protoc"]
    import grpc_tools

    included = Path(grpc_tools.__file__).parent / "_proto"
    return [sys.executable, "-m", "grpc_tools.protoc", f"-I{included}"]


def is_current(into: Path) -> bool:
    """Tells whether nothing has to be generated."""
    for source in sources():
        output = into / output_of(source)
        if not output.exists() or output.stat().st_mtime < source.stat().st_mtime:
            return False
    return True


def generate(into: Path = HERE) -> None:
    """Brings the generated code in a folder up to date.

    Parameters
    ----------
    into : Path
        The folder that has, or gets, the package `tenure`.
    """
    if is_current(into):
        return
    (into / "tenure" / "v1").mkdir(parents=True, exist_ok=True)
    # Whoever imports meanwhile, or generates too, sees whole files only.
    with tempfile.TemporaryDirectory(dir=into) as fresh:
        outputs = [f"--python_out={fresh}", f"--pyi_out={fresh}"]
        subprocess.run([*protoc(), f"-I{PROTO}", f"-I{HERE}", *outputs, *map(str, sources())], check=True)
        for source in sources():
            for output in (output_of(source), output_of(source).with_suffix(".pyi")):
                os.replace(Path(fresh) / output, into / output)


if __name__ == "__main__":
    generate(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else HERE)
