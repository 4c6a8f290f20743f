"""Buffers: what they show, and how they end. The arena has 64 MiB in segments of 2 MiB."""

from __future__ import annotations

import gc
import os
import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from daemon import Daemon, eventually
from process_maps import lines_of_maps
from runtime_memory import MIB, ledger, nothing_leased
from tenure import BufferPool, Client, LeaseLostError, TenureError, _rpc
from tenure.v1 import buffer_pb2


def test_a_buffer_is_an_array_that_can_be_written_to(pool: BufferPool, pool_client: Client) -> None:
    with pool.acquire((3, 5), "float32") as buffer:
        array = buffer.array
        assert (array.shape, array.dtype) == ((3, 5), np.float32)
        assert (buffer.shape, buffer.dtype, buffer.nbytes) == ((3, 5), np.float32, 60)
        assert array.flags.c_contiguous and array.flags.writeable
        array[...] = np.arange(15).reshape(3, 5)
        assert np.array_equal(buffer.array, np.arange(15).reshape(3, 5))
        assert np.shares_memory(np.asarray(buffer), array)
        assert np.asarray(buffer, "float64").dtype == np.float64
        assert buffer.valid
        assert ledger(pool_client).leased > 0
    assert nothing_leased(pool_client)


def test_a_number_is_so_many_bytes(pool: BufferPool) -> None:
    with pool.acquire(1000) as buffer:
        assert (buffer.shape, buffer.dtype) == ((1000,), np.uint8)


def test_an_alignment_is_that_of_the_address(pool: BufferPool) -> None:
    with pool.acquire(1), pool.acquire(1) as least, pool.acquire(1, alignment=1 << 20) as most:
        assert least.array.ctypes.data % 256 == 0
        assert most.array.ctypes.data % (1 << 20) == 0
        assert most.offset % (1 << 20) == 0


def test_what_was_written_is_there_for_the_next_buffer_in_the_same_place(pool: BufferPool) -> None:
    with pool.acquire(3 * MIB) as buffer:
        buffer.array[:] = 7
        offset, address = buffer.offset, buffer.array.ctypes.data
    with pool.acquire(3 * MIB) as again:
        assert (again.offset, again.array.ctypes.data) == (offset, address)
        assert np.all(again.array == 7)


def test_the_memory_is_the_daemons(pool: BufferPool) -> None:
    with pool.acquire(1) as buffer:
        (line,) = lines_of_maps(buffer.array.ctypes.data)
        assert " rw-s " in line and "memfd:" in line


def test_a_buffer_across_segments_is_one_array(pool: BufferPool, pool_client: Client) -> None:
    words = 30 * MIB // 8
    numbers = np.arange(words, dtype="u8")
    with pool.acquire(MIB) as before:
        with pool.acquire(words, "u8") as buffer:
            assert buffer.offset % (2 * MIB) == MIB
            buffer.array[:] = numbers
            assert np.array_equal(buffer.array, numbers)
            assert not before.array.any()
        # A segment comes over the socket once.
        assert pool_client.status().devices[0].exports == 16
        assert pool_client.mapped_buffer_bytes == 32 * MIB
        with pool.acquire(words, "u8") as again:
            assert np.array_equal(again.array, numbers)
        assert pool_client.status().devices[0].exports == 16


def test_a_buffer_of_many_segments_comes_in_several_batches(tmp_path: Path) -> None:
    with Daemon(tmp_path, runtime=160) as daemon, daemon.connect() as client:
        with client.open_pool() as pool, pool.acquire(140 * MIB) as buffer:
            assert client.status().devices[0].exports == 70
            buffer.array.reshape(-1, 2 * MIB)[:, 0] = np.arange(70)
            assert np.array_equal(buffer.array[:: 2 * MIB], np.arange(70))


def test_threads_that_acquire_at_once_map_each_segment_once(pool: BufferPool, pool_client: Client) -> None:
    def fill_and_compare(value: int) -> bool:
        with pool.acquire(700_000, wait=20.0) as buffer:
            buffer.array[:] = value
            return bool(np.all(buffer.array == value))

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(fill_and_compare, range(64)))
    assert pool_client.status().devices[0].exports * 2 * MIB == pool_client.mapped_buffer_bytes


def test_kinds_lie_in_parts_of_their_own(pool: BufferPool) -> None:
    with pool.acquire(1) as activation, pool.acquire(1, kind="io") as io:
        assert activation.offset // (2 * MIB) != io.offset // (2 * MIB)


@pytest.mark.parametrize(
    ("shape", "dtype", "options", "error"),
    [
        (0, "u1", {}, ValueError),
        ((4, 0), "u1", {}, ValueError),
        (-1, "u1", {}, ValueError),
        (1.5, "u1", {}, TypeError),
        (1 << 70, "u1", {}, ValueError),
        (1, "no such dtype", {}, TypeError),
        (1, "O", {}, TypeError),
        (1, "u1", {"alignment": 0}, ValueError),
        (1, "u1", {"alignment": 3}, ValueError),
        (1, "u1", {"alignment": 4 << 20}, ValueError),
        (1, "u1", {"kind": "weights"}, ValueError),
        (1, "u1", {"wait": -1}, ValueError),
        (1, "u1", {"wait": float("inf")}, ValueError),
        (1, "u1", {"priority": -1}, ValueError),
    ],
)
def test_what_makes_no_sense_is_refused_before_the_daemon_is_asked(
    pool: BufferPool, pool_client: Client, shape: object, dtype: str, options: dict, error: type
) -> None:
    with pytest.raises(error):
        pool.acquire(shape, dtype, **options)
    assert pool_client.mapped_buffer_bytes == 0


def test_a_released_buffer_refuses_to_be_used(pool: BufferPool, pool_client: Client) -> None:
    buffer = pool.acquire(8, "f4")
    buffer.release()
    buffer.release()
    assert not buffer.valid
    with pytest.raises(LeaseLostError) as refused:
        buffer.array
    assert refused.value.reason == "RELEASED"
    with pytest.raises(LeaseLostError):
        np.asarray(buffer)
    assert nothing_leased(pool_client)


def test_a_buffer_that_the_daemon_does_not_know_any_more_is_told(pool: BufferPool) -> None:
    buffer = pool.acquire(8)
    pool._connection.release_buffers([buffer._held])
    with pytest.raises(LeaseLostError) as unknown:
        buffer.release()
    assert unknown.value.reason == "LEASE_NOT_FOUND"


def test_a_dropped_buffer_is_released_once_its_last_array_is_gone(
    pool: BufferPool, pool_client: Client
) -> None:
    view = pool.acquire(8, "f4").array[2:]
    gc.collect()
    view[:] = 3
    assert ledger(pool_client).leased > 0
    del view
    eventually(lambda: nothing_leased(pool_client))


def test_an_array_keeps_the_session_of_a_dropped_client(pool_daemon: Daemon, pool_client: Client) -> None:
    view = pool_daemon.connect().open_pool().acquire(8).array
    gc.collect()
    assert ledger(pool_client).leased > 0
    view[:] = 3
    del view
    eventually(lambda: nothing_leased(pool_client))


def test_a_closed_pool_has_released_its_buffers(pool_client: Client) -> None:
    with pool_client.open_pool() as pool, pool_client.open_pool() as other:
        buffer, kept = pool.acquire(8), other.acquire(8)
        pool.close()
        assert (buffer.lost_reason, kept.valid) == ("RELEASED", True)
        with pytest.raises(TenureError) as closed:
            pool.acquire(8)
        assert closed.value.reason == "RELEASED"
    assert nothing_leased(pool_client)


def test_a_closed_client_leaves_nothing_behind(pool_daemon: Daemon, pool_client: Client) -> None:
    with pool_daemon.connect() as other:
        buffer = other.open_pool().acquire(8 * MIB)
    assert not buffer.valid
    eventually(lambda: ledger(pool_client).free == 64 * MIB)
    assert ledger(pool_client).quarantined == 0


def test_what_went_wrong_inside_a_block_matters_more(pool: BufferPool) -> None:
    with pytest.raises(ZeroDivisionError):
        with pool.acquire(8) as buffer:
            pool._connection.release_buffers([buffer._held])
            raise ZeroDivisionError


@pytest.mark.parametrize("failure", [TenureError("lost", "DEADLINE"), KeyboardInterrupt()])
def test_what_a_call_granted_that_ended_without_a_reply_is_given_back(
    pool: BufferPool, pool_client: Client, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    call = _rpc.Rpc.call
    granted: list[int] = []

    def lose_reply(*arguments: object) -> object:
        reply = call(*arguments)
        if isinstance(reply, buffer_pb2.AcquireBuffersResponse):
            granted.append(ledger(pool_client).leased)
            raise failure
        return reply

    monkeypatch.setattr(_rpc.Rpc, "call", lose_reply)
    with pytest.raises(type(failure)):
        pool.acquire(8 * MIB)
    assert granted == [8 * MIB]
    eventually(lambda: nothing_leased(pool_client))


def test_a_call_to_a_silent_daemon_ends_in_time(
    pool_daemon: Daemon, pool: BufferPool, pool_client: Client
) -> None:
    pool_daemon.pause()
    with pytest.raises(TenureError) as late:
        pool.acquire(8 * MIB, timeout=0.1)
    pool_daemon.resume()
    assert late.value.reason == "DEADLINE"
    # The daemon has seen the call when it has served a later one.
    pool.acquire(8).release()
    eventually(lambda: nothing_leased(pool_client))


def test_memory_that_this_process_has_no_room_to_receive_is_given_back(
    pool_daemon: Daemon, pool: BufferPool, pool_client: Client
) -> None:
    pool.acquire(8).release()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    next_fd = os.dup(0)
    os.close(next_fd)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_fd + 1, limits[1]))
    try:
        with pytest.raises(TenureError) as refused:
            pool.acquire(20 * MIB)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert refused.value.reason == "MAPPING"
    eventually(lambda: nothing_leased(pool_client))
    # To others too, at once: there is nothing left to be asked back in vain.
    with pool_daemon.connect() as other, other.open_pool() as theirs:
        theirs.acquire(64 * MIB).release()
    with pool.acquire(64 * MIB) as buffer:
        buffer.array[:: 2 * MIB] = 1
