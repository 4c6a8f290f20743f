"""The daemon wants memory back that a client has mapped: there is room for one model only."""

from __future__ import annotations

import pytest
from daemon import Daemon, eventually
from safetensors_file import write_floats
from tenure import Reuse, TenureError


def test_an_idle_mapping_is_given_back_and_fetched_anew_when_it_is_needed(small_daemon: Daemon) -> None:
    a = write_floats(small_daemon.models / "a.safetensors", 5, seed=1)
    b = write_floats(small_daemon.models / "b.safetensors", 6, seed=2)
    with small_daemon.connect() as client:
        client.load("a", a.path, acquire=True).lease.release()
        assert client.mapped_region_count == 1
        client.unload("a")

        # The load that needs the room acquires, and comes from the very client that has to answer.
        loaded = client.load("b", b.path, acquire=True)
        assert loaded.reclaimed == ("a@1",)
        assert client.mapped_region_count == 1
        with loaded.lease as lease:
            assert lease["w"].tobytes() == b.tensors["w"]
        assert client.status().devices[0].arenas["weights"].quarantined == 0

        client.unload("b")
        with client.load("a", a.path, acquire=True).lease as lease:
            assert lease["w"].tobytes() == a.tensors["w"]


def test_a_mapping_that_an_array_shows_stays_until_the_array_is_gone(small_daemon: Daemon) -> None:
    a = write_floats(small_daemon.models / "a.safetensors", 5, seed=1)
    b = write_floats(small_daemon.models / "b.safetensors", 6, seed=2)
    with small_daemon.connect() as client:
        with client.load("a", a.path, acquire=True).lease as lease:
            view = lease["w"]
        client.unload("a")

        with pytest.raises(TenureError) as refused:
            client.load("b", b.path, timeout=2)
        assert refused.value.reason in ("HELD_BY_LEASES", "CAPACITY")
        assert refused.value.values
        assert view.tobytes() == a.tensors["w"]
        assert client.status().devices[0].arenas["weights"].quarantined > 0

        del view
        eventually(lambda: client.status().devices[0].arenas["weights"].quarantined == 0)
        assert client.mapped_region_count == 0
        assert client.load("b", b.path).reuse in (Reuse.FRESH, Reuse.RECYCLED)


def test_a_leased_mapping_is_kept_and_the_load_refused(small_daemon: Daemon) -> None:
    a = write_floats(small_daemon.models / "a.safetensors", 5, seed=1)
    b = write_floats(small_daemon.models / "b.safetensors", 6, seed=2)
    with small_daemon.connect() as client:
        with client.load("a", a.path, acquire=True).lease as lease:
            with pytest.raises(TenureError) as refused:
                client.load("b", b.path, timeout=2)
            assert refused.value.reason == "HELD_BY_LEASES"
            assert lease.valid
            assert lease["w"].tobytes() == a.tensors["w"]
