"""Leases and what they show."""

from __future__ import annotations

import gc
import os
import resource
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from daemon import Daemon, eventually
from safetensors_file import ModelFile, write, write_floats
from tenure import Client, LeaseLostError, ModelState, Reuse, TenureError, WeightLease
from tenure._connection import Connection
from tenure._deadline import Deadline
from tenure.v1 import model_pb2

SPECS = {
    "layer.0.weight": ("F32", (64, 33)),
    "layer.0.bias": ("F16", (33,)),
    "ids": ("I64", (7, 3)),
    "mask": ("BOOL", (5,)),
    "scalar": ("F32", ()),
    "nothing": ("F32", (0, 4)),
    "half": ("BF16", (16, 2)),
    "eighth": ("F8_E4M3", (9,)),
    # Longer than a segment.
    "large": ("U8", (3 << 20,)),
}


def shows(lease: WeightLease, file: ModelFile) -> bool:
    """Tells whether a lease shows exactly a file's bytes."""
    return {name: lease.raw(name).tobytes() for name in lease} == file.tensors


def test_a_lease_shows_every_tensor_of_the_file(daemon: Daemon, client: Client) -> None:
    file = write(daemon.models / "a.safetensors", SPECS)
    loaded = client.load("a", "models/a.safetensors")
    assert loaded.reuse is Reuse.FRESH
    assert loaded.model.state is ModelState.ACTIVE
    with client.acquire("a") as lease:
        assert lease.valid
        assert shows(lease, file)
        assert list(lease) == sorted(SPECS)
        assert len(lease) == len(SPECS)
        assert "ids" in lease and "no such tensor" not in lease
        assert {place.name: (place.dtype, place.shape) for place in lease.tensors()} == SPECS
        for name in ("layer.0.weight", "layer.0.bias", "ids", "mask", "scalar", "nothing", "large"):
            assert lease[name].shape == SPECS[name][1]
            assert lease[name].tobytes() == file.tensors[name]
        assert lease["layer.0.weight"].dtype == np.float32
        with pytest.raises(KeyError):
            lease["no such tensor"]


def test_a_dtype_that_numpy_lacks_is_read_as_bytes(daemon: Daemon, client: Client) -> None:
    file = write(daemon.models / "a.safetensors", SPECS)
    with client.load("a", file.path, acquire=True).lease as lease:
        with pytest.raises(TypeError, match="BF16"):
            lease["half"]
        assert lease.raw("half").dtype == np.uint8
        assert lease.place("half").dtype == "BF16"


def test_views_are_read_only_and_copy_nothing(daemon: Daemon, client: Client) -> None:
    file = write(daemon.models / "a.safetensors", SPECS)
    with client.load("a", file.path, acquire=True).lease as lease:
        view = lease["layer.0.weight"]
        assert np.shares_memory(view, lease.raw("layer.0.weight"))
        assert view.ctypes.data % 64 == 0
        with pytest.raises(ValueError, match="read-only"):
            view[0, 0] = 1
        with pytest.raises(ValueError):
            view.setflags(write=True)
        assert not lease["nothing"].flags.writeable


def test_leasing_again_takes_no_memory_over_the_socket(daemon: Daemon, client: Client) -> None:
    file = write_floats(daemon.models / "a.safetensors", 5)
    client.load("a", file.path)
    client.acquire("a").release()
    exports = client.status().devices[0].exports
    assert exports > 0
    for _ in range(10):
        with client.acquire("a") as lease:
            assert shows(lease, file)
    assert client.status().devices[0].exports == exports
    assert client.mapped_region_count == 1


def test_threads_that_lease_at_once_share_one_mapping(daemon: Daemon, client: Client) -> None:
    file = write_floats(daemon.models / "a.safetensors", 20)
    segments = client.load("a", file.path).segments_created

    def lease_and_compare(_: int) -> bool:
        with client.acquire("a") as lease:
            return shows(lease, file)

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(lease_and_compare, range(32)))
    assert client.status().devices[0].exports == segments
    assert client.mapped_region_count == 1


def test_a_region_of_many_segments_comes_in_several_batches(tmp_path: Path) -> None:
    with Daemon(tmp_path, capacity="160MiB") as daemon, daemon.connect() as client:
        file = write_floats(daemon.models / "a.safetensors", 140)
        loaded = client.load("a", file.path, acquire=True)
        assert loaded.segments_created > 64
        with loaded.lease as lease:
            assert shows(lease, file)


def test_memory_that_this_process_has_no_room_to_receive_is_given_back(
    daemon: Daemon, client: Client
) -> None:
    file = write_floats(daemon.models / "a.safetensors", 10)
    client.load("a", file.path)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    next_fd = os.dup(0)
    os.close(next_fd)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_fd + 1, limits[1]))
    try:
        with pytest.raises(TenureError) as refused:
            client.acquire("a")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert refused.value.reason == "MAPPING"
    eventually(lambda: not client.get_model("a").holders)
    with client.acquire("a") as lease:
        assert shows(lease, file)


def test_memory_that_is_not_the_hosts_is_refused_by_name_and_given_back(
    daemon: Daemon, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    bind = Connection.bind

    def bind_as_cuda(
        connection: Connection, granted: model_pb2.WeightLease, called_at: float, deadline: Deadline
    ) -> WeightLease:
        granted.backend = "cuda"
        return bind(connection, granted, called_at, deadline)

    file = write_floats(daemon.models / "a.safetensors", 1)
    client.load("a", file.path)
    monkeypatch.setattr(Connection, "bind", bind_as_cuda)
    with pytest.raises(TenureError, match="maps memory of the host only") as refused:
        client.acquire("a")
    assert refused.value.reason == "UNSUPPORTED_BACKEND"
    assert refused.value.values == {"device": "host:0", "backend": "cuda"}
    assert client.mapped_region_count == 0
    eventually(lambda: not client.get_model("a").holders)


def test_a_successor_in_place_is_read_through_the_mapping_that_is_there(
    daemon: Daemon, client: Client
) -> None:
    a = write_floats(daemon.models / "a.safetensors", 5, seed=1)
    b = write_floats(daemon.models / "b.safetensors", 5, seed=2)
    with client.load("a", a.path, acquire=True).lease as lease:
        address, generation = lease["w"].ctypes.data, lease.generation
    assert client.unload("a").state is ModelState.RETAINED
    exports = client.status().devices[0].exports

    adopted = client.load("b", b.path, acquire=True)
    assert adopted.reuse is Reuse.ADOPTED
    with adopted.lease as lease:
        assert lease["w"].ctypes.data == address
        assert lease.generation > generation
        assert shows(lease, b)
    assert client.status().devices[0].exports == exports


def test_a_released_lease_refuses_to_be_read(daemon: Daemon, client: Client) -> None:
    file = write_floats(daemon.models / "a.safetensors", 1)
    lease = client.load("a", file.path, acquire=True).lease
    lease.release()
    lease.release()
    assert not lease.valid
    with pytest.raises(LeaseLostError) as refused:
        lease["w"]
    assert refused.value.reason == "RELEASED"
    assert not client.get_model("a").holders


def test_a_dropped_lease_is_released_once_its_last_array_is_gone(daemon: Daemon, client: Client) -> None:
    file = write_floats(daemon.models / "a.safetensors", 1)
    view = client.load("a", file.path, acquire=True).lease["w"][3:]
    gc.collect()
    assert client.get_model("a").holders[0].lease_count == 1
    assert view.tobytes() == file.tensors["w"][12:]
    del view
    eventually(lambda: not client.get_model("a").holders)


def test_an_array_keeps_the_session_of_a_dropped_client(daemon: Daemon) -> None:
    file = write_floats(daemon.models / "a.safetensors", 1)
    view = daemon.connect().load("a", file.path, acquire=True).lease["w"]
    gc.collect()
    with daemon.connect() as observer:
        assert observer.get_model("a").holders[0].lease_count == 1
        assert view.tobytes() == file.tensors["w"]
        del view
        eventually(lambda: not observer.get_model("a").holders)


def test_heartbeats_keep_a_short_lease(daemon: Daemon, client: Client) -> None:
    file = write_floats(daemon.models / "a.safetensors", 1)
    client.load("a", file.path)
    with client.acquire("a", ttl=0.3) as lease:
        time.sleep(1)
        assert lease.valid
        assert shows(lease, file)


def test_a_lease_that_missed_its_heartbeats_is_lost(daemon: Daemon, client: Client) -> None:
    file = write_floats(daemon.models / "a.safetensors", 1)
    client.load("a", file.path)
    lease = client.acquire("a", ttl=0.3)
    daemon.pause()
    eventually(lambda: not lease.valid)
    daemon.resume()
    assert lease.lost_reason == "HEARTBEAT_MISSED"
    with pytest.raises(LeaseLostError):
        lease["w"]
    with pytest.raises(LeaseLostError):
        with lease:
            pass
    with client.acquire("a") as again:
        assert shows(again, file)
    # What was lost is given back too: nothing stays in quarantine.
    eventually(lambda: not client.get_model("a").holders)


def test_a_call_that_ended_without_a_reply_holds_nothing(daemon: Daemon, client: Client) -> None:
    file = write_floats(daemon.models / "a.safetensors", 1)
    client.load("a", file.path)
    daemon.pause()
    with pytest.raises(TenureError) as late:
        client.acquire("a", timeout=0.1)
    daemon.resume()
    assert late.value.reason == "DEADLINE"
    eventually(lambda: not client.get_model("a").holders)
