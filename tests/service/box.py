"""A real systemd in a box (box.sh), with one ordinary user whose user manager runs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import memoryd
from tests.daemon import until

USER, UID = "agent", 1500
HOME = f"/home/{USER}"
RUNTIME = f"/run/user/{UID}"
_BECOME = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--init-groups", "--reset-env"]
_PATH = f"{HOME}/.local/bin:/usr/bin:/bin"
_AS_USER = [*_BECOME, "env", "-i", f"HOME={HOME}", f"XDG_RUNTIME_DIR={RUNTIME}", f"PATH={_PATH}"]
STATES = ("running", "degraded")  # a unit that fails here is none of ours
BOOT_S = 120.0  # a second or two where nothing else runs
_NEEDED = ("unshare", "nsenter", "setpriv", "useradd", "loginctl", "pivot_root")
_PACKAGE = Path(memoryd.__file__).parents[1]
_SCRIPT = Path(__file__).with_name("box.sh")


class BoxError(Exception):
    """This machine cannot make such a box."""


class Box:
    """`find_leader` returns the box's process 1, seen from here, once it is systemd."""

    def __init__(self, find_leader: Callable[[], int | None]) -> None:
        self._find_leader = find_leader
        self.boot()

    def boot(self) -> None:
        """Wait until the machine and its user manager have started."""
        self._leader = until(self._find_leader, "systemd starts in the box", BOOT_S)
        until(self._has_booted, "it has booted", BOOT_S)
        self.root("systemctl", "start", "systemd-logind")  # which multi-user.target would want; it starts who lingers

    def _has_booted(self) -> bool:
        return self.root("systemctl", "is-system-running", check=False).strip() in STATES

    def reboot(self) -> None:
        """Restart the machine in good order, as a whole."""
        before = self._leader
        self.root("systemctl", "reboot", check=False)
        until(lambda: self._find_leader() not in (None, before), "another systemd starts in the box", BOOT_S)
        self.boot()
        self.await_user()

    def await_user(self) -> None:
        """Wait until the user manager has started."""
        words = ("is-system-running",)
        until(lambda: self.systemctl(*words, check=False).stdout.strip() in STATES, "user manager", BOOT_S)

    def root(self, *words: str, check: bool = True) -> str:
        """Run a command in the box as root; its standard output."""
        return self._inside(words, check=check).stdout

    def user(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command in the box as its user, with what a login shell would have in its environment."""
        return self._inside([*_AS_USER, *words], check=check)

    def enter(self, line: str, answers: str = "", directory: str = HOME) -> tuple[int, str]:
        """Let the user type a line into a terminal of 80 columns, and answers to what it asks; exit code and screen."""
        screen, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        words = [*_AS_USER, "TERM=dumb", "sh", "-c", f"cd {directory}; {line}"]
        process = subprocess.Popen(self._words(words), stdin=terminal, stdout=terminal, stderr=terminal)
        os.close(terminal)
        os.write(screen, answers.encode())
        shown = b""
        with contextlib.suppress(OSError):  # EIO: everybody has closed the terminal
            while more := os.read(screen, 4096):
                shown += more
        os.close(screen)
        return process.wait(60), shown.decode().replace("\r", "")

    def systemctl(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.user("systemctl", "--user", *words, check=check)

    def shown(self, unit: str, name: str) -> str:
        """One property of a unit."""
        return self.systemctl("show", "--value", "-p", name, unit).stdout.strip()

    def write(self, path: str, content: str, mode: int = 0o644) -> None:
        """A file of the user's; missing folders are made."""
        code = "import os,sys; p=sys.argv[1]; os.makedirs(os.path.dirname(p), exist_ok=True)"
        code += "; open(p,'w').write(sys.argv[2]); os.chmod(p, int(sys.argv[3]))"
        self.user("/usr/bin/env", *_python(), "-c", code, path, content, str(mode))

    def _inside(self, words: tuple[str, ...] | list[str], *, check: bool) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(self._words(words), capture_output=True, text=True, timeout=600)
        if check and done.returncode:
            raise AssertionError(f"{' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def _words(self, words: tuple[str, ...] | list[str]) -> list[str]:
        return ["nsenter", "-t", str(self._leader), "-a", *words]


def _python() -> list[str]:
    return [f"PYTHONPATH={_PACKAGE}", sys.executable]


@contextlib.contextmanager
def boot(*shown: str) -> Iterator[Box]:
    """A box whose user manager runs, with `memoryd` where `pip install --user` puts it. `shown`: directories of this
    machine that it can read, too. BoxError when it cannot be."""
    cgroup = _cgroup()
    with tempfile.TemporaryDirectory(prefix="box-") as work:
        directories = sorted({str(Path(p).resolve()) for p in (sys.prefix, sys.base_prefix, str(_PACKAGE), *shown)})
        with open(Path(work) / "said", "wb") as said:
            outer = subprocess.Popen(
                ["bash", str(_SCRIPT), _made(Path(work) / "w"), cgroup, *directories],
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip
        try:
            yield _furnished(outer, Path(work) / "said")
        finally:
            _end(outer)
            _remove_cgroup(cgroup)


def _furnished(outer: subprocess.Popen[bytes], said: Path) -> Box:
    def leader() -> int | None:
        if outer.poll() is not None:
            raise BoxError(f"the box did not start: {said.read_text(errors='replace').strip()[-500:]}")
        return next(filter(None, map(_systemd_below, _children(outer.pid))), None)

    box = Box(leader)
    box.root("useradd", "--create-home", "--uid", str(UID), USER)
    box.root("loginctl", "enable-linger", USER)
    box.await_user()
    if box.user("/usr/bin/env", *_python(), "-c", "import memoryd.service.daemon", check=False).returncode:
        raise BoxError("the user of the box cannot read this interpreter or this package")
    box.write(f"{HOME}/.local/bin/memoryd", _launcher(), 0o755)
    return box


def _launcher() -> str:
    return f'#!/bin/sh\nexport PYTHONPATH="{_PACKAGE}"\nexec "{sys.executable}" -m memoryd "$@"\n'


def _cgroup() -> str:
    if os.geteuid() != 0:
        raise BoxError("needs root")
    missing = [name for name in _NEEDED if shutil.which(name) is None]
    if missing or not os.path.exists("/lib/systemd/systemd"):
        raise BoxError(f"needs {', '.join(missing) or 'systemd'}")
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    unified = [mount[1] for mount in mounts if mount[2] == "cgroup2"]
    if not unified or not os.access(unified[0], os.W_OK):
        raise BoxError("needs a writable cgroup2 file system")
    return f"{unified[0]}/memoryd-box-{os.getpid()}-{os.urandom(3).hex()}"


def _made(path: Path) -> str:
    path.mkdir()
    return str(path)


def _children(pid: int) -> list[int]:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _systemd_below(pid: int) -> int | None:
    """The child of `unshare`, once it has become systemd."""
    for child in _children(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                return child
    return None


def _end(outer: subprocess.Popen[bytes]) -> None:
    """Killing process 1 of the box takes every process in it along; no other one is started, because the loop of the
    script ends with what else than a reboot ends a box."""
    for unshare in _children(outer.pid):
        for leader in _children(unshare):
            with contextlib.suppress(ProcessLookupError):
                os.kill(leader, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        outer.wait(30)
    outer.kill()
    outer.wait()


def _remove_cgroup(cgroup: str) -> None:
    def gone() -> bool:
        for directory, _, _ in os.walk(cgroup, topdown=False):
            with contextlib.suppress(OSError):  # its last process is still on its way out
                os.rmdir(directory)
        return not os.path.exists(cgroup)

    until(gone, f"{cgroup} is empty")
