"""Scopes: the buffers of one request, released together."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from daemon import Daemon, eventually
from runtime_memory import MIB, ledger, nothing_leased
from tenure import BufferPool, Client, LeaseLostError, TenureError


def test_buffers_of_a_scope_are_arrays_side_by_side(pool: BufferPool) -> None:
    with pool.scope() as scope:
        a = scope.acquire((2, 3), "f4")
        b = scope.acquire(5, "i8", alignment=4096)
        c = scope.empty((7,), "u1")
        assert (a.array.shape, a.array.dtype, b.array.dtype) == ((2, 3), np.float32, np.int64)
        a.array[...], b.array[...], c[...] = 1, 2, 3
        assert (a.array.sum(), b.array.sum(), c.sum()) == (6, 10, 21)
        assert b.array.ctypes.data % 4096 == 0
        assert not np.shares_memory(a.array, b.array) and not np.shares_memory(b.array, c)
        assert np.shares_memory(np.asarray(a), a.array)
        assert abs(b.array.ctypes.data - a.array.ctypes.data) < 8192
        assert scope.empty((0, 4), "f4").shape == (0, 4)
        scope.acquire(1, alignment=1)
        assert scope.acquire(1, "f8", alignment=1).array.flags.aligned


def test_zeros_are_zeros_where_something_was(pool: BufferPool) -> None:
    with pool.scope() as scope:
        scope.empty(1000)[:] = 7
    with pool.scope() as scope:
        assert np.all(scope.empty(1000) == 7)
    with pool.scope() as scope:
        zeros = scope.zeros((10, 100))
        assert (zeros.dtype, zeros.shape) == (np.float64, (10, 100))
        assert not zeros.any()
        assert scope.zeros((), "S4") == b""


def test_a_scope_grows_by_slabs_and_gives_all_back_at_its_end(
    pool: BufferPool, pool_client: Client
) -> None:
    with pool.scope(slab_bytes=MIB) as scope:
        arrays = [scope.empty(MIB // 2, "u1") for _ in range(8)]
        assert scope.slab_bytes == 4 * MIB
        arrays.append(scope.empty(5 * MIB, "u1"))
        assert scope.slab_bytes == 9 * MIB
        for value, array in enumerate(arrays):
            array[:] = value
        assert [int(array.max()) for array in arrays] == list(range(9))
        assert ledger(pool_client).leased >= 9 * MIB
    assert nothing_leased(pool_client)


def test_a_scope_takes_no_more_than_is_needed_if_there_is_not_the_room(
    pool: BufferPool, pool_client: Client
) -> None:
    with pool.acquire(63 * MIB), pool.scope(slab_bytes=4 * MIB) as scope:
        assert scope.empty(MIB // 2, "u1").size == MIB // 2
        assert scope.slab_bytes == MIB // 2
        with pytest.raises(TenureError) as refused:
            scope.acquire(2 * MIB)
        assert refused.value.reason in ("HELD_BY_LEASES", "FRAGMENTED")
        # What it had before the refusal it still has.
        assert scope.empty(MIB // 4, "u1").size == MIB // 4


def test_what_a_released_scope_handed_out_refuses_to_be_used(pool: BufferPool) -> None:
    with pool.scope() as scope:
        buffer = scope.acquire(8)
    scope.release()
    assert not buffer.valid
    for use in (lambda: buffer.array, lambda: scope.acquire(8), lambda: scope.empty(8)):
        with pytest.raises(LeaseLostError) as refused:
            use()
        assert refused.value.reason == "RELEASED"


def test_scopes_are_independent(pool: BufferPool) -> None:
    def serve(value: int) -> bool:
        with pool.scope(wait=20.0) as scope:
            arrays = [scope.empty(50_000, "i4") for _ in range(5)]
            for array in arrays:
                array[:] = value
            return all(np.all(array == value) for array in arrays)

    with pool.scope() as first, pool.scope() as second:
        a = first.zeros(10)
        first.release()
        b = second.zeros(10)
        b[:] = 1
        assert b.sum() == 10
        assert a.shape == (10,)
    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(serve, range(40)))


def test_a_dropped_scope_is_released_once_its_last_array_is_gone(
    pool: BufferPool, pool_client: Client
) -> None:
    view = pool.scope().empty(100)
    gc.collect()
    view[:] = 1
    assert ledger(pool_client).leased > 0
    del view
    eventually(lambda: nothing_leased(pool_client))


def test_a_closed_pool_ends_its_scopes(pool_client: Client) -> None:
    with pool_client.open_pool() as pool:
        scope = pool.scope()
        buffer = scope.acquire(8)
    assert not buffer.valid
    with pytest.raises(LeaseLostError):
        scope.acquire(8)
    scope.release()
    assert nothing_leased(pool_client)


def test_a_scope_whose_memory_was_lost_says_so(tmp_path: Path) -> None:
    with Daemon(tmp_path, runtime=16, lease_ttl="500ms") as daemon, daemon.connect() as client:
        with client.open_pool() as pool:
            with pytest.raises(LeaseLostError) as lost:
                with pool.scope() as scope:
                    buffer = scope.acquire(8)
                    daemon.pause()
                    eventually(lambda: not buffer.valid)
                    daemon.resume()
                    with pytest.raises(LeaseLostError):
                        scope.acquire(8)
            assert lost.value.reason == "HEARTBEAT_MISSED"
            with pool.scope() as another:
                another.zeros(8)


def test_a_scope_without_slabs_or_of_no_kind_is_refused(pool: BufferPool) -> None:
    with pytest.raises(ValueError):
        pool.scope(slab_bytes=0)
    with pytest.raises(ValueError):
        pool.scope(kind="weights")
