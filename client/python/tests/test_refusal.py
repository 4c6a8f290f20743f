"""Why there is no room, said beforehand and again. The runtime arena has 64 MiB in segments of 2 MiB."""

from __future__ import annotations

import pytest
from daemon import Daemon
from runtime_memory import MIB
from safetensors_file import write_floats
from tenure import BufferPool, BufferSpec, Client, FitVerdict, TenureError


def test_a_refusal_is_told_again_with_what_would_come_of_it_now(
    pool_daemon: Daemon, pool_client: Client, pool: BufferPool
) -> None:
    with pool_daemon.connect(program="ranker", instance="7") as other:
        with other.open_pool().acquire(40 * MIB):
            with pytest.raises(TenureError) as refused:
                pool.acquire(30 * MIB)
            refusal_id = int(refused.value.values["refusal_id"])
            told = pool_client.explain(refusal_id)
            assert (told.refusal_id, told.method) == (refusal_id, "AcquireBuffers")
            assert told.session_id == pool_client.session_id
            assert told.reason == "HELD_BY_LEASES"
            assert str(refused.value).startswith(told.message)
            assert "ranker/7" in told.values["holders"]
            assert told.age >= 0
            assert told.now is not None
            assert told.now.verdict is FitVerdict.WHEN_RELEASED
    later = pool_client.explain(refusal_id)
    assert later.now is not None
    assert later.now.verdict is FitVerdict.NOW
    with pytest.raises(TenureError) as unknown:
        pool_client.explain(refusal_id + 1)
    assert unknown.value.reason == "REFUSAL_NOT_FOUND"


def test_a_buffer_fits_until_somebody_else_has_the_room(pool: BufferPool, pool_client: Client) -> None:
    need = BufferSpec((15, MIB), "u1")
    (fit,) = pool_client.fit(need)
    assert (fit.device, fit.verdict) == ("host:0", FitVerdict.NOW)
    assert fit.needed == 15 * MIB
    assert (fit.capacity, fit.free, fit.largest) == (64 * MIB, 64 * MIB, 64 * MIB)
    with pool.acquire(60 * MIB):
        (full,) = pool_client.fit(need, device="host:0")
        assert full.verdict is FitVerdict.WHEN_RELEASED
        assert full.largest == 4 * MIB
        assert full.explanation
    assert pool_client.fit(BufferSpec(65 * MIB))[0].verdict is FitVerdict.NEVER
    with pytest.raises(ValueError, match="at least one byte"):
        pool_client.fit(BufferSpec(0))


def test_a_model_fits_or_never_will(daemon: Daemon, client: Client) -> None:
    small = write_floats(daemon.models / "small.safetensors", 1)
    assert client.fit(small.path)[0].verdict is FitVerdict.NOW
    huge = write_floats(daemon.models / "huge.safetensors", 65)
    assert client.fit(huge.path)[0].verdict is FitVerdict.NEVER
    with pytest.raises(TenureError) as outside:
        client.fit("/etc/passwd")
    assert outside.value.reason == "PATH_OUTSIDE_ROOTS"
