"""Sessions: opened, refused, closed, forked, and lost."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest
import tenure
from daemon import Daemon, eventually
from process_maps import is_held
from safetensors_file import write_floats
from tenure import Client, LeaseLostError, ModelState, TenureError, _handle
from tenure.v1 import handle_pb2


def test_refusals_carry_reason_and_values(daemon: Daemon, client: Client) -> None:
    with pytest.raises(TenureError) as unknown:
        client.acquire("nobody")
    assert (unknown.value.reason, unknown.value.code) == ("MODEL_NOT_FOUND", "NOT_FOUND")
    with pytest.raises(TenureError) as outside:
        client.load("a", "/etc/passwd")
    assert outside.value.reason == "PATH_OUTSIDE_ROOTS"
    huge = write_floats(daemon.models / "huge.safetensors", 65)
    with pytest.raises(TenureError) as capacity:
        client.load("huge", huge.path)
    assert capacity.value.reason == "CAPACITY"
    assert capacity.value.values


def test_models_are_listed_and_only_validated_ones_are_not(daemon: Daemon, client: Client) -> None:
    file = write_floats(daemon.models / "a.safetensors", 1)
    validated = client.load("seen", file.path, validate_only=True)
    assert validated.model.state is ModelState.UNSPECIFIED
    assert validated.lease is None
    client.load("b", file.path, pin=True, retain_ttl="never")
    client.load("a", file.path, retain_ttl=0)
    assert [model.name for model in client.models()] == ["a", "b"]
    assert client.get_model("b").pinned
    assert client.unload("a").state is ModelState.GONE
    assert [model.name for model in client.models()] == ["b"]


def test_where_nobody_answers_the_daemon_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(TenureError) as unreachable:
        tenure.connect(tmp_path)
    assert unreachable.value.reason == "DAEMON_UNREACHABLE"


def test_a_version_that_the_daemon_does_not_speak_is_refused(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_handle, "PROTOCOL_VERSION", 99)
    with pytest.raises(TenureError) as refused:
        daemon.connect()
    assert refused.value.reason == "SESSION_REFUSED"
    assert refused.value.values == {"protocol_version": "1"}


def test_a_welcome_without_a_session_is_a_refusal(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(tmp_path / "handle.sock"))
        listener.listen()

        def refuse() -> None:
            peer, _ = listener.accept()
            with peer:
                assert handle_pb2.ClientPacket.FromString(peer.recv(1 << 16)).hello.program == "test"
                packet = handle_pb2.DaemonPacket()
                packet.welcome.protocol_version = 1
                peer.send(packet.SerializeToString())

        daemon = threading.Thread(target=refuse)
        daemon.start()
        with pytest.raises(TenureError) as refused:
            tenure.connect(tmp_path, program="test")
        daemon.join()
    assert refused.value.reason == "SESSION_REFUSED"


def test_a_closed_client_leaves_nothing_behind(daemon: Daemon, client: Client) -> None:
    file = write_floats(daemon.models / "a.safetensors", 1)
    with daemon.connect() as other:
        lease = other.load("a", file.path, acquire=True).lease
    assert not lease.valid
    with pytest.raises(TenureError):
        other.acquire("a")
    eventually(lambda: not client.get_model("a").holders)
    assert client.status().devices[0].arenas["weights"].quarantined == 0


def test_holders_are_named_as_they_called_themselves(daemon: Daemon, client: Client) -> None:
    file = write_floats(daemon.models / "a.safetensors", 1)
    with daemon.connect(program="ranker", instance="7") as other:
        with other.load("a", file.path, acquire=True).lease:
            (holder,) = client.get_model("a").holders
    assert (holder.program, holder.instance, holder.lease_count) == ("ranker", "7", 1)


def test_a_forked_childs_client_says_so(daemon: Daemon, client: Client) -> None:
    file = write_floats(daemon.models / "a.safetensors", 1)
    lease = client.load("a", file.path, acquire=True).lease
    address = lease["w"].ctypes.data
    child = os.fork()
    if child == 0:
        os._exit(_faults_in_child(client, lease, address))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    # The parent goes on as if nothing had been.
    assert lease["w"].tobytes() == file.tensors["w"]
    lease.release()
    with client.acquire("a") as again:
        assert again.valid


def _faults_in_child(client: Client, lease: tenure.WeightLease, address: int) -> int:
    """Counts what is not as it should be in a forked child."""
    faults = 0
    for use in (lambda: client.acquire("a"), client.models, lambda: lease["w"], lease.release):
        try:
            use()
            faults += 1
        except TenureError as refused:
            faults += refused.reason != "FORKED"
    faults += lease.valid
    faults += client.mapped_region_count
    client.close()
    return faults + is_held(address)


def test_when_the_daemon_is_gone_so_are_its_leases(daemon: Daemon) -> None:
    file = write_floats(daemon.models / "a.safetensors", 1)
    client = daemon.connect()
    lease = client.load("a", file.path, acquire=True).lease
    view = lease["w"]
    daemon.kill()
    eventually(lambda: not lease.valid)
    assert lease.lost_reason == "DAEMON_GONE"
    # What was read before can still be read.
    assert view.tobytes() == file.tensors["w"]
    with pytest.raises(LeaseLostError):
        lease["w"]
    with pytest.raises(TenureError) as gone:
        client.models()
    assert gone.value.reason == "DAEMON_GONE"
    client.close()
