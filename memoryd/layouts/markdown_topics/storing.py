"""Storing entries: on top of their file. Pure: plans come out (see `memoryd.layouts.storing`).

A new entry goes above all others whatever its date is, as the seed says; what then makes the file too long leaves it in
the same step, oldest first, copied into the archive before. `index.md` follows after the change, by the index itself.
"""

from __future__ import annotations

from memoryd.core.digest import sha256
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.text import Edit, Span, splice
from memoryd.errors import UsageError
from memoryd.layouts.asked import Breach, refuse
from memoryd.layouts.base import Loaded, UpkeepView
from memoryd.layouts.markdown_topics import upkeep
from memoryd.layouts.markdown_topics.blocks import Outline, outline
from memoryd.layouts.markdown_topics.naming import APART
from memoryd.layouts.markdown_topics.placing import path_for
from memoryd.layouts.markdown_topics.reading import id_at, id_in, read_outline, says_something
from memoryd.layouts.markdown_topics.wording import entry_of
from memoryd.layouts.markdown_topics.writing import insert_on_top
from memoryd.layouts.storing import Asked, Stored, StoringView


def add(view: StoringView, asked: Asked) -> Stored:
    path = path_for(asked.where)
    entry = entry_of(asked.memory, view.now)
    before = view.content(path)
    if before is None:
        identity = id_at(path, entry, 0)
        return Stored(Plan((Action(Kind.CREATE, path, "a new topic file", (identity,), data=entry),)), identity, path)
    found = outline(before)
    _refuse_document(path, found)
    try:
        edit = insert_on_top(found, entry)
    except ValueError as error:
        refuse([Breach("subtopic", str(error))])
        raise  # never reached: one breach is always refused
    return _with_prune(view, path, before, edit)


def _refuse_document(path: str, found: Outline) -> None:
    """Plain text above the entries becomes the introduction of its topic file. What says by its front matter that it
    is a document would no longer be found as the memory it is."""
    if found.front and not found.sections and says_something(found, after=found.front):
        raise UsageError(
            f"subtopic: {path} is a document without dated entries",
            hint="choose another subtopic, or update the document itself",
        )


def _with_prune(view: StoringView, path: str, before: bytes, edit: Edit) -> Stored:
    """One rewrite puts the entry in and takes out what is one too many; the copies of that come first.

    An entry older than all that a full file may keep is put in alone: the next prune takes it, as any other."""
    after = outline(splice(before, [edit]))
    document = read_outline(path, after)
    identity = next(each.id for each in document.records if each.span.start >= edit.span.start)
    live = {path: Loaded(after.data, document)}
    due = upkeep.prune(UpkeepView(live, view.content, view.policy, view.now, view.held))
    removal = next((action for action in due.actions if not action.copy), None)
    if removal is None or identity in removal.ids:
        action = Action(Kind.REWRITE, path, "store an entry", (identity,), (edit,), base=sha256(before))
        return Stored(Plan((action,), due.notes), identity, path)
    edits = (edit, *(_before(each, edit) for each in removal.edits))
    if APART in identity:  # perhaps of one that leaves now
        identity = id_in(path, after, edit.span.start, without=[each.span.start for each in removal.edits])
    why = f"store an entry; {len(removal.ids)} leave: {removal.why}"
    ids, whys = (identity, *removal.ids), ("stored", *removal.whys)
    action = Action(Kind.REWRITE, path, why, ids, edits, base=sha256(before), whys=whys)
    copies = (action for action in due.actions if action.copy)
    return Stored(Plan((*copies, action), due.notes), identity, path)


def _before(edit: Edit, put_in: Edit) -> Edit:
    """An edit behind the place where something was put in, in offsets of the text as it was without that."""
    by = len(put_in.new)
    return Edit(Span(edit.span.start - by, edit.span.end - by), edit.new)
