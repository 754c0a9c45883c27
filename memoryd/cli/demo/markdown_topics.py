"""Topics in markdown: the index gains what it lacks around a person's own words, and a file that grew too long is
pruned to the archive of each entry's year."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from memoryd.cli.demo.laying import change_of, content, index_of, lay, tend
from memoryd.cli.demo.play import Play
from memoryd.cli.demo.voice import counted

ROOT = "markdown-topics"
LONG = "deploy/rollback.md"
LEFT = 10
INDEX = """# Memory Index

Ask Mia before you remove a topic; the release robot reads this file.

## Topics
### Build
- `ci-cache.md` - why the cache key holds the Python version

## House rules
New entries go to the top. Deutsch oder English, beides ist recht.
"""
ENTRIES: Mapping[str, tuple[tuple[str, str], ...]] = {  # newest first, as the seed wants them
    "build/ci-cache.md": (("2026-02-03", "Cache key"),),
    "build/signing.md": (("2026-01-12", "Signing on the small runner"), ("2025-11-30", "Certificate chain")),
    "people/reviews.md": (("2025-10-06", "Who reviews what"),),
    LONG: (
        ("2026-02-11", "Blue and green share one queue"),
        ("2026-01-22", "Roll back the schema last"),
        ("2025-12-01", "Freeze before the holidays"),
        ("2025-10-17", "Workers first, web second"),
        ("2025-08-29", "The health check lied"),
        ("2025-07-04", "Image tags are not versions"),
        ("2025-05-13", "Drain before stop"),
        ("2025-03-26", "One switch for all flags"),
        ("2025-03-02", "Keep the last three images"),
        ("2025-01-19", "Rollback took nine minutes"),
        ("2024-12-20", "No deployment on a Friday"),
        ("2024-06-07", "The first rollback by hand"),
    ),
}
_HEADING = re.compile(r"^## (\d{4}-\d{2}-\d{2}): (.+)$", re.MULTILINE)


def scene(play: Play) -> None:
    store = lay(play, ROOT, {"index.md": INDEX.encode(), **{path: _topic(path) for path in ENTRIES}})
    held = sum(map(len, ENTRIES.values()))
    listed = _listed(store)
    text = f"made {store}: {held} entries in {len(ENTRIES)} files; index.md, kept by hand, lists {len(listed)}"
    facts = {"path": store, "entries": held, "files": len(ENTRIES), "listed": len(listed)}
    play.voice.say("note", text, "topics-sample", **facts)
    tend(play, ROOT, schedule={"prune": "every 1s"})
    _tell_index(play, store)
    _tell_pruned(play, store)


def _tell_index(play: Play, store: str) -> None:
    index_of(play, ROOT)
    wanted = sorted(path.rpartition("/")[2] for path in ENTRIES)
    play.require(sorted(_listed(store)) == wanted, "index.md lists every topic file")
    after = iter(_text(store, "index.md").splitlines())
    kept = [line for line in INDEX.splitlines() if line.strip()]
    play.require(all(line in after for line in kept), "every line written by hand stands where it stood")
    added = len(wanted) - 1
    text = f"recognised as markdown-topics; index.md gained {counted(added, 'file')} around its {len(kept)} own lines"
    play.voice.say("did", text, "topics-index", added=added, kept=len(kept))


def _tell_pruned(play: Play, store: str) -> None:
    """Each entry that left the long file stands in the archive of its own year, byte for byte."""
    event = change_of(play, ROOT, "prune")
    before, after = _entries(_topic(LONG).decode()), _entries(_text(store, LONG))
    gone = [heading for heading in before if heading not in after]
    play.require(len(after) == LEFT and bool(gone), f"{LONG} holds {LEFT} entries")
    for day, title in gone:
        archive = f"archive/{os.path.dirname(LONG)}/{day[:4]}.md"
        shelf = _entries(_text(store, archive))
        play.require(shelf.get((day, title)) == before[day, title], f"“{title}” stands in {archive} as it was")
        text = f"pruned from {LONG}: {day} “{title}” is in {archive}"
        facts = {"source": LONG, "day": day, "title": title, "path": archive, "receipt": event["receipt"]}
        play.voice.say("did", text, "topics-pruned", **facts)
    text = f"{LEFT} of {len(before)} entries stay in it; `memoryd undo {event['receipt']}` would bring the others back"
    back = play.stage.call("undo", receipt=event["receipt"], dry_run=True)["plan"]["actions"]
    play.require(LONG in [action["path"] for action in back], "the pruning can be taken back")
    facts = {"path": LONG, "before": len(before), "after": LEFT, "receipt": event["receipt"]}
    play.voice.say("note", text, "topics-left", **facts)


def _text(store: str, path: str) -> str:
    return content(os.path.join(store, path)).decode()


def _listed(store: str) -> list[str]:
    return re.findall(r"^- `([^`]+)`", _text(store, "index.md"), re.MULTILINE)


def _entries(text: str) -> dict[tuple[str, str], str]:
    """(day, title) -> the text of the entry, without the archive's line about the next one."""
    found = list(_HEADING.finditer(text))
    ends = [each.start() for each in found[1:]] + [len(text)]
    bodies = (text[each.start() : end] for each, end in zip(found, ends, strict=True))
    return {
        (each[1], each[2]): re.sub(r"<!-- from: .* -->\s*$", "", body).rstrip()
        for each, body in zip(found, bodies, strict=True)
    }


def _topic(path: str) -> bytes:
    title = os.path.basename(path).removesuffix(".md").replace("-", " ").capitalize()
    blocks = [
        f"## {day}: {name}\n**Context:** a release in {day[:7]}\n**Problem:** it went wrong again\n"
        f"**Solution:** {name.lower()}, and written down\n\n---\n"
        for day, name in ENTRIES[path]
    ]
    return (f"# {title}\n\n" + "\n".join(blocks)).encode()
