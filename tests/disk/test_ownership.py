"""A lock held for life, and the sidecar that tells who holds it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from memoryd.disk.daemon_lock import read_sidecar, sidecar_path, take
from memoryd.errors import AlreadyRunningError, DeniedError

HOLDER = """
import sys
from memoryd.disk.daemon_lock import take
owned = take(sys.argv[1], {"instance": "ada"})
print("ready", flush=True)
input()
"""


def test_the_sidecar_names_us_and_goes_with_us(tmp_path: Path) -> None:
    path = str(tmp_path / "instance.lock")
    owned = take(path, {"instance": "ada"})
    assert read_sidecar(path) == {"pid": os.getpid(), "instance": "ada"}
    assert (tmp_path / "instance.json").stat().st_mode & 0o777 == 0o600
    owned.publish({"instance": "ada", "socket": "/run/x"})
    assert read_sidecar(path)["socket"] == "/run/x"
    owned.release()
    owned.release()
    assert not (tmp_path / "instance.json").exists()
    take(path, {}).release()


def test_a_path_that_is_not_utf_8_can_be_published(tmp_path: Path) -> None:
    directory, path = os.fsdecode(b"/caf\xe9"), str(tmp_path / "instance.lock")
    owned = take(path, {"socket": directory})
    assert read_sidecar(path)["socket"] == directory
    owned.release()


def test_a_second_daemon_reports_the_first_one(tmp_path: Path) -> None:
    path = str(tmp_path / "instance.lock")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "ready\n"
    try:
        with pytest.raises(AlreadyRunningError) as caught:
            take(path, {"instance": "bob"})
        assert str(holder.pid) in caught.value.message
        assert "ada" in caught.value.message
        assert caught.value.data["holder"]["instance"] == "ada"
        assert read_sidecar(path)["instance"] == "ada"
    finally:
        holder.kill()
        holder.communicate()
    owned = take(path, {"instance": "bob"})  # the sidecar of the killed one is no obstacle
    assert read_sidecar(path)["instance"] == "bob"
    owned.release()


def test_another_thread_can_release(tmp_path: Path) -> None:
    path = str(tmp_path / "root.lock")
    owned = take(path, {})
    thread = threading.Thread(target=owned.release)
    thread.start()
    thread.join(20)
    take(path, {}).release()


def test_twice_in_one_process_is_refused_too(tmp_path: Path) -> None:
    owned = take(str(tmp_path / "x.lock"), {})
    with pytest.raises(AlreadyRunningError):
        take(str(tmp_path / "x.lock"), {})
    owned.release()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff"])
def test_an_unreadable_sidecar_says_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.json").write_bytes(content)
    assert read_sidecar(str(tmp_path / "x.lock")) == {}


def test_a_temporary_file_of_an_earlier_life_is_no_obstacle(tmp_path: Path) -> None:
    path = str(tmp_path / "x.lock")
    Path(f"{sidecar_path(path)}.memoryd-{os.getpid()}-0.tmp").write_text("old")
    owned = take(path, {"instance": "ada"})
    assert json.loads((tmp_path / "x.json").read_text())["instance"] == "ada"
    owned.release()
    assert os.listdir(tmp_path) in ([], ["x.lock"])


@pytest.mark.parametrize(
    ("refusal", "hint"),
    [
        (PermissionError(13, "Permission denied"), "permission to read and write"),
        (NotImplementedError("no flock"), "a file system with flock"),
    ],
    ids=["unreadable", "no flock"],
)
def test_what_refuses_a_lock_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: Exception, hint: str
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise refusal

    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    with pytest.raises(DeniedError) as caught:
        take(str(tmp_path / "x.lock"), {})
    assert str(refusal) in caught.value.message
    assert hint in (caught.value.hint or "")
