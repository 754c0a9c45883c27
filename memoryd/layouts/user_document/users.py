"""Users and the paths of their documents.

Users are identified by path, and only file names are used to find them. A user is named by the whole path before
`__long-memories/` (`files/alice`), or, where the other paths show the form of the tree, by the user's part of it
(`alice`). A new document goes beside those of the other users.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from memoryd.core.ignore import is_temp
from memoryd.errors import UsageError
from memoryd.layouts.user_document.parser import FILE, user_of

_STORAGE = "files"  # the program's storage path is `files/{user_bucket}/...`
_MAX_USERS = 20  # users listed in a message
_MAX_NAME_BYTES = 255  # bytes of a name
_DIR = FILE.partition("/")[0]


def path_for(paths: Collection[str], user: str) -> str:
    """Return the path of a user's document, where the root has files at these paths. Raises UsageError where no user is
    named and there is not exactly one, where the name is invalid, or where it matches several documents."""
    if not user:
        return _only_user(paths)
    if f"{user}/{FILE}" in paths:
        return f"{user}/{FILE}"
    _check(user)
    others = [each.split("/") for each in _users(paths) if each]
    parts = _user_path(others, user) if "/" not in user else user.split("/")
    return "/".join([*parts, FILE])


def _only_user(paths: Collection[str]) -> str:
    users = _users(paths)
    if len(users) != 1:
        shown = ", ".join(each or "(the root itself)" for each in users[:_MAX_USERS])
        many = f"there are several: {shown}" if users else "there are none yet"
        raise UsageError(f"user: missing, and {many}", hint="name the user whose memory it is with --user")
    return "/".join(filter(None, (users[0], FILE)))


def match_user(users: Collection[str], name: str) -> str | None:
    """Return the user that a name matches, as for storing: the whole path before `__long-memories/`, or the user's part
    of it. None where nobody matches; raises UsageError where several do."""
    if name in users:
        return name
    others = [each.split("/") for each in users if each]
    at = _user_column(others)
    same = [each for each in others if each[-1 if at is None else at] == name]
    return "/".join(_single_match(same, name)) if same else None


def _single_match(same: Collection[list[str]], name: str) -> list[str]:
    if len(same) > 1:
        names = ", ".join("/".join(each) for each in sorted(same))
        raise UsageError(f"user: {name} has several documents: {names}", hint="use the full path of one of them")
    return next(iter(same))


def _users(paths: Iterable[str]) -> list[str]:
    return sorted(user_of(path) for path in paths if f"/{path}".endswith(f"/{FILE}"))


def _user_path(others: Collection[list[str]], name: str) -> list[str]:
    """Return the path that a user of this name has or would have."""
    at = _user_column(others)
    if at is None:
        return [name]
    same = [each for each in others if each[at] == name]
    if same:
        return _single_match(same, name)
    model = next(iter(others))
    tails = {tuple(each[at + 1 :]) for each in others}
    return [*model[:at], name, *(tails.pop() if len(tails) == 1 else ())]


def _user_column(others: Collection[list[str]]) -> int | None:
    """Return which part of the paths is the user's name: the one below `files`, else the only part that differs. None
    where that is ambiguous."""
    if not others:
        return None
    if all(each[0] == _STORAGE and len(each) > 1 for each in others):
        return 1
    lengths = {len(each) for each in others}
    if len(lengths) > 1:
        return None
    is_different = [len(set(column)) > 1 for column in zip(*others, strict=True)]
    differing = [number for number, differs in enumerate(is_different) if differs]
    if not differing:
        return lengths.pop() - 1
    return differing[0] if len(differing) == 1 else None


def _check(user: str) -> None:
    hint = "a user is a name (alice) or the path to the bucket (files/alice)"
    for part in user.split("/"):
        if not part or part in (".", "..") or part.startswith("."):
            raise UsageError("user: must be a relative path without empty, hidden or `..` parts", hint=hint)
        if part == _DIR or is_temp(part):
            raise UsageError("user: the name is reserved or looks like a temporary file", hint=hint)
        if "\\" in part or part != part.strip() or not part.isprintable():
            raise UsageError("user: must not contain backslashes, control characters or outer spaces", hint=hint)
        if len(part.encode()) > _MAX_NAME_BYTES:
            raise UsageError(f"user: a name must have at most {_MAX_NAME_BYTES} bytes", hint=hint)
