"""The files of the service, made from values, and their installation against a manager that the test plays."""

from __future__ import annotations

import errno
import json
import os
import plistlib
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from memoryd.cli.service_target import Target
from memoryd.config.settings import EndpointConfig, SearchConfig
from memoryd.errors import AlreadyRunningError, ConfigError, ConflictError, DeniedError, NotFoundError
from memoryd.installer import installation
from memoryd.installer.installation import Account
from memoryd.installer.launchd import Launchd, agent
from memoryd.installer.managers import Completed, ServiceError, Systemd, find_config_home
from memoryd.installer.requirements import network, start_command
from memoryd.installer.systemd import Service, hardened_drop_in, quote, service_unit, socket_unit, unit_files
from tests.daemon import Daemon

TOP = Path(__file__).parents[2]
USER = Service(
    command=("/usr/bin/true",), env_file="/home/u/.config/memoryd/env", writable=("/home/u/memories",), network="none",
    hardened=True, with_socket=True,
)  # fmt: skip
SYSTEM = replace(USER, user="daemon")


def test_the_shipped_files_are_made_from_the_same_text() -> None:
    shipped = Service(command=("/HOME/.local/bin/memoryd",), env_file="/HOME/.config/memoryd/env")
    assert (TOP / "systemd/memoryd.service").read_text() == service_unit(shipped).replace("/HOME", "%h")
    assert (TOP / "systemd/memoryd.socket").read_text() == socket_unit(shipped)
    words = Service(command=("@MEMORYD@",), env_file="")
    assert (TOP / "launchd/dev.memoryd.agent.plist").read_text() == agent(words, "@HOME@")


@pytest.mark.parametrize(
    ("search", "wanted"),
    [
        (SearchConfig(), "none"),
        (SearchConfig("endpoint"), "loopback"),
        (SearchConfig("endpoint", EndpointConfig(url="https://api.example.com/v1")), "any"),
        (SearchConfig("off", EndpointConfig(url="https://api.example.com/v1")), "none"),
    ],
)
def test_address_families_only_as_the_configuration_needs(search: SearchConfig, wanted: str) -> None:
    assert network(search) == wanted
    families = re.findall(r"^RestrictAddressFamilies=(.*)$", service_unit(replace(USER, network=wanted)), re.MULTILINE)
    assert families == ["AF_UNIX" if wanted == "none" else "AF_UNIX AF_INET AF_INET6"]
    hardened = hardened_drop_in(replace(SYSTEM, network=wanted)).splitlines()
    assert ("PrivateNetwork=yes" in hardened) == (wanted == "none")
    assert ("IPAddressAllow=localhost" in hardened) == (wanted == "loopback")


def test_a_root_in_the_temporary_directory_stays_visible() -> None:
    assert "PrivateTmp=yes" in hardened_drop_in(USER)
    assert "PrivateTmp=yes" not in hardened_drop_in(replace(USER, writable=("/tmp/memories",)))
    assert "PrivateTmp=yes" in hardened_drop_in(replace(USER, writable=("/tmpfiles",)))
    assert "PrivateTmp=yes" not in hardened_drop_in(replace(USER, libraries=("/tmp/clone/.venv",)))


@given(st.text(min_size=1))
def test_any_path_survives_the_syntax_of_units(word: str) -> None:
    if not word.isprintable():
        with pytest.raises(ConfigError):
            quote(word)
        return
    text = quote(word)
    plain = re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text
    assert plain.replace("%%", "%") == word
    assert " " not in text or text.startswith('"')


def _verified(units: Path, service: Service) -> subprocess.CompletedProcess[str]:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    for name, text in unit_files(service).items():
        (units / name).parent.mkdir(exist_ok=True)
        (units / name).write_text(text)
    scope = [] if service.user else ["--user"]
    return subprocess.run(
        ["systemd-analyze", *scope, "verify", "--man=no", "--recursive-errors=yes", str(units / "memoryd.service")],
        env={**os.environ, "XDG_RUNTIME_DIR": str(units)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize("service", [USER, SYSTEM], ids=["user", "system"])
def test_systemd_finds_nothing_wrong_with_any_form(tmp_path: Path, service: Service) -> None:
    for network_ in ("none", "loopback", "any"):
        spaced = replace(service, network=network_, writable=('/home/u/my "100%" memories',), listen="/run/x/c.sock")
        done = _verified(tmp_path, spaced)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("network_", "limit"), [("none", 1.5), ("loopback", 1.9), ("any", 1.9)])
def test_the_system_service_is_hardly_exposed(tmp_path: Path, network_: str, limit: float) -> None:
    """One file, because offline analysis reads no drop-ins."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    service = replace(SYSTEM, network=network_)
    body = hardened_drop_in(service).partition("[Service]\n")[2]
    unit = tmp_path / "memoryd-exposure.service"
    unit.write_text(service_unit(replace(service, with_socket=False)).replace("\n[Install]", f"{body}\n[Install]"))
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", str(unit)], capture_output=True, text=True, timeout=60
    )
    level = re.search(r"Overall exposure level for \S+: (\d+\.\d+)", done.stdout)
    assert level, done.stderr
    assert float(level[1]) <= limit


def test_the_start_command_is_the_link_that_upgrades_keep(tmp_path: Path) -> None:
    script = tmp_path / "real"
    script.write_text("")
    script.chmod(0o755)
    link = tmp_path / "memoryd"
    link.symlink_to(script)
    assert start_command(str(link)) == (str(link),)
    assert start_command("/x/memoryd/__main__.py", "/opt/python3") == ("/opt/python3", "-m", "memoryd")


# --- installing, with a manager that is played


class Played:
    """Answers the commands of a manager, and starts a real daemon where it is told to start the service."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.calls: list[list[str]] = []
        self.broken = ""

    def __call__(
        self, words: Sequence[str], *, user: str | None = None, env: Mapping[str, str] | None = None
    ) -> Completed:
        self.calls.append(list(words))
        if words[0] == "mkdir":
            os.makedirs(words[-1], 0o700, exist_ok=True)
        if "show" in words:
            if self.broken == "manager":
                return Completed(1, "Failed to connect to bus")
            return Completed(0, "LoadState=loaded\nActiveState=active\nSubState=running\nMainPID=0\nNRestarts=0")
        if "is-active" in words or self.broken in words:
            return Completed(3, f"{self.broken} refused")
        if "restart" in words:
            self.daemon.start()
        if "disable" in words and self.daemon.process is not None:
            self.daemon.stop()
        return Completed(0, "")


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return Account("u", str(tmp_path), str(tmp_path / "d" / "state"))


def _systemd(tmp_path: Path, run: Played) -> Systemd:
    return Systemd(run, system=False, config_home=str(tmp_path / "config"), user="u")


@pytest.fixture
def played(tmp_path: Path) -> Iterator[Played]:
    root = tmp_path / "root"
    root.mkdir()
    (root / "learnings.jsonl").touch()
    with Daemon(tmp_path / "d", config=f'[[root]]\npath = "{root}"\nlayout = "jsonl-store"\n') as daemon:
        yield Played(daemon)


def test_an_installation_ends_with_an_answer_and_leaves_only_its_files(
    tmp_path: Path, played: Played, account: Account
) -> None:
    manager = _systemd(tmp_path, played)
    units = tmp_path / "config" / "systemd" / "user"
    done = installation.install(manager, USER, account, played)
    assert done.pid == played.daemon.pid
    names = ["memoryd.service", "memoryd.service.d/hardened.conf", "memoryd.socket"]
    assert sorted(os.path.relpath(path, units) for path in done.written) == names
    assert all((units / name).stat().st_mode & 0o777 == 0o644 for name in names)
    assert installation.present_files(manager) == manager.files(USER)
    (units / "memoryd.service.d" / "own.conf").write_text("[Service]\n")
    state = sorted(os.listdir(account.state_dir))
    assert installation.uninstall(manager, dry_run=True) == done.written
    assert installation.present_files(manager) == manager.files(USER)
    assert len(installation.uninstall(manager)) == 3
    assert [path.name for path in units.rglob("*") if path.is_file()] == ["own.conf"]
    assert {*os.listdir(account.state_dir)} >= {*state} - {"instance.json"}  # a daemon removes that itself
    assert installation.uninstall(manager) == ()


def test_a_simpler_installation_removes_what_it_does_not_need(tmp_path: Path, played: Played, account: Account) -> None:
    manager = _systemd(tmp_path, played)
    for path, text in manager.files(USER).items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(path).write_text(text)
    done = installation.install(manager, replace(USER, hardened=False, with_socket=False), account, played)
    assert sorted(map(os.path.basename, done.removed)) == ["hardened.conf", "memoryd.socket"]


def test_a_unit_of_somebody_else_is_left(tmp_path: Path, played: Played, account: Account) -> None:
    manager = _systemd(tmp_path, played)
    foreign = tmp_path / "config" / "systemd" / "user" / "memoryd.service"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("[Service]\nExecStart=/bin/true\n")
    with pytest.raises(ConflictError, match="not written by memoryd"):
        installation.install(manager, USER, account, played)
    assert installation.uninstall(manager, dry_run=True) == installation.uninstall(manager) == ()
    assert foreign.read_text() == "[Service]\nExecStart=/bin/true\n"


def test_a_relative_xdg_directory_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    manager = Target(click.Context(click.Command("service"), obj={}), system=False, run_as=None).manager
    assert isinstance(manager, Systemd)
    assert manager.directory == str(tmp_path / ".config" / "systemd" / "user")


@pytest.mark.parametrize(
    ("code", "answer", "found"),
    [
        (0, "UnitPath=/home/u/.config/systemd/user /etc/systemd/user", "/home/u/.config"),
        (0, "UnitPath=/cfg/systemd/user /etc/systemd/user", "/cfg"),
        (1, "Failed to connect to bus", "/cfg"),
    ],
)
def test_units_are_written_where_the_manager_looks(code: int, answer: str, found: str) -> None:
    """XDG_CONFIG_HOME may be set for a shell alone."""
    calls = list[list[str]]()

    def run(words: Sequence[str], **_: object) -> Completed:
        calls.append(list(words))
        return Completed(code, answer)

    assert find_config_home(run, {"XDG_CONFIG_HOME": "/cfg"}, "/home/u") == found
    assert calls == [["systemctl", "--user", "show", "-p", "UnitPath"]]
    assert find_config_home(run, {}, "/home/u") == "/home/u/.config"
    assert len(calls) == 1, "the manager is asked only if there is a choice"


def test_a_directory_in_place_of_a_unit_is_left(tmp_path: Path, played: Played, account: Account) -> None:
    manager = _systemd(tmp_path, played)
    unit = tmp_path / "config" / "systemd" / "user" / "memoryd.service"
    unit.mkdir(parents=True)
    with pytest.raises(ConflictError, match="not written by memoryd"):
        installation.install(manager, USER, account, played)
    with pytest.raises(ConflictError, match="not written by memoryd"):
        installation.uninstall(manager)
    assert unit.is_dir()


def test_units_that_cannot_be_removed_or_read_are_no_internal_error(
    tmp_path: Path, played: Played, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: object, **_: object) -> str:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    manager = _systemd(tmp_path, played)
    installation.install(manager, USER, account, played)
    with monkeypatch.context() as patch:
        patch.setattr("os.unlink", refuse)
        with pytest.raises(DeniedError, match=r"memoryd\.service cannot be removed: Permission denied"):
            installation.uninstall(manager)
        patch.setattr(Path, "read_text", refuse)
        with pytest.raises(DeniedError, match="cannot be read: Permission denied"):
            installation.uninstall(manager)
    assert installation.present_files(manager) == manager.files(USER)


@pytest.mark.parametrize("broken", ["manager", "restart"])
def test_a_manager_that_refuses_is_reported(tmp_path: Path, played: Played, account: Account, broken: str) -> None:
    played.broken = broken
    with pytest.raises(NotFoundError if broken == "manager" else ServiceError):
        installation.install(_systemd(tmp_path, played), USER, account, played)
    assert (tmp_path / "config").exists() == (broken == "restart")  # nothing is written without a manager


def test_a_program_that_starts_only_in_this_terminal_is_refused(
    tmp_path: Path, played: Played, account: Account
) -> None:
    gone = replace(USER, command=("/bin/false",))
    played.broken = "/bin/false"
    with pytest.raises(ServiceError, match="does not start outside this terminal"):
        installation.install(_systemd(tmp_path, played), gone, account, played)
    assert not (tmp_path / "config").exists()


def test_a_daemon_started_by_hand_is_not_displaced(tmp_path: Path, played: Played, account: Account) -> None:
    played.daemon.start()
    with pytest.raises(AlreadyRunningError, match=f"pid {played.daemon.pid}"):
        installation.install(_systemd(tmp_path, played), USER, account, played)


def test_launchd_is_asked_until_the_old_agent_is_gone() -> None:
    calls: list[str] = []
    printed = iter([0, 0, 0, 1])  # a graphical session, then the agent twice, then no agent
    pauses: list[float] = []

    def run(words: Sequence[str], *, user: str | None = None, env: Mapping[str, str] | None = None) -> Completed:
        calls.append(" ".join(words[1:]))
        if words[1] == "print" and words[2] == "gui/501":
            return Completed(0, "")
        if words[1] == "print":
            return Completed(next(printed), "")
        return Completed(5 if words[1] == "bootstrap" and calls.count(calls[-1]) < 3 else 0, "")

    manager = Launchd(run, home="/Users/u", uid=501, pause=pauses.append)
    manager.start(USER)
    steps = [call for call in calls if not call.startswith("print")]
    plist = "/Users/u/Library/LaunchAgents/dev.memoryd.agent.plist"
    assert steps == [
        "bootout gui/501/dev.memoryd.agent",
        *[f"bootstrap gui/501 {plist}"] * 3,
        "kickstart gui/501/dev.memoryd.agent",
    ]
    assert pauses == [0.2, 0.2, 0.2, 1.0, 1.0]


def test_the_agent_names_the_program_and_its_options() -> None:
    service = replace(USER, command=("/usr/local/bin/memoryd", "--state-dir", "/x & y"))
    values = plistlib.loads(agent(service, "/Users/u").encode())
    assert values["ProgramArguments"][:4] == ["/usr/local/bin/memoryd", "--state-dir", "/x & y", "run"]
    assert values["StandardErrorPath"] == "/Users/u/Library/Logs/memoryd.log"


def test_the_command_shows_units_for_exactly_the_configured_roots(played: Played, tmp_path: Path) -> None:
    daemon = played.daemon
    observed = tmp_path / "observed"
    observed.mkdir()
    more = f'[[root]]\npath = "{observed}"\nlayout = "jsonl-store"\nmode = "observe"\n'
    daemon.configure(daemon.config.read_text() + more)
    shown = subprocess.run(
        daemon.command("service", "show", "--hardened", "--json"), env=daemon.env, capture_output=True, timeout=60
    )
    assert shown.returncode == 0, shown.stderr
    files = {os.path.basename(path): text for path, text in json.loads(shown.stdout)["files"].items()}
    writable = re.findall(r"^ReadWritePaths=-(.*)$", files["hardened.conf"], re.MULTILINE)
    assert writable[:2] == [str(tmp_path / "root"), str(daemon.state)]
    assert str(observed) not in writable
    start = re.search(r"^ExecStart=(.*)$", files["memoryd.service"], re.MULTILINE)
    assert start
    assert start[1].startswith("/")
    assert f"--state-dir {daemon.state}" in start[1]
    assert start[1].endswith(" run")
