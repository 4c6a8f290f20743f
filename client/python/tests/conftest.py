"""Generates the protocol's code, then starts a daemon for each test that wants one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import generate_protocol
import pytest

generate_protocol.generate()

from daemon import Daemon  # noqa: E402
from tenure import BufferPool, Client  # noqa: E402


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon with room for 64 MiB of weights."""
    with Daemon(tmp_path) as running:
        yield running


@pytest.fixture
def small_daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon with room for 8 MiB of weights."""
    with Daemon(tmp_path, capacity="8MiB") as running:
        yield running


@pytest.fixture
def pool_daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon with room for 64 MiB of buffers."""
    with Daemon(tmp_path, runtime=64) as running:
        yield running


@pytest.fixture
def pool_client(pool_daemon: Daemon) -> Iterator[Client]:
    """A client of `pool_daemon`."""
    with pool_daemon.connect() as connected:
        yield connected


@pytest.fixture
def pool(pool_client: Client) -> Iterator[BufferPool]:
    """The pool of `pool_client`."""
    with pool_client.open_pool() as opened:
        yield opened


@pytest.fixture
def client(daemon: Daemon) -> Iterator[Client]:
    """A client of `daemon`."""
    with daemon.connect() as connected:
        yield connected
