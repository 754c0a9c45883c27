"""What the daemon takes from its configuration and from whoever supervises it, seen from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.cli import exits
from memoryd.control.client import Client
from memoryd.engine.interfaces import Clock
from memoryd.errors import BusyError, ConfigError, DeniedError, MemorydError, UnknownRootError, UsageError
from memoryd.log import MAX_LOG_BYTES
from memoryd.service.roots import Roots
from tests.crowd import by_threads
from tests.daemon import Daemon, refused, until


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    (root / "learnings.jsonl").touch()
    return root


def _config(root: Path, *lines: str) -> str:
    return "\n".join(("[daemon]", *lines, "[[root]]", f'path = "{root}"', 'layout = "jsonl-store"', ""))


def _run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MEMORYD_", "XDG_"))}
    return subprocess.run(
        [sys.executable, "-m", "memoryd", *words], env=clean | env, capture_output=True, text=True, timeout=60
    )


def test_the_configured_log_format_holds(root: Path, tmp_path: Path) -> None:
    """`--log-format` is left at "auto": then the configuration decides."""
    path = tmp_path / "config.toml"
    path.write_text(_config(root, 'log_format = "console"'))
    with Daemon(tmp_path / "d") as daemon:
        words = daemon.command("run")
        words[words.index("--config") + 1] = str(path)
        with open(daemon.log, "wb") as log:
            daemon.process = subprocess.Popen(words, stdout=log, stderr=log, env=daemon.env)
        daemon.await_ready()
        assert daemon.stop() == 0
        first = daemon.log.read_text().splitlines()[0]
    assert not first.startswith("{"), first


def test_the_schedule_knows_the_last_scan(root: Path, tmp_path: Path) -> None:
    with Daemon(tmp_path / "d", root) as daemon:
        daemon.start()
        job = daemon.job("rescan")
        assert job["last_run"] == daemon.root()["last_scan"] is not None
        assert job["last_result"] == "ok"


def _greeted(daemon: Daemon) -> Client | None:
    """A client that stays, or None while the one before it has not been forgotten yet."""
    client = Client(daemon.socket)
    try:
        client.call("ping")
    except BusyError:
        client.close()
        return None
    return client


def test_the_configured_number_of_clients_holds(root: Path, tmp_path: Path) -> None:
    with Daemon(tmp_path / "d", config=_config(root, "max_clients = 1")) as daemon:
        daemon.start()
        with until(lambda: _greeted(daemon), "the only place is free"):
            assert _greeted(daemon) is None


def test_many_reloads_at_once_leave_one_worker_for_each_root(root: Path, tmp_path: Path) -> None:
    """A second one would never get the root, and nobody would know the first."""
    with Daemon(tmp_path / "d", config=_config(root)) as daemon:
        daemon.start()
        failed: list[MemorydError] = []

        def reload(number: int) -> None:
            for turn in range(6):
                fresh = tmp_path / f"config-{number}"
                fresh.write_text(_config(root, f"quiet_s = {10 + (number + turn) % 2}"))
                fresh.replace(daemon.config)
                try:
                    daemon.rpc("config.reload")
                except MemorydError as error:
                    failed.append(error)

        by_threads(reload, range(4))
        assert failed == []
        assert daemon.rpc("memory.add", memory={"type": "learning", "content": "x"})["receipt"]
        assert daemon.stop() == 0


def test_a_root_that_is_begun_anew_is_never_unknown(root: Path, tmp_path: Path) -> None:
    with Daemon(tmp_path / "d", config=_config(root)) as daemon:
        daemon.start()
        told = daemon.rpc("memory.add", memory={"type": "learning", "content": "x"})

        def reload() -> None:
            for turn in range(20):
                daemon.configure(_config(root, f"quiet_s = {10 + turn % 2}"))
                daemon.rpc("config.reload")

        reloading = threading.Thread(target=reload)
        reloading.start()
        with Client(daemon.socket) as client:
            while reloading.is_alive():
                found = client.call("memory.list", {"root": told["root"]})["memories"]
                assert [each["id"] for each in found] == [told["id"]]
        reloading.join()


def test_a_root_is_not_called_unknown_while_a_reload_may_restart_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memoryd.service.roots.CHANGE_S", 0.0)
    roots = Roots(str(tmp_path), Clock(), lambda: None)
    with roots.changing(), pytest.raises(BusyError, match="a reload is running"):
        roots.named("root")
    with pytest.raises(UnknownRootError):
        roots.named("root")


def test_roots_that_are_added_at_once_are_all_there(root: Path, tmp_path: Path) -> None:
    with Daemon(tmp_path / "d", config=_config(root)) as daemon:
        daemon.start()
        names = [f"more-{number}" for number in range(8)]
        failed: list[MemorydError] = []

        def add(name: str) -> None:
            (tmp_path / name).mkdir()
            try:
                daemon.rpc("root.add", path=str(tmp_path / name), layout="jsonl-store")
            except MemorydError as error:
                failed.append(error)

        by_threads(add, names)
        assert failed == []
        assert {row["name"] for row in daemon.rpc("root.list")["roots"]} == {"root", *names}
        assert all(f"/{name}" in daemon.config.read_text() for name in names)


def test_stop_returns_when_the_process_has_ended(root: Path, tmp_path: Path) -> None:
    """Also where nobody has waited for it yet: a dead process is gone, whatever its parent does."""
    with Daemon(tmp_path / "d", config=_config(root)) as daemon:
        daemon.start()
        done = subprocess.run(daemon.command("stop"), env=daemon.env, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr
        assert daemon.process is not None
        assert daemon.process.poll() == 0  # ended at this moment, not later


def test_under_launchd_an_end_that_another_try_cannot_heal_looks_wanted(tmp_path: Path) -> None:
    """launchd starts anew after every failure and knows no exceptions."""
    broken = tmp_path / "config.toml"
    broken.write_text("[daemon]\nlog_levl = 'info'\n")
    words = ("--config", str(broken), "--state-dir", str(tmp_path / "s"), "run")
    here, there = _run(*words), _run(*words, MEMORYD_SUPERVISOR="launchd")
    assert (here.returncode, there.returncode) == (exits.CONFIG, 0)
    assert here.stderr == there.stderr
    assert "log_levl" in here.stderr


@pytest.mark.parametrize("kind", [UsageError, BusyError, DeniedError, ConfigError, MemorydError])
def test_only_what_another_try_cannot_heal_stays_down(kind: type[MemorydError]) -> None:
    error = kind("no")
    assert exits.is_final_for_launchd(error, {"MEMORYD_SUPERVISOR": "launchd"}) == (error.exit_code != exits.INTERNAL)
    assert not exits.is_final_for_launchd(error, {})


def test_a_kill_is_no_wanted_end(root: Path, tmp_path: Path) -> None:
    env = {"MEMORYD_SUPERVISOR": "launchd"}
    with Daemon(tmp_path / "d", config=_config(root), env=env) as daemon:
        daemon.start()
        daemon.signal(signal.SIGKILL)
        assert daemon.wait() == -signal.SIGKILL


def test_under_launchd_the_log_is_bounded(root: Path, tmp_path: Path) -> None:
    """The file that launchd opens for standard error stays, because launchd and a crash write to it as well."""
    before = "x" * MAX_LOG_BYTES + "\n"
    with Daemon(tmp_path / "d", config=_config(root), env={"MEMORYD_LOG_FILE": str(tmp_path / "d" / "log")}) as daemon:
        daemon.log.write_text(before)
        inode = daemon.log.stat().st_ino
        daemon.start()
        assert daemon.stop() == 0
        old = Path(f"{daemon.log}.1")
        assert old.read_text().startswith(before)
        events = [json.loads(line)["event"] for line in (old.read_text() + daemon.log.read_text()).splitlines()[1:]]
        assert {"started", "stopping", "stopped"} <= {*events}, "no line is lost"  # `ready` only if its check was over
        assert daemon.log.stat().st_size < MAX_LOG_BYTES
        assert daemon.log.stat().st_ino == inode
        assert old.stat().st_mode & 0o077 == 0


class TestWithoutConfiguration:
    """`memoryd run DIRECTORY` with no configuration file: the first thing a new user does."""

    @pytest.fixture
    def daemon(self, root: Path, tmp_path: Path) -> Iterator[Daemon]:
        env = {"XDG_CONFIG_HOME": str(tmp_path / "home")}
        with Daemon(tmp_path / "d", root, env=env, names_config=False) as made:
            yield made.start()

    def test_a_root_can_be_added_and_removed(self, root: Path, daemon: Daemon, tmp_path: Path) -> None:
        other = tmp_path / "more" / root.name
        other.mkdir(parents=True)
        [row] = daemon.rpc("root.add", path=str(other), layout="jsonl-store")["roots"]
        assert (row["path"], row["name"]) == (str(other), f"more/{root.name}"), "not the name of the running root"
        assert {each["path"] for each in daemon.rpc("root.list")["roots"]} == {str(root), str(other)}
        daemon.rpc("root.remove", name=row["name"])
        assert [each["path"] for each in daemon.rpc("root.list")["roots"]] == [str(root)]

    def test_what_does_not_fit_the_running_roots_is_written_nowhere(
        self, root: Path, daemon: Daemon, tmp_path: Path
    ) -> None:
        (root / "inside").mkdir()
        (tmp_path / "other").mkdir()
        overlap = refused(lambda: daemon.rpc("root.add", path=str(root / "inside"), layout="jsonl-store"))
        assert "overlap" in overlap.message
        taken = refused(
            lambda: daemon.rpc("root.add", path=str(tmp_path / "other"), name=root.name, layout="jsonl-store")
        )
        assert f"the name {root.name} is taken by {root}" in taken.message
        assert not (tmp_path / "home/memoryd/config.toml").exists()
