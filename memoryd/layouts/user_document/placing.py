"""Whose document a memory goes into. Users are told apart by path: only names of files are looked at here.

A user is named by the whole path before `__long-memories/` (`files/alice`), or, where the others show the form of the
tree, by their own part of it (`alice`). A document that is not there yet is made beside those of the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from memoryd.errors import UsageError
from memoryd.layouts.base import is_temp
from memoryd.layouts.storing import StoringView
from memoryd.layouts.user_document.reading import FILE, user_of

_STORAGE = "files"  # the program's storage path is `files/{user_bucket}/...`
_LONGEST = 255  # bytes of a name
_FOLDER = FILE.partition("/")[0]


def path_for(view: StoringView, user: str) -> str:
    """UsageError where no user is named and there is not exactly one, where the name leads out of the tree, or where
    it means more than one document."""
    if not user:
        return _only(view)
    if f"{user}/{FILE}" in view.files:
        return f"{user}/{FILE}"
    _check(user)
    others = [each.split("/") for each in _users(view.files) if each]
    parts = _beside(others, user) if "/" not in user else user.split("/")
    return "/".join([*parts, FILE])


def _only(view: StoringView) -> str:
    users = _users(view.files)
    if len(users) != 1:
        many = "there are several" if users else "there is none yet"
        raise UsageError(f"user: is missing, and {many}", hint="name the user whose memory it is")
    return "/".join(filter(None, (users[0], FILE)))


def _users(paths: Iterable[str]) -> list[str]:
    return sorted(user_of(path) for path in paths if f"/{path}".endswith(f"/{FILE}"))


def _beside(others: Collection[list[str]], name: str) -> list[str]:
    """The path that a user of this name has or would have."""
    at = _position(others)
    if at is None:
        return [name]
    same = [each for each in others if each[at] == name]
    if len(same) > 1:
        told = ", ".join("/".join(each) for each in sorted(same))
        raise UsageError(f"user: {name} has several documents: {told}", hint="name one of them whole")
    if same:
        return same[0]
    model = next(iter(others))
    tails = {tuple(each[at + 1 :]) for each in others}
    return [*model[:at], name, *(tails.pop() if len(tails) == 1 else ())]


def _position(others: Collection[list[str]]) -> int | None:
    """Which part of their paths is the user's own name: that below `files`, else the only one in which they differ.
    None where that cannot be told."""
    if not others:
        return None
    if all(each[0] == _STORAGE and len(each) > 1 for each in others):
        return 1
    lengths = {len(each) for each in others}
    if len(lengths) > 1:
        return None
    columns = [len(set(column)) > 1 for column in zip(*others, strict=True)]
    differing = [number for number, differs in enumerate(columns) if differs]
    if not differing:
        return lengths.pop() - 1
    return differing[0] if len(differing) == 1 else None


def _check(user: str) -> None:
    hint = "a user is named by a name (alice) or by the path to the bucket (files/alice)"
    for part in user.split("/"):
        if not part or part in (".", "..") or part.startswith("."):
            raise UsageError("user: must be a relative path without empty, hidden or climbing parts", hint=hint)
        if part == _FOLDER or is_temp(part):
            raise UsageError("user: is a name that means something else here", hint=hint)
        if "\\" in part or part != part.strip() or not part.isprintable():
            raise UsageError("user: holds no backslash, no control character and no space at an end", hint=hint)
        if len(part.encode()) > _LONGEST:
            raise UsageError(f"user: a name has at most {_LONGEST} bytes", hint=hint)
