"""The unit files of systemd, made from values: `Service` in, text out. The files in `systemd/` come from here too."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from msgspec import Struct

from memoryd.errors import ConfigError

UNIT, SOCKET_UNIT, DROP_IN = "memoryd.service", "memoryd.socket", "memoryd.service.d/hardened.conf"
MARK = "# memoryd as a "
"""How every unit file of memoryd begins, by hand or by command; others are not overwritten."""

_PLAIN = re.compile(r"[\w@%+=:,./~-]+")
_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - directories that PrivateTmp= would hide


class Service(Struct, frozen=True):
    """The values in the files of a service.

    `command`: the program with its global options, without `run`. `env_file`: where keys are. `writable`: directories
    of roots, state and configuration. `network`: the addresses the configuration needs, "none", "loopback" or "any".
    `user`: the user of a system service; empty for a user service. `listen`: the path of the control socket if it is
    not the usual one. `libraries`: the directories of the program itself.
    """

    command: tuple[str, ...]
    env_file: str
    writable: tuple[str, ...] = ()
    network: str = "any"
    user: str = ""
    listen: str = ""
    libraries: tuple[str, ...] = ()
    hardened: bool = False
    with_socket: bool = False


_SERVICE = """\
{mark}{scope} service. `memoryd service install{option}` writes this file; to change it, use
# `systemctl {manager}edit memoryd`.

[Unit]
Description=memoryd, looks after the memories of AI agents
{order}# After 100 starts in five minutes, systemd stops and reports it: a service that crashes at each start gets there
# in four minutes, but manual restarts do not. A start that fails because of the disk (74) waits long enough to stay
# below this limit, so the service recovers by itself.
StartLimitIntervalSec=300
StartLimitBurst=100

[Service]
# Ready once every root has been scanned; a long first scan asks for more time by itself.
Type=notify
NotifyAccess=main
TimeoutStartSec=120
{user}ExecStart={command} run
# Variables named in the configuration, such as the key of an embeddings endpoint: MEMORYD_EMBEDDINGS_KEY=… (mode 0600).
EnvironmentFile=-{env_file}

# Waits until the new configuration is in force; if it is invalid, fails with the reason and keeps the old one.
ExecReload={command} reload

# memoryd stops within 5 s of SIGTERM. SIGKILL after 15 s is safe: every commit survives it.
KillMode=mixed
TimeoutStopSec=15

Restart=on-failure
RestartSec=2
# Another try would not help: wrong usage (2), already running (75), permission (77), configuration (78).
RestartPreventExitStatus=2 75 77 78

# The ping means that no thread hangs and that the schedule runs. A hang ends with SIGABRT, which
# writes the stacks of all threads to the journal before the restart.
WatchdogSec=60
WatchdogSignal=SIGABRT

# Memories are private.
UMask=0077
# The directory of the control socket{socket_place}. Preserved when the service stops,
# because the socket of memoryd.socket is also in it.
RuntimeDirectory=memoryd
RuntimeDirectoryMode=0700
RuntimeDirectoryPreserve=yes
# No StateDirectory=: memoryd creates ~/.local/state/memoryd (0700) itself, which it also uses when started by hand.

# Enough for a hundred roots. Parsing a file of 64 MB, the largest that is read, takes 350 MB.
LimitNOFILE=8192
TasksMax=512
MemoryHigh=768M
MemoryMax=1G
# Yields under load by weight. Never Nice= or an idle I/O class: a slow reader loses events.
{weight}

# Directives that need no namespace and so work in every manager. Deliberately omitted: RestrictSUIDSGID= (changing the
# mode of a directory with the set-group-ID bit would fail) and ProtectProc= (live lock holders would look dead).
NoNewPrivileges=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RestrictRealtime=yes
RestrictNamespaces=yes
{network_comment}
RestrictAddressFamilies={families}
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM

[Install]
WantedBy={wanted_by}
{also}"""

_HARDENED = """\
{mark}hardened service: `memoryd service install{option} --hardened` writes this file.
# The whole file system is read-only except the directories below. A root that is added or replaced later stays
# read-only until `memoryd service install{option} --hardened` is run again.

[Service]
ProtectSystem=strict
ProtectHome=read-only
{writable}
{private}PrivateDevices=yes
PrivateMounts=yes
PrivateIPC=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectClock=yes
CapabilityBoundingSet=
AmbientCapabilities=
KeyringMode=private
# Allowed again: chown, because a rewritten file keeps the group of a shared root, and setpriority, because the thread
# that computes vectors lowers its own priority.
SystemCallFilter=~@privileged @resources
SystemCallFilter=@chown setpriority
"""

_SOCKET = """\
{mark}socket: it exists before the daemon and during its restarts, so a command waits instead of
# failing, and the first command starts the daemon. `memoryd service install{option} --socket` writes this file.

[Unit]
Description=Control socket of memoryd

[Socket]
ListenStream={listen}
FileDescriptorName=control
SocketMode=0600
{owner}Backlog=128
RemoveOnStop=yes

[Install]
WantedBy=sockets.target
"""


def service_unit(service: Service) -> str:
    """Return the text of `memoryd.service`."""
    system, socket = bool(service.user), service.with_socket
    local = service.network == "none"
    return _SERVICE.format(
        mark=MARK,
        scope="system" if system else "user",
        option=" --system" if system else "",
        manager="" if system else "--user ",
        order=f"Requires={SOCKET_UNIT}\nAfter={SOCKET_UNIT}\n" if socket else "",
        user=f"User={_escape(service.user)}\n" if system else "",
        command=command_line(service.command),
        env_file=_escape(service.env_file),
        socket_place="" if system else ", which clients find through $XDG_RUNTIME_DIR",
        weight="CPUWeight=50\nIOWeight=50" if system else "Slice=background.slice",
        network_comment=f"# {'No address outside this machine' if local else 'An embeddings endpoint'} is configured.",
        families="AF_UNIX" if local else "AF_UNIX AF_INET AF_INET6",
        wanted_by="multi-user.target" if system else "default.target",
        also=f"Also={SOCKET_UNIT}\n" if socket else "",
    )


def hardened_drop_in(service: Service) -> str:
    """Return the text of the drop-in that takes everything from the service but its own directories."""
    system = bool(service.user)
    private = []
    if not system:
        private.append("# A user manager can make namespaces only together with one for users.\nPrivateUsers=yes")
    if not any(_is_temporary(path) for path in (*service.writable, service.listen, *service.libraries)):
        private.append("PrivateTmp=yes")
    if service.network == "none":
        private.append("PrivateNetwork=yes")
    if system and service.network != "any":
        private.append("IPAddressDeny=any")
    if system and service.network == "loopback":
        private.append("IPAddressAllow=localhost")
    if system:
        private.append("DevicePolicy=closed")
    return _HARDENED.format(
        mark=MARK,
        option=" --system" if system else "",
        writable="\n".join(f"ReadWritePaths=-{quote(path)}" for path in service.writable),
        private="".join(f"{line}\n" for line in private),
    )


def socket_unit(service: Service) -> str:
    """Return the text of `memoryd.socket`."""
    usual = "%t/memoryd/control.sock"
    # The directory belongs to root until the service takes it over, so that its user may pass.
    system = f"SocketUser={_escape(service.user)}\nDirectoryMode=0755\n"
    return _SOCKET.format(
        mark=MARK,
        option=" --system" if service.user else "",
        listen=_escape(service.listen) if service.listen else usual,
        owner=system if service.user else "DirectoryMode=0700\n",
    )


def unit_files(service: Service) -> dict[str, str]:
    """Return the files of a service: path beneath the directory of units -> text."""
    files = {UNIT: service_unit(service)}
    if service.hardened:
        files[DROP_IN] = hardened_drop_in(service)
    if service.with_socket:
        files[SOCKET_UNIT] = socket_unit(service)
    return files


def command_line(words: Sequence[str]) -> str:
    """Return words as systemd reads them back in `ExecStart=`, where `$` is special too."""
    return " ".join(quote(word.replace("$", "$$")) for word in words)


def quote(word: str) -> str:
    """Return a word in the syntax of unit files: specifiers escaped, quoted if it contains blanks or quotes."""
    escaped = _escape(word)
    if _PLAIN.fullmatch(escaped):
        return escaped
    inner = escaped.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{inner}"'


def _escape(text: str) -> str:
    """Return text as the whole value of a directive, which takes blanks literally."""
    if not text.isprintable():
        raise ConfigError(
            f"{text!r} cannot be written into a unit: it contains control characters", hint="rename the directory"
        )
    return text.replace("%", "%%")


def _is_temporary(path: str) -> bool:
    return any(path == each or path.startswith(each + os.sep) for each in _TEMPORARY)
