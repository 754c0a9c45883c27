"""Other users of the machine cannot replace the state or the configuration of a daemon, whatever their modes were."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.errors import ConfigError
from tests.agents import line, memory
from tests.daemon import Daemon, refused
from tests.end_to_end.conftest import MakeDaemon

pytestmark = [
    pytest.mark.slow,
    pytest.mark.root_only,
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can act as another user"),
]

OTHER = 12345


@pytest.fixture
def shared(root: Path) -> Iterator[Path]:
    """A directory that every user can enter; pytest's own are private."""
    (root / "learnings.jsonl").write_text(line(memory()))
    with tempfile.TemporaryDirectory(prefix="md-") as made:
        path = Path(made)
        path.chmod(0o755)
        yield path


def as_other(*words: str) -> int:
    """Run a command as another user; its exit code."""
    become = ["setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups"]
    return subprocess.run([*become, *words], stderr=subprocess.DEVNULL, check=False).returncode


def refused_start(daemon: Daemon) -> tuple[int, str]:
    """Start a daemon that must end by itself: its exit code, and what it said."""
    code, said = daemon.spawn().wait(60), daemon.said()
    assert "hint:" in said, said
    daemon.log.unlink()
    return code, said


@pytest.mark.parametrize("linked", [False, True])
def test_an_open_state_directory_is_closed_to_others(
    linked: bool, root: Path, shared: Path, daemon: MakeDaemon
) -> None:
    place = shared / "state"
    place.mkdir()
    place.chmod(0o777)
    assert as_other("touch", str(place / "theirs")) == 0, "the other user can write here"
    tending = daemon(root)
    tending.state = place
    if linked:
        tending.state = shared / "link"
        tending.state.symlink_to(place)
    tending.start()
    assert place.stat().st_mode & 0o777 == 0o700
    assert as_other("mv", str(place / "roots"), str(place / "away")) != 0
    assert as_other("ls", str(place)) != 0
    assert tending.rpc("memory.add", memory={"type": "learning", "content": "a heron"})["receipt"]


@pytest.mark.parametrize("kind", ["directory", "link"])
def test_the_state_directory_of_another_user_is_refused(
    kind: str, root: Path, shared: Path, daemon: MakeDaemon
) -> None:
    tending = daemon(root)
    tending.state = shared / "state"
    if kind == "directory":
        tending.state.mkdir()
        tending.state.chmod(0o777)
    else:
        (shared / "ours").mkdir(mode=0o700)
        tending.state.symlink_to(shared / "ours")
    os.chown(tending.state, OTHER, OTHER, follow_symlinks=False)
    code, said = refused_start(tending)
    assert code == 77
    assert f"belongs to user {OTHER}" in said
    assert list(tending.state.iterdir()) == []
    assert not tending.socket_there()


def test_a_configuration_of_others_is_not_followed(root: Path, shared: Path, daemon: MakeDaemon) -> None:
    """Neither at a start nor at a reload: it could send every memory to a server of theirs."""
    tending = daemon(root, config="[daemon]\nquiet_s = 3\n")
    shutil.move(tending.config, shared / "config.toml")
    tending.config = shared / "config.toml"
    tending.config.chmod(0o666)
    code, said = refused_start(tending)
    assert (code, "writable by others" in said) == (78, True)
    os.chown(tending.config, OTHER, OTHER)
    tending.config.chmod(0o600)
    code, said = refused_start(tending)
    assert (code, f"belongs to user {OTHER}" in said) == (78, True)
    os.chown(tending.config, 0, 0)
    tending.start()
    tending.config.chmod(0o666)
    assert as_other("sh", "-c", f"echo '[search]\nembedder = \"off\"' > {tending.config}") == 0
    assert isinstance(refused(lambda: tending.rpc("config.reload")), ConfigError)
    assert tending.root()["state"] == "ok"
    done = tending.run("config", "validate")
    assert done.returncode == 78, done.stdout
