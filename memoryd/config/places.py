"""Paths of configuration, state and control socket: the first place that applies, for daemon and client.

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
    config_target: str  # the file that `init` and `root add` write: `config`, or the one they would create

    def current(self) -> Places:
        """Return the places with the configuration file that exists now: one may have been created since."""
        if self.config is None and os.path.exists(self.config_target):
            return self._replace(config=self.config_target)
        return self


class UserDirs(NamedTuple):
    """The user's own directories of memoryd, whether or not they exist."""

    config: str
    state: str


def user_dirs() -> UserDirs:
    """Find the user's own `memoryd` directories by the rules of this system (XDG, Library)."""
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

    A client without a given socket takes the one published by a live daemon in this state
    directory, else computes it as the daemon does. ConfigError when a named file is not there.
    """
    env = os.environ if env is None else env
    config_path, explicit = _config(config, env, dirs, system_config)
    if explicit and must_exist and not os.path.exists(config_path):
        raise ConfigError(
            f"{config_path}: no such configuration file",
            hint="correct --config or MEMORYD_CONFIG, or create it with `memoryd --config FILE init`",
        )
    state = _state_dir(state_dir, env, dirs)
    named = socket or env.get("MEMORYD_SOCKET")
    path = fit(absolute(named, env) if named else _socket(state, env), env)
    if client and not named:
        path = published_socket(state) or path
    found = config_path if os.path.exists(config_path) else None
    return Places(found, state, path, config_path)


def absolute(path: str, env: Mapping[str, str]) -> str:
    """Expand `~` and make the path absolute against the working directory; links are left as they are."""
    home = env.get("HOME", "")
    if home and (path == "~" or path.startswith("~/")):
        path = home + path[1:]
    return os.path.abspath(os.path.expanduser(path))


def fit(path: str, env: Mapping[str, str]) -> str:
    """Return `path`, or where it is too long for a socket a short one that every process computes alike.

    The short one has a directory of its own, so that its creator can keep it at 0700 without
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
    """Find the socket that a live daemon names in `instance.json` beneath this state directory.

    Anything unreadable there means "not published": then the computed path is tried.
    """
    import json  # noqa: PLC0415 - only for clients without a given socket

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
    """Return the path of the configuration file, which may be missing, and whether it was given explicitly."""
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
