"""Requirements of the service, read from the configuration: start command, directories to write, network."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import PurePath
from urllib.parse import urlsplit

import memoryd
from memoryd.config.load import load
from memoryd.config.places import Places, find_places
from memoryd.config.settings import Config, SearchConfig
from memoryd.config.socket_path import user_dirs
from memoryd.core.defaults import Mode
from memoryd.errors import ConfigError
from memoryd.installer.systemd import Service

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def collect(
    places: Places,
    program: Sequence[str],
    *,
    home: str,
    named_socket: bool = False,
) -> Service:
    """Read the configuration and return the values of a user service. `named_socket`: the path of the socket was named.

    Raises ConfigError for a configuration that is invalid or has no root: its service would not start.
    """
    config = load(places)
    if not config.roots:
        raise ConfigError(
            f"no memory directory is configured in {places.config_target}, so there is nothing to serve",
            hint="write a configuration first: `memoryd init`, or `memoryd root add DIRECTORY`",
        )
    return Service(
        command=(*program, *_options(places, home, named_socket=named_socket)),
        env_file=os.path.join(os.path.dirname(places.config_target), "env"),
        writable=_writable(config, places, home),
        network=network(config.search),
        listen=places.socket if named_socket else "",
        libraries=tuple(dict.fromkeys((sys.prefix, sys.base_prefix, os.path.dirname(memoryd.__file__)))),
    )


def start_command(argv0: str = sys.argv[0], python: str = sys.executable) -> tuple[str, ...]:
    """Return the words that start this program from any directory: the path of its script, links as they are, because
    the link stays when an upgrade changes what it points to; or the interpreter and `-m`."""
    if PurePath(argv0).name == "__main__.py":
        return (python, "-m", "memoryd")
    return (os.path.abspath(shutil.which(argv0) or argv0),)


def network(search: SearchConfig) -> str:
    """Return which addresses the configuration needs: "none", "loopback" or "any"."""
    if search.embedder != "endpoint":
        return "none"
    return "loopback" if urlsplit(search.endpoint.url).hostname in _LOOPBACK else "any"


def _options(places: Places, home: str, *, named_socket: bool) -> list[str]:
    """Return the global options that a process with an empty environment needs to find the same files."""
    usual = find_places(env={"HOME": home}, dirs=lambda: usual_dirs(home))
    options = []
    if places.config_target != usual.config_target:
        options += ["--config", places.config_target]
    if places.state_dir != usual.state_dir:
        options += ["--state-dir", places.state_dir]
    if named_socket:
        options += ["--socket", places.socket]
    return options


def usual_dirs(home: str) -> tuple[str, str]:
    """Return where configuration and state of the user with this home are."""
    if sys.platform == "darwin":
        return user_dirs()
    return os.path.join(home, ".config", "memoryd"), os.path.join(home, ".local", "state", "memoryd")


def _writable(config: Config, places: Places, home: str) -> tuple[str, ...]:
    """Return the directories that the daemon writes: roots that it maintains, its state, and the configuration of the
    user, which `memoryd root add` changes."""
    directories = [root.path for root in config.roots if root.policy.mode is not Mode.OBSERVE]
    directories.append(places.state_dir)
    above = os.path.dirname(places.config_target)
    if above.startswith(home + os.sep):
        directories.append(above)
    return tuple(dict.fromkeys(directories))


def clean_environment(home: str) -> dict[str, str]:
    """Return the environment a service manager gives to a program: hardly any of that of the terminal."""
    return {"HOME": home, "PATH": os.defpath, "LANG": os.environ.get("LANG", "C.UTF-8")}
