"""Runtime memory whose holder or whose daemon stops, dies or forks."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest
from buffer_process import BufferProcess
from daemon import Daemon, eventually
from process_maps import is_held
from runtime_memory import MIB, ledger, nothing_leased
from tenure import Buffer, BufferPool, Client, LeaseLostError, Scope, TenureError


def test_the_memory_of_a_killed_client_is_anothers_within_a_second(
    pool_daemon: Daemon, pool: BufferPool
) -> None:
    with BufferProcess(pool_daemon.directory) as process:
        assert process.ask("acquire 64") == "done"
        with pytest.raises(TenureError):
            pool.acquire(64 * MIB)
        process.kill()
        killed_at = time.monotonic()
        with pool.acquire(64 * MIB, wait=20.0) as buffer:
            assert time.monotonic() - killed_at < 1
            buffer.array[:] = 2


def test_a_stopped_client_loses_its_pool_and_keeps_its_mapping(tmp_path: Path) -> None:
    with Daemon(tmp_path, runtime=64, lease_ttl="500ms") as daemon, daemon.connect() as client:
        with BufferProcess(daemon.directory) as process, client.open_pool() as pool:
            assert process.ask("acquire 4") == "done"
            process.pause()
            eventually(lambda: ledger(client).quarantined == 4 * MIB)
            # To nobody else, though nobody has a lease on it.
            with pytest.raises(TenureError):
                pool.acquire(64 * MIB)

            process.resume()
            assert process.ask("sum") in ("LEASE_EXPIRED", "HEARTBEAT_MISSED")
            assert process.ask("sum-array") == str(4 * MIB)
            assert ledger(client).quarantined == 4 * MIB
            assert process.ask("release") in ("LEASE_EXPIRED", "HEARTBEAT_MISSED")
            eventually(lambda: ledger(client).quarantined == 0)
            pool.acquire(64 * MIB).release()
            # It goes on with a new pool.
            assert process.ask("acquire 8") == "done"
            assert process.ask("sum") == str(8 * MIB)


def test_buffers_of_a_daemon_that_falls_silent_are_lost_and_others_can_be_had(tmp_path: Path) -> None:
    with Daemon(tmp_path, runtime=64, lease_ttl="500ms") as daemon, daemon.connect() as client:
        with client.open_pool() as pool:
            buffer = pool.acquire(8)
            daemon.pause()
            eventually(lambda: not buffer.valid)
            daemon.resume()
            with pytest.raises(LeaseLostError) as lost:
                _ = buffer.array
            assert lost.value.reason == "HEARTBEAT_MISSED"
            with pytest.raises(LeaseLostError):
                buffer.release()
            assert buffer.released
            # Whether the daemon thinks so too or not.
            with pool.acquire(8) as again:
                again.array[:] = 1
                assert again.valid
        eventually(lambda: nothing_leased(client))
        eventually(lambda: ledger(client).quarantined == 0)


def test_what_is_lost_here_only_is_given_back_and_the_pool_goes_on(
    pool: BufferPool, pool_client: Client
) -> None:
    buffer = pool.acquire(8)
    session = pool_client._connection.session
    with session.changed:
        # As if no heartbeat had been answered for long, of which the daemon knows nothing.
        buffer._held.pool.granted_at = session.renewed_at = -1e9
        assert buffer.lost_reason == "HEARTBEAT_MISSED"
        session.pools.lose_overdue(time.monotonic(), session.renewed_at, "HEARTBEAT_MISSED")
    with pytest.raises(LeaseLostError):
        buffer.release()
    with pool.acquire(8) as again:
        assert again.valid
        assert again._held.pool is buffer._held.pool
    eventually(lambda: nothing_leased(pool_client))


def test_an_error_that_is_kept_does_not_keep_the_memory(tmp_path: Path) -> None:
    with Daemon(tmp_path, runtime=64, lease_ttl="500ms") as daemon, daemon.connect() as client:
        pool = client.open_pool()
        buffer = pool.acquire(8)
        daemon.pause()
        eventually(lambda: not buffer.valid)
        with pytest.raises(LeaseLostError) as kept:
            _ = buffer.array
        with pytest.raises(LeaseLostError):
            buffer.release()
        daemon.resume()
        # No array is left, so the other client gets all of it.
        with daemon.connect() as other, other.open_pool() as theirs:
            theirs.acquire(64 * MIB, wait=20.0).release()
        assert kept.value.reason == "HEARTBEAT_MISSED"


def test_heartbeats_keep_buffers(tmp_path: Path) -> None:
    with Daemon(tmp_path, runtime=64, lease_ttl="500ms") as daemon, daemon.connect() as client:
        with client.open_pool() as pool, pool.acquire(8) as buffer:
            until = time.monotonic() + 1.5
            eventually(lambda: not buffer.valid or time.monotonic() > until)
            assert buffer.valid
            assert ledger(client).leased > 0


def test_when_the_daemon_is_gone_so_are_its_buffers(pool_daemon: Daemon) -> None:
    client = pool_daemon.connect()
    pool = client.open_pool()
    buffer = pool.acquire(4 * MIB)
    view = buffer.array
    view[:] = 4
    pool_daemon.kill()
    eventually(lambda: not buffer.valid)
    with pytest.raises(LeaseLostError) as gone:
        buffer.array
    assert gone.value.reason == "DAEMON_GONE"
    # What is there can still be used, until it is released and gone.
    assert np.all(view == 4)
    with pytest.raises(TenureError):
        pool.acquire(8)
    with pytest.raises(LeaseLostError):
        pool.close()
    pool.close()
    client.close()


def test_a_forked_childs_buffers_say_so(pool: BufferPool) -> None:
    buffer = pool.acquire(3 * MIB)
    buffer.array[:] = 1
    address = buffer.array.ctypes.data
    scope = pool.scope()
    scope.zeros(8)
    # A thread that is not there in the child may hold them.
    with pool._lock, scope._lock:
        child = os.fork()
        if child == 0:
            os._exit(_faults_in_child(pool, scope, buffer, address))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    # The parent goes on as if nothing had been.
    assert np.all(buffer.array == 1)
    scope.zeros(8)
    scope.release()
    buffer.release()
    with pool.acquire(3 * MIB) as again:
        assert again.array.ctypes.data == address


def _faults_in_child(pool: BufferPool, scope: Scope, buffer: Buffer, address: int) -> int:
    """Counts what is not as it should be in a forked child."""
    faults = 0
    acquire = (lambda: pool.acquire(1), lambda: scope.acquire(1), pool.scope)
    for use in (*acquire, lambda: buffer.array, buffer.release):
        try:
            use()
            faults += 1
        except TenureError as refused:
            faults += refused.reason != "FORKED"
    faults += buffer.valid
    scope.release()
    pool.close()
    return faults + is_held(address)
