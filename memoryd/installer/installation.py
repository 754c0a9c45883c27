"""Install and remove the service: write its files, let the manager start it, and wait until the daemon answers.

Memories, configuration and state are never touched: an uninstalled service can be installed again and goes on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from memoryd.config.edit import write_config
from memoryd.config.socket_path import published_socket
from memoryd.control.client import Client
from memoryd.errors import AlreadyRunningError, ConflictError, DeniedError, MemorydError
from memoryd.installer.launchd import Launchd
from memoryd.installer.managers import Run, ServiceError, Systemd
from memoryd.installer.requirements import clean_environment
from memoryd.installer.systemd import MARK, Service

Manager = Systemd | Launchd


class Account(NamedTuple):
    """The user that the daemon runs as, with its home and its state directory."""

    name: str
    home: str
    state_dir: str


class Installed(NamedTuple):
    """The result of `install`. `notes`: what the user should know."""

    written: tuple[str, ...]
    removed: tuple[str, ...]
    commands: tuple[str, ...]
    version: str
    pid: int
    notes: tuple[str, ...]


def present_files(manager: Manager) -> dict[str, str]:
    """Return the files of an installation that exist, by path, whoever wrote them. Raises DeniedError for a file that
    cannot be read, and ConflictError for something else in its place."""
    return {path: text for path in manager.owned() if (text := _read(path)) is not None}


def is_ours(text: str) -> bool:
    """Return True for a file that this module, or the README of an earlier version, made."""
    return text.startswith(MARK) or "memoryd as a launch agent" in text


def install(manager: Manager, service: Service, account: Account, run: Run) -> Installed:
    """Install and start the service, or bring an installed one up to date. Returns once the daemon answers.

    Raises ConflictError, AlreadyRunningError, ServiceError, or NotFoundError if no manager answers.
    """
    _try_program(service, account, run)
    files, present = manager.files(service), present_files(manager)
    for path, text in present.items():
        if not is_ours(text):
            raise _foreign(path)
    _require_no_other(manager, account)
    other = account.name if os.geteuid() == 0 and account.name != "root" else None
    run(["mkdir", "-p", "-m", "0700", account.state_dir], user=other)
    written = tuple(path for path, text in files.items() if present.get(path) != text)
    obsolete = tuple(path for path in present if path not in files)
    for path in written:
        write_config(path, files[path], mode=0o644)
    for path in obsolete:
        _remove(path, hint="the service was not restarted; make its directory writable, then install again")
    manager.start(service)
    answer = _ping(manager, account)
    commands = tuple(" ".join(words) for words in manager.commands(service))
    notes = tuple(manager.notes(service))
    return Installed(written, obsolete, commands, str(answer.get("version")), int(str(answer.get("pid"))), notes)


def uninstall(manager: Manager, *, dry_run: bool = False) -> tuple[str, ...]:
    """Stop the service and remove its files; return the paths removed. Changes and files of the user stay.

    Raises DeniedError for a file that cannot be read or removed, and ConflictError for something else in its place.
    """
    removed = tuple(path for path, text in present_files(manager).items() if is_ours(text))
    if removed and not dry_run:
        manager.stop()
        for path in removed:
            _remove(path, hint="the service was stopped; make its directory writable, then uninstall again")
            directory = os.path.dirname(path)
            if directory.endswith(".d") and not os.listdir(directory):
                os.rmdir(directory)
        manager.forget()
    return removed


def _try_program(service: Service, account: Account, run: Run) -> None:
    """Start the program as the manager will: from another directory, with hardly any environment."""
    other = account.name if os.geteuid() == 0 and account.name != "root" else None
    done = run([*service.command, "version"], user=other, env=clean_environment(account.home))
    if done.code:
        raise ServiceError(
            f"{service.command[0]} does not start outside this terminal: {done.output or done.code}",
            hint="install memoryd where its user can run it, with pipx for example, and call `service` from there",
        )


def _require_no_other(manager: Manager, account: Account) -> None:
    """Raise AlreadyRunningError for a daemon that was started by hand: the service could not start beside it."""
    answer = _answer(account)
    if answer is not None and answer.get("pid") != manager.state().pid:
        raise AlreadyRunningError(
            f"a daemon that was not started by {manager.name} is running (pid {answer.get('pid')})",
            hint="stop it first: `memoryd stop`",
        )
    manager.state()  # so that a machine without a manager is reported before anything is written


def _ping(manager: Manager, account: Account) -> Mapping[str, object]:
    answer = _answer(account)
    if answer is None:
        raise ServiceError(
            f"the service was started but does not answer: {manager.state().text}\n{manager.reason()}",
            hint=f"see its log: {manager.log}",
        )
    return answer


def _answer(account: Account) -> Mapping[str, object] | None:
    """Return what the daemon with this state directory answers to a ping; None without one."""
    path = published_socket(account.state_dir)
    if path is None:
        return None
    try:
        with Client(path, timeout=5) as client:
            return dict(client.call("ping"))
    except MemorydError:
        return None


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (IsADirectoryError, UnicodeDecodeError) as error:
        raise _foreign(path) from error
    except OSError as error:
        raise DeniedError(f"{path} cannot be read: {error.strerror}", hint="nothing was changed") from error


def _foreign(path: str) -> ConflictError:
    return ConflictError(
        f"{path} was not written by memoryd and is left unchanged", hint="move it away, then try again"
    )


def _remove(path: str, hint: str) -> None:
    try:
        os.unlink(path)
    except OSError as error:
        raise DeniedError(f"{path} cannot be removed: {error.strerror}", hint=hint) from error
