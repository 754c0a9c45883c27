"""The places: first that applies, the same for daemon and client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest

from memoryd.config.places import Places, find_places
from memoryd.config.socket_path import SUN_PATH, find_socket, fit, published_socket, user_dirs
from memoryd.errors import ConfigError

USER = ("/u/config", "/u/state")


def _find(env: dict[str, str] | None = None, **words: str) -> Places:
    return find_places(
        words.get("config"),
        words.get("state_dir"),
        words.get("socket"),
        env={"HOME": "/home/me", **(env or {})},
        dirs=lambda: USER,
        system_config="/nowhere/config.toml",
        must_exist=False,
    )


@pytest.mark.parametrize(
    ("words", "env", "state"),
    [
        ({"state_dir": "/a"}, {"MEMORYD_STATE_DIR": "/b", "STATE_DIRECTORY": "/c"}, "/a"),
        ({"state_dir": "~/a"}, {}, "/home/me/a"),
        ({}, {"MEMORYD_STATE_DIR": "/b", "STATE_DIRECTORY": "/c"}, "/b"),
        ({}, {"MEMORYD_STATE_DIR": "", "STATE_DIRECTORY": "/c:/d"}, "/c"),
        ({}, {}, "/u/state"),
    ],
)
def test_state_directory(words: dict[str, str], env: dict[str, str], state: str) -> None:
    assert _find(env, **words).state_dir == state


@pytest.mark.parametrize(
    ("words", "env", "socket"),
    [
        ({"socket": "/s"}, {"MEMORYD_SOCKET": "/t", "RUNTIME_DIRECTORY": "/r"}, "/s"),
        ({}, {"MEMORYD_SOCKET": "~/t", "RUNTIME_DIRECTORY": "/r"}, "/home/me/t"),
        ({}, {"RUNTIME_DIRECTORY": "/r:/q", "XDG_RUNTIME_DIR": "/x"}, "/r/control.sock"),
        ({}, {"XDG_RUNTIME_DIR": "/x"}, "/x/memoryd/control.sock"),
        ({}, {"XDG_RUNTIME_DIR": "relative"}, "/u/state/control.sock"),
        ({"state_dir": "/a"}, {}, "/a/control.sock"),
        ({"state_dir": "/a"}, {"XDG_RUNTIME_DIR": "/x"}, "/x/memoryd/control.sock"),
    ],
)
def test_socket(words: dict[str, str], env: dict[str, str], socket: str) -> None:
    places = _find(env, **words)
    assert places.socket == socket


def test_configuration_in_order(tmp_path: Path) -> None:
    user, system, named = tmp_path / "user", tmp_path / "system.toml", tmp_path / "named.toml"
    user.mkdir()
    own = user / "config.toml"

    def find(word: str | None = None, **env: str) -> Places:
        dirs = (str(user), "/state")
        return find_places(word, env=env, dirs=lambda: dirs, system_config=str(system))

    assert find()[0] is None
    assert find().config_target == str(own), "nothing there: this is the file that init would make"
    system.touch()
    assert find().config == str(system)
    own.touch()
    assert find()[:1] == (str(own),)
    named.touch()
    assert find(MEMORYD_CONFIG=str(named)).config == str(named)
    assert find(str(own), MEMORYD_CONFIG=str(named)).config == str(own)


@pytest.mark.parametrize("by", ["word", "environment"])
def test_a_named_configuration_must_be_there(tmp_path: Path, by: str) -> None:
    missing = str(tmp_path / "no.toml")
    word, env = (missing, {}) if by == "word" else (None, {"MEMORYD_CONFIG": missing})
    with pytest.raises(ConfigError, match=r"no\.toml") as caught:
        find_places(word, env=env, dirs=lambda: USER)
    assert caught.value.exit_code == 78
    places = find_places(word, env=env, dirs=lambda: USER, must_exist=False)
    assert (places.config, places.config_target) == (None, missing), "init may make it"


def test_relative_words_are_relative_to_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _find(state_dir="s", socket="x.sock")[1:3] == (str(tmp_path / "s"), str(tmp_path / "x.sock"))


def test_a_long_socket_path_gets_a_short_one_that_all_agree_on() -> None:
    exact = "/" + "x" * (SUN_PATH - 2)
    assert fit(exact, {}) == exact, "the closing NUL still fits"
    long = exact + "y"
    short = fit(long, {})
    assert short.startswith(f"/tmp/memoryd-{os.getuid()}-")
    assert short == fit(long, {"TMPDIR": "/" + "t" * 200}), "a directory that is too long itself is passed over"
    assert fit(long, {"XDG_RUNTIME_DIR": "/run/user/7"}).startswith("/run/user/7/memoryd-")
    assert fit(long + "z", {}) != short
    assert len(os.fsencode(short)) < SUN_PATH
    assert os.path.dirname(short) != "/tmp", "a directory of its own, that can be closed to others"


def test_bytes_count_not_characters() -> None:
    assert fit("/" + "é" * 60, {}) != "/" + "é" * 60


def _publish(state: Path, **fields: object) -> None:
    state.mkdir(exist_ok=True)
    (state / "instance.json").write_text(json.dumps(fields))


def test_a_client_takes_the_socket_a_live_daemon_published(tmp_path: Path) -> None:
    state, sock = tmp_path / "state", tmp_path / "here.sock"
    sock.touch()
    _publish(state, pid=os.getpid(), socket=str(sock))

    env = {"XDG_RUNTIME_DIR": "/x"}
    assert find_socket(None, str(state), env=env) == str(sock)
    assert find_places(None, str(state), env=env, dirs=lambda: USER).socket == "/x/memoryd/control.sock", "not a daemon"
    assert find_socket(None, str(state), "/s", env=env) == "/s", "a socket that was named wins"
    assert find_socket(None, str(tmp_path), env=env) == "/x/memoryd/control.sock", "where none is published"


def test_a_socket_of_the_service_manager_is_found_between_two_daemons(tmp_path: Path) -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    sock = tmp_path / "s.sock"
    _publish(tmp_path, pid=done.pid, socket=str(sock), passed=True)
    assert published_socket(str(tmp_path)) is None, "the service was uninstalled"
    sock.touch()
    assert published_socket(str(tmp_path)) == str(sock)
    _publish(tmp_path, pid=done.pid, socket=str(sock), passed=False)
    assert published_socket(str(tmp_path)) is None


def test_a_dead_or_broken_publication_counts_for_nothing(tmp_path: Path) -> None:
    sock = tmp_path / "s.sock"
    sock.touch()
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    for fields in (
        {"pid": done.pid, "socket": str(sock)},
        {"pid": os.getpid(), "socket": str(tmp_path / "gone.sock")},
        {"pid": os.getpid(), "socket": "relative.sock"},
        {"pid": True, "socket": str(sock)},
        {"pid": 10**30, "socket": str(sock)},
        {"pid": -1, "socket": str(sock)},
        {"socket": str(sock)},
        {},
    ):
        _publish(tmp_path, **fields)
        assert published_socket(str(tmp_path)) is None, fields
    for text in ("", "[]", "{", "\x00", "[" * 60_000):
        (tmp_path / "instance.json").write_text(text)
        assert published_socket(str(tmp_path)) is None
    assert published_socket(str(tmp_path / "nowhere")) is None


def test_the_import_is_light() -> None:
    """Every client command pays for it."""
    code = (
        "import sys, memoryd.config.socket_path as p; p.find_socket(None,'/s','/x')\n"
        "heavy = {'typing','platformdirs','tomllib','msgspec','json','dataclasses','zoneinfo','difflib'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_platform_directories(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "c"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "s"))
    for name in ("MEMORYD_CONFIG", "MEMORYD_STATE_DIR", "STATE_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)
    places = find_places(system_config="/nowhere/config.toml")
    assert places.config_target == str(tmp_path / "c" / "memoryd" / "config.toml")
    assert places.state_dir == str(tmp_path / "s" / "memoryd")


@pytest.mark.parametrize("config", [None, "", "relative", "/x/config"])
@pytest.mark.parametrize("home", [None, "", "relative", "/h", "/h/", "/"])
def test_the_directories_are_those_of_platformdirs(
    config: str | None, home: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("HOME", home), ("XDG_CONFIG_HOME", config), ("XDG_STATE_HOME", config)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    made = platformdirs.PlatformDirs("memoryd", appauthor=False)
    assert user_dirs() == (made.user_config_dir, made.user_state_dir)


def test_a_user_without_a_name_or_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(uid)

    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises(ConfigError, match="HOME is not set, and the system knows no user") as caught:
        find_places()
    assert str(caught.value.hint).startswith("set HOME")
    places = find_places("/etc/m.toml", "/var/m", must_exist=False)
    assert (places.config_target, places.state_dir) == ("/etc/m.toml", "/var/m")
