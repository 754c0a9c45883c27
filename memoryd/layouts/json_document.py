"""Findings and repairs for a file that is one JSON document with many memories.

Its agent writes the file whole, so damage takes two forms: nothing in it can be parsed, or the end of an older, longer
text follows the document.
"""

from __future__ import annotations

from memoryd.core.findings import Finding
from memoryd.core.json_spans import DocumentSpan, decode, find_document
from memoryd.core.records import FRESH_S, Document, NativeMemory
from memoryd.core.spans import BOM, Edit, Span, replace_surrogates
from memoryd.errors import InvalidMemoryError
from memoryd.layouts.protocol import Fix, LoadedFile


def unreadable(path: str, document: DocumentSpan, code: str, *, now: float, mtime: float) -> Document:
    """Return the document of a file that cannot be parsed: pending while it is fresh, then with the finding `code`."""
    if abs(now - mtime) < FRESH_S:
        return Document(path, (), (), 1, 1, pending=True)
    message = f"Invalid JSON: {document.problem}; `memoryd backup list` shows what can be restored"
    return Document(path, (), (Finding(code, path, message),), 1, 1)


def document_findings(path: str, data: bytes, document: DocumentSpan) -> list[Finding]:
    """Return the findings about a readable file as a whole: a byte order mark, trailing bytes."""
    findings: list[Finding] = []
    if data.startswith(BOM):
        findings.append(Finding("byte-order-mark", path, "the file begins with a byte order mark", 1))
    if document.rest is not None:
        line = data.count(b"\n", 0, document.rest.start) + 1
        size = document.rest.end - document.rest.start
        code = "second-object" if document.second else "torn-file"
        findings.append(Finding(code, path, f"{size} bytes follow the document", line))
    return findings


def get_text(native: NativeMemory, key: str) -> str:
    """Return a member that is a string, else ""."""
    value = native.get(key)
    if not isinstance(value, str):
        return ""
    return value if value.isascii() else replace_surrogates(value)


def require_one_memory(path: str, content: bytes) -> bytes:
    """Return the saved bytes of a memory without white space around them. Raises InvalidMemoryError unless they are one
    JSON object."""
    text = content.strip()
    if _is_object(text):
        return text
    raise InvalidMemoryError(
        f"{path}: the saved bytes are not one memory",
        hint="`memoryd history` shows the change that removed them, `memoryd undo` takes it back",
        data={"findings": []},
    )


def _is_object(text: bytes) -> bool:
    try:
        return find_document(text).rest is None and isinstance(decode(text), dict)
    except (ValueError, RecursionError):
        return False


def torn_file_fixes(loaded: LoadedFile, end: bytes = b"") -> tuple[Fix, ...]:
    """Return the fix that replaces the trailing bytes of an older, longer text by `end`."""
    document = find_document(loaded.data)
    if document.rest is None or not any(finding.code == "torn-file" for finding in loaded.document.findings):
        return ()
    return (Fix("torn-file", (Edit(document.rest, end),), "remove the end of an older text after the document"),)


def recover_whole(loaded: LoadedFile, backup: bytes) -> Fix | None:
    """Return the fix that replaces a file without any readable memory by its newest good backup. Only on request."""
    if loaded.document.pending or loaded.document.records or not loaded.document.broken:
        return None
    edits = (Edit(Span(0, len(loaded.data)), backup),)
    return Fix("corrupt-file", edits, "unreadable; replaced by its newest good backup", safe=False)
