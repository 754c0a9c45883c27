"""The transcript at the top of the README is what the program prints, but for ids, receipts and times."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.daemon import Daemon

TEXT = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
VOLATILE = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "ID"),
    (re.compile(r"\d{8}-[a-z0-9]{7}"), "RECEIPT"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "TIME"),
)


def settled(text: str) -> str:
    """The text without what differs from run to run."""
    for pattern, name in VOLATILE:
        text = pattern.sub(name, text)
    return text


def commands() -> list[tuple[list[str], str]]:
    """Each command of the transcript after the first, which starts the daemon, with what it prints."""
    [block] = re.findall(r"^```console\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    made, first, *rest = re.split(r"^\$ (?:memoryd )?", block, flags=re.MULTILINE)[1:]
    assert made == "mkdir -p ~/agents/memories\n"
    assert first.startswith("run ~/agents/memories --layout jsonl-store ")
    return [(shlex.split(line), printed) for line, _, printed in (each.partition("\n") for each in rest)]


def test_the_transcript_of_the_readme_is_real(tmp_path: Path) -> None:
    root = tmp_path / "memories"
    root.mkdir()
    receipt = ""
    with Daemon(tmp_path / "d", root) as daemon:
        daemon.start()
        for words, printed in commands():
            done = daemon.run(*(receipt if settled(word) == "RECEIPT" else word for word in words))
            assert (done.returncode, settled(done.stdout)) == (0, settled(printed)), done.stderr
            receipt = next(iter(re.findall(r"receipt (\S+);", done.stdout)), receipt)
        assert daemon.stop() == 0
