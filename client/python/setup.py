"""Adds the generated protocol code to what setuptools builds; pyproject.toml says the rest."""

import importlib.metadata
import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent


class BuildWithProtocol(build_py):
    """Generates the protocol code beside the built modules, or in place for an editable install."""

    def run(self) -> None:
        """Builds, then generates."""
        super().run()
        into = HERE if self.editable_mode else Path(self.build_lib).resolve()
        subprocess.run([sys.executable, str(HERE / "generate_protocol.py"), str(into)], check=True)


def protobuf_requirement() -> str:
    """Gives the runtime that the generated code asks for: what its generator itself requires."""
    try:
        of_generator = importlib.metadata.requires("grpcio-tools") or []
    except importlib.metadata.PackageNotFoundError:
        of_generator = []
    return next((each for each in of_generator if each.startswith("protobuf")), "protobuf>=4.21")


setup(
    cmdclass={"build_py": BuildWithProtocol},
    install_requires=["grpcio>=1.51", "numpy>=1.24", protobuf_requirement()],
)
