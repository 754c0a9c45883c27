"""What can be healed in a session file: the rest of an older, longer text behind it, and a file that nobody can read.

The archiver that owns the folder moves such a file to `.quarantine/`, also while it is being written. memoryd keeps
its bytes in its own quarantine, and only once the file has been still; or a good backup takes its place, on request.
"""

from __future__ import annotations

from memoryd.core.text import Edit, Span
from memoryd.layouts.base import Fix, Loaded
from memoryd.layouts.one_document import look


def fixes(loaded: Loaded) -> tuple[Fix, ...]:
    if loaded.document.pending:
        return ()
    codes = {finding.code for finding in loaded.document.findings}
    if "broken-session" in codes:
        return (Fix("broken-session", (), "cannot be read; kept in quarantine", remove=True),)
    whole = look(loaded.data)
    if "torn-file" not in codes or whole.rest is None:
        return ()
    return (Fix("torn-file", (Edit(whole.rest, b"\n"),), "the end of an older text behind the document goes"),)


def recover(loaded: Loaded, backup: bytes) -> Fix | None:
    """A file in which no memory can be read gets its newest good backup back, whole."""
    if loaded.document.pending or loaded.document.records or not loaded.document.broken:
        return None
    edits = (Edit(Span(0, len(loaded.data)), backup),)
    return Fix("corrupt-file", edits, "nothing in it can be read; its newest good backup takes its place", safe=False)
