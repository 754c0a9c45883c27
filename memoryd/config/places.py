"""Where configuration, state and control socket lie: the first place that applies, for daemon and client.

Client commands import this on every start, so it imports nothing that costs time: platformdirs
and json only when they are needed.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple

from memoryd.errors import ConfigError

SYSTEM_CONFIG = "/etc/memoryd/config.toml"
INSTANCE_FILE = "instance.json"

# sun_path holds 104 bytes on macOS and the BSDs, 108 on Linux, one of them for the closing NUL.
SUN_PATH = 108 if sys.platform.startswith("linux") else 104


class Places(NamedTuple):
    """All paths absolute. `config` is None where there is no configuration file, which is fine."""

    config: str | None
    state_dir: str
    socket: str
    config_explicit: bool
    config_target: str  # the file that `init` and `root add` write: `config`, or the one they would create
    socket_explicit: bool


class UserDirs(NamedTuple):
    config: str
    state: str


def user_dirs() -> UserDirs:
    """The user's own `memoryd` directories by the rules of this system (XDG, Library)."""
    import platformdirs  # noqa: PLC0415 - costs 20 ms that most client commands need not spend

    return UserDirs(
        platformdirs.user_config_dir("memoryd", appauthor=False),
        platformdirs.user_state_dir("memoryd", appauthor=False),
    )


def find_places(
    config: str | None = None,
    state_dir: str | None = None,
    socket: str | None = None,
    *,
    env: Mapping[str, str] | None = None,
    dirs: Callable[[], UserDirs] = user_dirs,
    system_config: str = SYSTEM_CONFIG,
    client: bool = False,
    must_exist: bool = True,
) -> Places:
    """Resolve the three places; the arguments are the words of the command line.

    A client that was not told a socket takes the one published by a live daemon in this state
    directory, else computes it as the daemon does. ConfigError when a named file is not there.
    """
    env = os.environ if env is None else env
    config_path, explicit = _config(config, env, dirs, system_config)
    if explicit and must_exist and not os.path.exists(config_path):
        raise ConfigError(
            f"{config_path}: there is no such configuration file",
            hint="correct --config or MEMORYD_CONFIG, or make it with `memoryd --config FILE init`",
        )
    state = _state_dir(state_dir, env, dirs)
    named = socket or env.get("MEMORYD_SOCKET")
    path = fit(absolute(named, env) if named else _socket(state, env), env)
    if client and not named:
        path = published_socket(state) or path
    found = config_path if os.path.exists(config_path) else None
    return Places(found, state, path, explicit, config_path, bool(named))


def absolute(path: str, env: Mapping[str, str]) -> str:
    """`~` expanded, made absolute against the working directory; links are left as they are."""
    home = env.get("HOME", "")
    if home and (path == "~" or path.startswith("~/")):
        path = home + path[1:]
    return os.path.abspath(os.path.expanduser(path))


def fit(path: str, env: Mapping[str, str]) -> str:
    """`path`, or where it is too long for a socket a short one that every process computes alike.

    The short one has a directory of its own, so that whoever makes it can keep it at 0700 without
    touching the shared directory above.
    """
    if len(os.fsencode(path)) < SUN_PATH:
        return path
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    short = f"memoryd-{os.getuid()}-{digest}/control.sock"
    for base in (env.get("XDG_RUNTIME_DIR", ""), env.get("TMPDIR", ""), "/tmp"):  # noqa: S108 - directory of its own, see above
        candidate = os.path.join(base, short)
        if base.startswith("/") and len(os.fsencode(candidate)) < SUN_PATH:
            return candidate
    return path


def published_socket(state_dir: str) -> str | None:
    """The socket a live daemon names in `instance.json` beneath this state directory.

    Anything unreadable there means "not published": the computed path is tried then, and the
    connection itself tells the rest.
    """
    import json  # noqa: PLC0415 - only for clients that were not told a socket

    try:
        with open(os.path.join(state_dir, INSTANCE_FILE), "rb") as file:
            instance = json.loads(file.read(65_536))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(instance, dict):
        return None
    path, pid = instance.get("socket"), instance.get("pid")
    if not isinstance(path, str) or not os.path.isabs(path) or not _alive(pid):
        return None
    return path if os.path.exists(path) else None


def _alive(pid: object) -> bool:
    if not isinstance(pid, int) or isinstance(pid, bool) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True  # it exists, and is another user's
    except (OSError, OverflowError):
        return False
    return True


def _config(
    config: str | None, env: Mapping[str, str], dirs: Callable[[], UserDirs], system_config: str
) -> tuple[str, bool]:
    """The configuration file, whether or not it is there, and whether somebody named it."""
    named = config or env.get("MEMORYD_CONFIG")
    if named:
        return absolute(named, env), True
    own = os.path.join(dirs().config, "config.toml")
    if not os.path.exists(own) and os.path.exists(system_config):
        return system_config, False
    return own, False


def _state_dir(state_dir: str | None, env: Mapping[str, str], dirs: Callable[[], UserDirs]) -> str:
    named = state_dir or env.get("MEMORYD_STATE_DIR") or _first(env.get("STATE_DIRECTORY", ""))
    return absolute(named, env) if named else dirs().state


def _socket(state_dir: str, env: Mapping[str, str]) -> str:
    runtime = _first(env.get("RUNTIME_DIRECTORY", ""))
    if runtime:
        return os.path.join(absolute(runtime, env), "control.sock")
    session = env.get("XDG_RUNTIME_DIR", "")
    if session.startswith("/"):  # the XDG rule: a relative path there is to be ignored
        return os.path.join(session, "memoryd", "control.sock")
    return os.path.join(state_dir, "control.sock")


def _first(paths: str) -> str:
    """systemd joins several directories of a unit with colons; ours is the first."""
    return paths.split(":", 1)[0]
