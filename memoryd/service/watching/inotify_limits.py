"""How many directories the kernel really watches for us, by its own account and not by a library's.

watchdog swallows a refused watch below the root, so its table looks complete while half of a tree is blind.
Linux lists every watch of a descriptor in /proc/self/fdinfo as
`inotify wd:1 ino:2ff sdev:800001 mask:...`, all numbers in hexadecimal.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

SYSCTLS = {
    "fs.inotify.max_user_watches": "/proc/sys/fs/inotify/max_user_watches",
    "user.max_inotify_watches": "/proc/sys/user/max_inotify_watches",  # of this user namespace (containers)
}
INSTANCE_SYSCTLS = {
    "fs.inotify.max_user_instances": "/proc/sys/fs/inotify/max_user_instances",
    "user.max_inotify_instances": "/proc/sys/user/max_inotify_instances",
}


class Coverage(NamedTuple):
    """Directories that should be watched, and those the kernel holds a watch for."""

    wanted: int
    held: int


def kernel_table(fd: int) -> dict[int, tuple[int, int]]:
    """Watch descriptor -> (device in the kernel's encoding, inode), of every watch of the inotify descriptor `fd`.

    Empty when the descriptor is closed; OSError is not raised.
    """
    try:
        with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as lines:
            return dict(_watch(line) for line in lines if line.startswith("inotify "))
    except OSError:
        return {}


def held_of(directories: Mapping[str, tuple[int, int]], table: Mapping[str, tuple[int, int]]) -> Coverage:
    """Count the `directories`, given as path -> (st_dev, st_ino), that `table` has under the same path.

    Where no directory of a device is found by device, inode numbers alone decide: btrfs subvolumes and
    overlays show another device to `stat` than the kernel prints.
    """
    by_device: dict[int, dict[str, int]] = {}
    for path, (dev, ino) in directories.items():
        by_device.setdefault(dev, {})[path] = ino
    held = 0
    for dev, inodes in by_device.items():
        exact = sum(table.get(path) == (kernel_device(dev), ino) for path, ino in inodes.items())
        held += exact or sum(path in table and table[path][1] == ino for path, ino in inodes.items())
    return Coverage(len(directories), held)


def kernel_device(st_dev: int) -> int:
    """`stat` spreads major and minor over st_dev; inside the kernel it is major << 20 | minor."""
    return os.major(st_dev) << 20 | os.minor(st_dev)


def limit_hint(*, instances: bool = False) -> str:
    """Which setting bounds the number of watches (or of inotify instances), its value, and how to raise it;
    "" where there is none."""
    settings, enough = (INSTANCE_SYSCTLS, 1024) if instances else (SYSCTLS, 524_288)
    limits = [(value, name) for name, path in settings.items() if (value := _number(path)) is not None]
    if not limits:
        return ""
    value, name = min(limits)
    return f"{name} is {value}; raise it with: sysctl -w {name}={max(value * 2, enough)}"


def _watch(line: str) -> tuple[int, tuple[int, int]]:
    fields = dict(part.split(":", 1) for part in line.split()[1:] if ":" in part)
    return int(fields["wd"], 16), (int(fields["sdev"], 16), int(fields["ino"], 16))


def _number(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as text:
            return int(text.read())
    except (OSError, ValueError):  # not Linux, or hidden by the sandbox
        return None
