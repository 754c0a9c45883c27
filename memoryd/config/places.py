"""Paths of configuration, state directory and control socket."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from memoryd.config.socket_path import find_state_dir, named_config, named_socket, user_dirs, usual_socket

SYSTEM_CONFIG = "/etc/memoryd/config.toml"


class Places(NamedTuple):
    """The paths memoryd uses, all absolute. `config` is None if there is no configuration file."""

    config: str | None
    state_dir: str
    socket: str
    config_target: str  # the file that `init` and `root add` write: `config`, or the one they would create

    def current(self) -> Places:
        """Return the places with the configuration file that exists now: one may have been created since."""
        if self.config is None and os.path.exists(self.config_target):
            return self._replace(config=self.config_target)
        return self


def find_places(
    config: str | None = None,
    state_dir: str | None = None,
    socket: str | None = None,
    *,
    env: Mapping[str, str] | None = None,
    dirs: Callable[[], tuple[str, str]] = user_dirs,
    system_config: str = SYSTEM_CONFIG,
    must_exist: bool = True,
) -> Places:
    """Find the paths; the arguments are those of the command line, None if not given.

    Raises ConfigError if a given configuration file does not exist.
    """
    env = os.environ if env is None else env
    config_path = named_config(config, env, must_exist=must_exist) or _default_config(dirs()[0], system_config)
    state = find_state_dir(state_dir, env, dirs)
    path = named_socket(socket, env) or usual_socket(state, env)
    return Places(config_path if os.path.exists(config_path) else None, state, path, config_path)


def _default_config(own_dir: str, system_config: str) -> str:
    own = os.path.join(own_dir, "config.toml")
    return system_config if not os.path.exists(own) and os.path.exists(system_config) else own
