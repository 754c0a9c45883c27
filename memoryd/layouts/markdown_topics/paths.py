"""The file of a new entry, from topic and subtopic: inside the base, visible, listable, and not an archive."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from memoryd.errors import UsageError
from memoryd.layouts.markdown_topics.index import is_listable
from memoryd.layouts.markdown_topics.names import ARCHIVE, INDEX, SUFFIX
from memoryd.layouts.protocol import is_temp

DEFAULT_SUBTOPIC = "general"
MAX_NAME_BYTES = 200  # leaves room for the suffix of a temporary file below the limit of 255
_HINT = "a topic is a directory below the base (auth, or nested: auth/tokens), a subtopic is a file in it (oauth2)"


def path_for(where: Mapping[str, str]) -> str:
    """Return `topic/subtopic.md`. Topics may be nested; a subtopic may have its `.md`. Raises UsageError for names that
    are missing, hidden, outside the base, or in the archive."""
    strange = sorted(key for key, value in where.items() if value and key not in ("topic", "subtopic"))
    if strange:
        raise UsageError(f"{strange[0]}: not supported by this layout; use topic and subtopic", hint=_HINT)
    topic = where.get("topic", "").strip()
    if not topic:
        raise UsageError("topic: missing; it names the directory of the entry", hint=_HINT)
    subtopic = where.get("subtopic", "").strip() or DEFAULT_SUBTOPIC
    subtopic = subtopic.removesuffix(SUFFIX) or subtopic
    parts = topic.split("/")
    if parts[0].casefold() == ARCHIVE.rstrip("/"):
        raise UsageError("topic: entries reach the archive only by prune and forget", hint=_HINT)
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
    yield lambda name: name in (".", ".."), "must not be . or .."
    yield lambda name: name.startswith("."), "must not begin with a dot: hidden files are never read"
    yield lambda name: "/" in name or "\\" in name, "must not contain a slash or backslash"
    yield lambda name: name.lower().endswith(SUFFIX), f"must not end in {SUFFIX}"
    yield lambda name: name != name.strip(), "must not begin or end with white space"
    yield _is_no_text, "must be valid Unicode"
    yield (
        lambda name: not is_listable(name),
        "must not contain backticks or control characters, which the index cannot list",
    )
    yield (
        lambda name: is_temp(name) or is_temp(name + SUFFIX),
        "must not look like a temporary file",
    )
    yield (
        lambda name: len((name + SUFFIX).encode("utf-8", "replace")) > MAX_NAME_BYTES,
        f"must have at most {MAX_NAME_BYTES} bytes",
    )


_RULES = tuple(_rules())


def check_source(path: str, archive: str) -> None:
    """Raise UsageError unless the source that an archive names for an entry is a topic file inside its topic."""
    parts = path.split("/")
    hidden = any(not part or part.startswith(".") for part in parts)
    if hidden or not path.endswith(SUFFIX) or is_temp(path) or path == INDEX or path.startswith(ARCHIVE):
        raise UsageError(
            f"{archive}: the line above the entry does not name a topic file",
            hint="put the name of a file of that topic into `<!-- from: file.md -->`",
        )
