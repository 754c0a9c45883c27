"""A memory given on the command line: NAME=VALUE arguments, --tag, and the content of --file."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from memoryd.cli.options import MethodCommand
from memoryd.control.methods.method_types import Param
from memoryd.errors import InvalidMemoryError, UsageError

FILE_OPTION, TAG_OPTION = "from_file", "field_tags"


class FieldsCommand(MethodCommand):
    """A command that takes the fields of a memory; its help lists the fields of each layout."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the fields by layout, then the example."""
        from memoryd.layouts.registry import LAYOUTS  # noqa: PLC0415 - for --help only

        with formatter.section("Fields by layout"):
            rows = ((name, layout.fields) for name, layout in LAYOUTS.items() if layout.fields)
            formatter.write_dl([(name, ", ".join(known)) for name, known in rows])
        formatter.write_paragraph()
        formatter.write_text("`memoryd help layouts` describes them.")
        super().format_epilog(ctx, formatter)


def parameters(param: Param) -> list[click.Parameter]:
    """Return the arguments and options for a parameter that is an object."""
    metavar = "[TEXT] [NAME=VALUE]..." if param.name == "memory" else "[NAME=VALUE]..."
    file_help = "The memory as a JSON object, or the text of a whole entry; - is standard input."
    return [
        click.Argument([param.name], nargs=-1, metavar=metavar),
        click.Option(["--file", FILE_OPTION], metavar="FILE", help=file_help),
        click.Option(["--tag", TAG_OPTION], metavar="TAG", multiple=True, help="A tag; repeatable."),
    ]


def build_memory(
    words: Iterable[str], file: str | None, tags: Iterable[str], *, takes_text: bool = False
) -> dict[str, Any] | list[dict[str, Any]]:
    """Return the memory: the object in the file, overridden by NAME=VALUE fields and tags. `takes_text`: the command
    also takes a text before the fields.

    Returns a list of objects if the file contains one. Raises UsageError for fields that are not NAME=VALUE, and for
    fields given with a list.
    """
    memory = _from_file(file) if file is not None else {}
    if isinstance(memory, list):
        if [*words, *tags]:
            raise UsageError(f"{file} contains several memories", hint="give no other fields with it")
        return memory
    given: dict[str, list[Any]] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name:
            raise _not_a_field(word, takes_text=takes_text)
        given.setdefault(name, []).append(_value(value))
    memory |= {name: values[0] if len(values) == 1 else values for name, values in given.items()}
    listed = list(tags)
    return memory | ({"tags": listed} if listed else {})


def _not_a_field(word: str, *, takes_text: bool) -> UsageError:
    from memoryd.core.secrets import redact  # noqa: PLC0415 - compiles many patterns

    shown = redact(word)  # it may be the text of a memory
    before = "put a text of several words first, or " if takes_text else ""
    return UsageError(
        f"{shown!r} is not NAME=VALUE", hint=f"{before}write content={json.dumps(shown, ensure_ascii=False)}"
    )


def tags_hint(error: InvalidMemoryError, params: Mapping[str, Any]) -> str | None:
    """Return how to write tags on the command line, if a memory was refused because they were given as a text."""
    as_text = any(isinstance(value, dict) and isinstance(value.get("tags"), str) for value in params.values())
    refused = any(each.get("field") == "tags" for each in error.data.get("findings", ()))
    return (
        "nothing was stored; correct the fields named, and write --tag TAG for each tag"
        if as_text and refused
        else None
    )


def split_sentence(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the sentence that the words begin with, "" if there is none, and the NAME=VALUE words after it.

    A single word is no sentence, and neither is `content = x`.
    """
    count = next((at for at, word in enumerate(words) if re.match(r"\w+=", word)), len(words))
    sentence = " ".join(words[:count]).strip()
    return (sentence, list(words[count:])) if " " in sentence and "=" not in words[:count] else ("", list(words))


def sentence_fields(sentence: str, layout: str | None, given: Sequence[str]) -> list[str]:
    """Return the NAME=VALUE words of a memory made of a sentence and the fields `given`, which take precedence.

    Raises UsageError if none of the other fields would hold the whole sentence.
    """
    from memoryd.layouts.registry import LAYOUTS  # noqa: PLC0415 - for `add` only

    form = LAYOUTS[layout].sentence if layout is not None and layout in LAYOUTS else {"content": "{}"}
    names = {word.partition("=")[0] for word in given}
    filled = {name: value.format(sentence) for name, value in form.items() if name not in names}
    if sentence not in filled.values():
        name = list(form)[-1]
        raise UsageError(f"the text is the {name}, but {name}=... is given too", hint="give one of them")
    return [*(f"{name}={json.dumps(value)}" for name, value in filled.items()), *given]


def _value(text: str) -> Any:
    """Decode a JSON number, list, object, literal or quoted string; return any other text unchanged."""
    try:
        return json.loads(text, parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        return text


def _reject_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _from_file(name: str) -> dict[str, Any] | list[dict[str, Any]]:
    text = _read(name)
    listed = _objects(text)
    if listed is not None or not text.lstrip().startswith("{"):
        return listed or {"text": text}
    try:
        memory = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not JSON: {error}", hint="write one object with its fields") from error
    assert isinstance(memory, dict)
    return memory


def _objects(text: str) -> list[dict[str, Any]] | None:
    """Return a JSON list of objects; None for other text in brackets, which may be an entry of a topic file."""
    if not text.lstrip().startswith("["):
        return None
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return values if values and all(isinstance(each, dict) for each in values) else None


def _read(name: str) -> str:
    try:
        if name == "-":
            content = sys.stdin.buffer.read()
        else:
            with open(name, "rb") as file:
                content = file.read()
        return content.decode("utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8 text: invalid byte at offset {error.start}") from error
