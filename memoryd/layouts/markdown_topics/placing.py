"""Where a new entry goes: the file that topic and subtopic name, inside the base, visible, listable and no archive."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from memoryd.errors import UsageError
from memoryd.layouts.base import is_temp
from memoryd.layouts.markdown_topics.listing import listable
from memoryd.layouts.markdown_topics.naming import ARCHIVE, INDEX, SUFFIX

GENERAL = "general"  # the subtopic where none is named
LONGEST = 200  # bytes of a name: with the marks of a temporary file it must stay below 255
_HINT = "a topic is a folder below the base (auth, or auth/tokens for a nested one), a subtopic a file in it (oauth2)"


def path_for(where: Mapping[str, str]) -> str:
    """`topic/subtopic.md`. Topics may be nested; a subtopic may be named with its `.md`. UsageError for names that
    are missing, lead out of the base, are hidden, or name the archive."""
    strange = sorted(key for key, value in where.items() if value and key not in ("topic", "subtopic"))
    if strange:
        raise UsageError(f"{strange[0]}: means nothing here; a topic and a subtopic name the place", hint=_HINT)
    topic = where.get("topic", "").strip()
    if not topic:
        raise UsageError("topic: is missing; it names the folder of the entry", hint=_HINT)
    subtopic = where.get("subtopic", "").strip() or GENERAL
    subtopic = subtopic.removesuffix(SUFFIX) or subtopic
    parts = topic.split("/")
    if parts[0].casefold() == ARCHIVE.rstrip("/"):
        raise UsageError("topic: the archive is filled by pruning and forgetting alone", hint=_HINT)
    _check("topic", parts)
    _check("subtopic", [subtopic])
    return f"{topic}/{subtopic}{SUFFIX}"


def _check(which: str, names: list[str]) -> None:
    for name in names:
        for wrong, rule in _RULES:
            if wrong(name):
                raise UsageError(f"{which}: {rule}", hint=_HINT)


def _is_no_text(name: str) -> bool:
    return any("\ud800" <= each <= "\udfff" for each in name)


def _rules() -> Iterator[tuple[Callable[[str], bool], str]]:
    yield lambda name: not name, "must be a relative path without empty parts"
    yield lambda name: name in (".", ".."), "must not lead out of the base or name the folder itself"
    yield lambda name: name.startswith("."), "a name that begins with a dot is hidden and never read"
    yield lambda name: "/" in name or "\\" in name, "a single name holds no slash and no backslash"
    yield lambda name: name.lower().endswith(SUFFIX), f"a name does not end in {SUFFIX} here"
    yield lambda name: name != name.strip(), "a name does not begin or end with white space"
    yield _is_no_text, "must be valid Unicode"
    yield lambda name: not listable(name), "a backtick or a control character cannot stand in the index"
    yield (
        lambda name: is_temp(name) or is_temp(name + SUFFIX),
        "is the kind of name that programs give to temporary files",
    )
    yield lambda name: len((name + SUFFIX).encode("utf-8", "replace")) > LONGEST, f"is longer than {LONGEST} bytes"


_RULES = tuple(_rules())


def check_source(path: str, archive: str) -> None:
    """A file that an archive names as the home of an entry: inside the topic, and one that memories are read from."""
    parts = path.split("/")
    hidden = any(not part or part.startswith(".") for part in parts)
    if hidden or not path.endswith(SUFFIX) or is_temp(path) or path == INDEX or path.startswith(ARCHIVE):
        raise UsageError(
            f"{archive}: the line above the entry names no topic file",
            hint="put the name of a file of that topic into `<!-- from: file.md -->`",
        )
