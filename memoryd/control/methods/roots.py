"""Methods about the roots: which directories are tended."""

from __future__ import annotations

from memoryd.control.methods.shared import NAME, PATH, ROOTS
from memoryd.control.methods.table import LAYOUTS, Method, Param

METHODS: tuple[Method, ...] = (
    Method(
        "root.list",
        ("root", "list"),
        "List the roots.",
        "A root is one watched directory with one layout.",
        "memoryd root list",
        (NAME, PATH),
        (ROOTS,),
        "read",
        False,
    ),
    Method(
        "root.add",
        ("root", "add"),
        "Tend another directory from now on.",
        "Also written into the configuration file, whose comments stay as they are.",
        "memoryd root add ~/.claude/agents/memories --name agents --layout jsonl-store",
        (
            Param("path", "str", "the directory", cli="argument", required=True, local_path=True),
            Param("name", "str", "a short name (default: from the path)", cli="--name", placeholder="NAME"),
            Param("layout", "str", "its layout (default: detected)", cli="--layout", choices=LAYOUTS),
        ),
        (ROOTS,),
        "control",
        True,
        waits_s=60,
    ),
    Method(
        "root.remove",
        ("root", "remove"),
        "Stop tending a directory; its files stay.",
        "Also taken out of the configuration file, whose comments stay as they are.",
        "memoryd root remove agents",
        (NAME, PATH),
        (ROOTS,),
        "control",
        True,
        one_of=("name", "path"),
        waits_s=60,
    ),
    Method(
        "root.pause",
        ("root", "pause"),
        "Leave a directory alone until it is resumed.",
        "Nothing is read or written there meanwhile; a `sync` on it is refused.",
        "memoryd root pause agents",
        (NAME, PATH),
        (ROOTS,),
        "control",
        True,
        one_of=("name", "path"),
        waits_s=60,
    ),
    Method(
        "root.resume",
        ("root", "resume"),
        "Resume a paused root, or accept what a suspect one holds now.",
        "A root whose directory was replaced or emptied is suspect: nothing is written there until it is "
        "plainly the same again, or until this says that it is right as it is.",
        "memoryd root resume agents",
        (NAME, PATH),
        (ROOTS,),
        "control",
        True,
        one_of=("name", "path"),
        waits_s=60,
    ),
    Method(
        "root.confirm",
        ("root", "confirm"),
        "Let memoryd write in a root whose layout it only recognised.",
        "Until then it observes: `status` says what the layout was recognised by, `plan` what would be done.",
        "memoryd root confirm agents",
        (NAME, PATH),
        (ROOTS,),
        "control",
        True,
        one_of=("name", "path"),
        waits_s=60,
    ),
)
