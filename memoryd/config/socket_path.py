"""The path of the control socket, and what the command line, the environment and the user's home say about it.

Client commands import this on every start, so it imports nothing that costs time: no typing, and json and platformdirs
only when they are needed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

from memoryd.errors import ConfigError

INSTANCE_FILE = "instance.json"

# sun_path holds 104 bytes on macOS and the BSDs, 108 on Linux, one of them for the closing NUL.
SUN_PATH = 108 if sys.platform.startswith("linux") else 104


def user_dirs() -> tuple[str, str]:
    """Return the user's own `memoryd` directories for configuration and for state, by the rules of this system (XDG,
    Library), whether or not they exist. Raises ConfigError if no home directory is known."""
    home = os.environ.get("HOME", "")
    if sys.platform.startswith("linux") and home.startswith("/"):  # the usual case, as platformdirs decides it
        return _xdg("XDG_CONFIG_HOME", "~/.config"), _xdg("XDG_STATE_HOME", "~/.local/state")
    import platformdirs  # noqa: PLC0415 - takes as long as the start of the interpreter

    try:
        return (
            platformdirs.user_config_dir("memoryd", appauthor=False),
            platformdirs.user_state_dir("memoryd", appauthor=False),
        )
    except RuntimeError as error:  # as in a container that runs as a user without a name
        raise ConfigError(
            f"no home directory is known: HOME is not set, and the system knows no user {os.getuid()}",
            hint="set HOME to a directory that this user can write, or name both --config and --state-dir",
        ) from error


def _xdg(name: str, usual: str) -> str:
    named = os.environ.get(name, "")
    return os.path.join(named if named.startswith("/") else os.path.expanduser(usual), "memoryd")


def find_socket(
    config: str | None = None,
    state_dir: str | None = None,
    socket: str | None = None,
    *,
    env: Mapping[str, str] | None = None,
    dirs: Callable[[], tuple[str, str]] = user_dirs,
) -> str:
    """Find the socket for a client: the named one, or that of a live daemon with this state directory, or the one that
    a daemon would take. ConfigError when a named configuration file is not there."""
    env = os.environ if env is None else env
    named_config(config, env)
    if named := named_socket(socket, env):
        return named
    state = find_state_dir(state_dir, env, dirs)
    return published_socket(state) or usual_socket(state, env)


def named_config(config: str | None, env: Mapping[str, str], *, must_exist: bool = True) -> str | None:
    """Return the configuration file that the command line or the environment names."""
    named = config or env.get("MEMORYD_CONFIG")
    if not named:
        return None
    path = absolute(named, env)
    if must_exist and not os.path.exists(path):
        raise ConfigError(
            f"{path}: no such configuration file",
            hint="correct --config or MEMORYD_CONFIG, or create it with `memoryd --config FILE init`",
        )
    return path


def named_socket(socket: str | None, env: Mapping[str, str]) -> str | None:
    """Return the socket that the command line or the environment names."""
    named = socket or env.get("MEMORYD_SOCKET")
    return fit(absolute(named, env), env) if named else None


def find_state_dir(state_dir: str | None, env: Mapping[str, str], dirs: Callable[[], tuple[str, str]]) -> str:
    """Return the state directory that the command line or the environment names, else the user's own."""
    named = state_dir or env.get("MEMORYD_STATE_DIR") or _first(env.get("STATE_DIRECTORY", ""))
    return absolute(named, env) if named else dirs()[1]


def usual_socket(state_dir: str, env: Mapping[str, str]) -> str:
    """Return the socket of a daemon with this state directory when none is named."""
    session = env.get("XDG_RUNTIME_DIR", "")
    if runtime := _first(env.get("RUNTIME_DIRECTORY", "")):
        above = absolute(runtime, env)
    elif session.startswith("/"):  # the XDG rule: a relative path there is to be ignored
        above = os.path.join(session, "memoryd")
    else:
        above = state_dir
    return fit(os.path.join(above, "control.sock"), env)


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
    import hashlib  # noqa: PLC0415 - for a long path only

    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    short = f"memoryd-{os.getuid()}-{digest}/control.sock"
    for base in (env.get("XDG_RUNTIME_DIR", ""), env.get("TMPDIR", ""), "/tmp"):  # noqa: S108 - directory of its own, see above
        candidate = os.path.join(base, short)
        if base.startswith("/") and len(os.fsencode(candidate)) < SUN_PATH:
            return candidate
    return path


def published_socket(state_dir: str) -> str | None:
    """Find the socket that a live daemon names in `instance.json` beneath this state directory, or that the service
    manager passed to the last one: it listens there, and starts the next daemon.

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
    if not isinstance(path, str) or not os.path.isabs(path) or not (instance.get("passed") is True or _alive(pid)):
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


def _first(paths: str) -> str:
    """systemd joins several directories of a unit with colons; ours is the first."""
    return paths.split(":", 1)[0]
