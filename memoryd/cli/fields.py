"""A memory from the command line: NAME=VALUE arguments over what --file holds."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

import click

from memoryd.control.methods import Param
from memoryd.errors import UsageError

FILE_OPTION, TAG_OPTION = "from_file", "field_tags"


def parameters(param: Param) -> list[click.Parameter]:
    """The arguments and options that make up an object parameter."""
    told = "The memory as a JSON object, or the text of a whole entry; - is standard input."
    return [
        click.Argument([param.name], nargs=-1, metavar="[NAME=VALUE]..."),
        click.Option(["--file", FILE_OPTION], metavar="FILE", help=told),
        click.Option(["--tag", TAG_OPTION], metavar="TAG", multiple=True, help="One of its tags; repeatable."),
    ]


def gathered(words: Iterable[str], file: str | None, tags: Iterable[str]) -> dict[str, Any]:
    """The object they make: single fields win over the file. Raises UsageError."""
    found = _from_file(file) if file is not None else {}
    given: dict[str, list[Any]] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name:
            raise UsageError(f"{word!r} is no field", hint='fields are NAME=VALUE, as content="The pool needs 20"')
        given.setdefault(name, []).append(_value(value))
    found |= {name: values[0] if len(values) == 1 else values for name, values in given.items()}
    listed = list(tags)
    return found | ({"tags": listed} if listed else {})


def _value(text: str) -> Any:
    """JSON where it is JSON beyond doubt: a number, list, object, word of JSON or quoted text; else the text itself."""
    try:
        return json.loads(text, parse_constant=_no_json)
    except (ValueError, RecursionError):
        return text


def _no_json(word: str) -> None:
    raise ValueError(f"{word} is known to Python alone")


def _from_file(name: str) -> dict[str, Any]:
    text = _read(name)
    if not text.lstrip().startswith("{"):
        return {"text": text}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is no JSON object: {error}", hint="one object with the memory's fields") from error
    assert isinstance(found, dict)
    return found


def _read(name: str) -> str:
    try:
        if name == "-":
            content = sys.stdin.buffer.read()
        else:
            with open(name, "rb") as file:
                content = file.read()
        return content.decode("utf-8")
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is no UTF-8 text, from byte {error.start}") from error
