"""Who gets runtime memory, and who is refused. The arena has 64 MiB in segments of 2 MiB."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from daemon import Daemon, eventually
from process_maps import lines_of_maps
from runtime_memory import MIB, ledger, nothing_leased
from tenure import BufferPool, BufferSpec, Client, TenureError, _connection
from tenure.v1 import buffer_pb2


def test_buffers_come_together_in_the_order_they_were_asked_for(
    pool: BufferPool, pool_client: Client
) -> None:
    specs = [BufferSpec(3), BufferSpec((2, 2), "f8", kind="io"), BufferSpec(5 * MIB, alignment=4096)]
    with pool.acquire_many(specs) as (a, b, c):
        assert [each.shape for each in (a, b, c)] == [(3,), (2, 2), (5 * MIB,)]
        for value, each in enumerate((a, b, c)):
            each.array.fill(value)
        assert [each.array.max() for each in (a, b, c)] == [0, 1, 2]
    assert nothing_leased(pool_client)
    assert pool.acquire_many([]) == ()


def test_if_one_buffer_does_not_fit_none_is_taken(pool: BufferPool, pool_client: Client) -> None:
    with pool.acquire(8 * MIB):
        before = ledger(pool_client)
        with pytest.raises(TenureError):
            pool.acquire_many([BufferSpec(MIB), BufferSpec(8 * MIB), BufferSpec(60 * MIB)])
        assert ledger(pool_client).leased == before.leased
        assert ledger(pool_client).free == before.free


def test_what_can_never_fit_is_refused_with_the_capacity(pool: BufferPool) -> None:
    with pytest.raises(TenureError) as refused:
        pool.acquire(65 * MIB)
    assert (refused.value.reason, refused.value.code) == ("CAPACITY", "RESOURCE_EXHAUSTED")
    assert refused.value.values["needed_bytes"] == str(65 * MIB)
    assert refused.value.values["capacity_bytes"] == str(64 * MIB)


def test_what_others_hold_is_refused_with_their_names(pool_daemon: Daemon, pool: BufferPool) -> None:
    with pool_daemon.connect(program="ranker", instance="7") as other:
        with other.open_pool().acquire(40 * MIB):
            with pytest.raises(TenureError) as refused:
                pool.acquire(30 * MIB)
    assert refused.value.reason == "HELD_BY_LEASES"
    assert "ranker/7" in refused.value.values["holders"]
    assert refused.value.values["largest_buffer_bytes"] == str(24 * MIB)


def test_room_in_pieces_is_refused_with_what_lies_between(pool: BufferPool) -> None:
    buffers = pool.acquire_many([BufferSpec(MIB)] * 64)
    for each in buffers[::2]:
        each.release()
    with pytest.raises(TenureError) as refused:
        pool.acquire(2 * MIB)
    assert refused.value.reason == "FRAGMENTED"
    assert refused.value.values["largest_buffer_bytes"] == str(MIB)
    assert "buffer" in refused.value.values["neighbours"]


def test_a_device_that_is_not_there_is_refused(pool_client: Client) -> None:
    with pytest.raises(TenureError) as refused:
        pool_client.open_pool("gpu:9").acquire(1)
    assert refused.value.reason == "DEVICE_NOT_FOUND"


def test_memory_that_is_not_the_hosts_is_refused_by_name_and_given_back(
    pool: BufferPool, pool_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    grant = _connection.Connection.grant

    def grant_as_cuda(*arguments: object, **options: object) -> object:
        reply = grant(*arguments, **options)
        if isinstance(reply, buffer_pb2.AcquireBuffersResponse):
            reply.pool.backend = "cuda"
        return reply

    monkeypatch.setattr(_connection.Connection, "grant", grant_as_cuda)
    with pytest.raises(TenureError, match="maps memory of the host only") as refused:
        pool.acquire(8)
    assert refused.value.reason == "UNSUPPORTED_BACKEND"
    assert refused.value.values == {"device": "host:0", "backend": "cuda"}
    assert pool_client.mapped_buffer_bytes == 0
    eventually(lambda: nothing_leased(pool_client))


def test_unused_segments_go_to_another_client_while_their_own_is_idle(
    pool_daemon: Daemon, pool: BufferPool, pool_client: Client
) -> None:
    with pool.acquire(64 * MIB) as whole:
        address = whole.array.ctypes.data
    assert pool_client.mapped_buffer_bytes == 64 * MIB
    assert len(mapped_segments(address)) == 32
    with pool_daemon.connect() as other, other.open_pool() as theirs:
        with theirs.acquire(60 * MIB) as buffer:
            buffer.array[:] = 1
        assert pool_client.mapped_buffer_bytes == 4 * MIB
        assert len(mapped_segments(address)) == 2
        # And back again, to memory that has to be mapped anew.
        with pool.acquire(64 * MIB) as again:
            again.array[:] = 2
        assert other.mapped_buffer_bytes == 0
    assert ledger(pool_client).quarantined == 0


def test_segments_beside_a_buffer_go_and_the_buffer_stays(
    pool_daemon: Daemon, pool: BufferPool, pool_client: Client
) -> None:
    with pool.acquire(3 * MIB) as kept:
        kept.array[:] = 3
        pool.acquire(50 * MIB).release()
        with pool_daemon.connect() as other, other.open_pool().acquire(60 * MIB) as theirs:
            theirs.array[:] = 1
            assert np.all(kept.array == 3)
            assert pool_client.mapped_buffer_bytes == 4 * MIB


def test_a_segment_that_an_array_shows_stays_until_the_array_is_gone(
    pool_daemon: Daemon, pool: BufferPool, pool_client: Client
) -> None:
    with pool.acquire(64 * MIB) as buffer:
        buffer.array[:] = 5
        view = buffer.array[-10:]
    with pool_daemon.connect() as other, other.open_pool() as theirs:
        with pytest.raises(TenureError) as refused:
            theirs.acquire(64 * MIB)
        assert refused.value.reason == "HELD_BY_LEASES"
        assert int(refused.value.values["quarantined_bytes"]) > 0
        assert np.all(view == 5)
        del view
        eventually(lambda: ledger(pool_client).quarantined == 0)
        theirs.acquire(64 * MIB).release()


def test_unused_segments_leave_by_themselves_after_a_while(tmp_path: Path) -> None:
    with Daemon(tmp_path, runtime=64, pool_ttl="100ms") as daemon, daemon.connect() as client:
        with client.open_pool() as pool:
            with pool.acquire(MIB) as kept:
                kept.array[:] = 1
                pool.acquire(20 * MIB).release()
                eventually(lambda: client.mapped_buffer_bytes == 2 * MIB)
                assert np.all(kept.array == 1)
            eventually(lambda: client.mapped_buffer_bytes == 0)
            assert ledger(client).quarantined == 0


def test_who_waits_gets_what_another_releases(pool_daemon: Daemon, pool: BufferPool) -> None:
    held = pool.acquire(60 * MIB)
    with pool_daemon.connect() as other, ThreadPoolExecutor(1) as thread:
        theirs = other.open_pool()
        with pytest.raises(TenureError):
            theirs.acquire(60 * MIB)
        waiting = thread.submit(theirs.acquire, 60 * MIB, wait=20.0)
        held.release()
        waiting.result().release()


def mapped_segments(address: int) -> list[int]:
    """Finds which of the 32 segments from an address on are mapped."""
    places = range(address, address + 64 * MIB, 2 * MIB)
    return [place for place in places if any("memfd:" in line for line in lines_of_maps(place))]
