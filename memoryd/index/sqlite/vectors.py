"""Store packed vectors, one per memory, with the model that made them.

A vector belongs to a text, and a key is never used for another text: a vector is deleted with its record and never
outdated. One that an agent stored with its memory has the model `own:SIZE` and is stored unchanged; such a memory gets
no other. Vectors are added in key order; those added out of order or replaced are counted in the database,
so that a reader knows the count of its own snapshot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from memoryd.core.index import Sample
from memoryd.core.query import Filters
from memoryd.core.records import Record
from memoryd.core.spans import replace_surrogates
from memoryd.core.vectors import agent_model, pack_floats
from memoryd.core.words import whole_text
from memoryd.index.matrix import MatrixCache
from memoryd.index.sqlite.database import Database
from memoryd.index.sqlite.memories import conditions

_MAX_KEYS = 500  # keys in one query

_WITHOUT_VECTOR = (
    "LEFT JOIN vectors AS v ON v.key = r.key AND (v.model = ? OR v.model GLOB 'own:*') WHERE v.key IS NULL"
)
_TEXTS = "SELECT r.key, r.title, t.body FROM records AS r JOIN texts AS t USING (key)"
_SAMPLES = (
    "SELECT r.key, v.model, v.vector, r.title, t.body FROM records AS r"
    " CROSS JOIN vectors AS v ON v.key = r.key CROSS JOIN texts AS t ON t.key = r.key"
)
_VECTORS = "SELECT key, model, vector FROM vectors"
_KEYS = "SELECT r.key FROM records AS r WHERE r.key"
_CHANGES = "SELECT value FROM meta WHERE key = 'vector changes'"
_ADD_CHANGES = (
    "INSERT INTO meta VALUES ('vector changes', ?) ON CONFLICT (key) DO UPDATE SET value = value + excluded.value"
)


class Epoch:
    """State of the vectors that all connections share: the `highest` key with one, by model, and the matrices."""

    def __init__(self) -> None:
        self.highest: dict[str, int] = {}  # of each model that something was stored for
        self.matrices = MatrixCache()


class Vectors:
    """Vector queries on one connection; used by one thread at a time."""

    def __init__(self, db: Database, epoch: Epoch) -> None:
        self._db = db
        self._epoch = epoch
        # While model and `changes` are these, no vector is missing from the first key (excluded) to the second.
        self._complete = (("", 0), 0, 0)

    @property
    def changes(self) -> int:
        """The number of vectors replaced or added out of key order: a matrix that only loaded newer keys would miss
        these."""
        row = self._db.row(_CHANGES)
        return int(row[0]) if row else 0

    def _add_changes(self, count: int) -> None:
        if count:
            self._db.run(_ADD_CHANGES, (count,))

    # --- writing

    def put(self, model: str, rows: Sequence[tuple[int, bytes]]) -> None:
        """Store a vector for each key; keys of deleted memories are skipped."""
        query = (
            "INSERT OR REPLACE INTO vectors SELECT ?, ?, ? WHERE EXISTS (SELECT 1 FROM records WHERE key = ?)"
            " AND NOT EXISTS (SELECT 1 FROM vectors WHERE key = ? AND model GLOB 'own:*')"
        )
        highest = self._highest(model)
        with self._db.transaction():
            self._db.run_many(query, ((key, model, vector, key, key) for key, vector in rows))
            self._note(model, highest, [key for key, _ in rows])

    def _highest(self, model: str) -> int:
        """Return the highest key with a vector of a model; 0 if there is none."""
        if model in self._epoch.highest:
            return self._epoch.highest[model]
        found = self._db.row("SELECT key FROM vectors WHERE model = ? ORDER BY key DESC LIMIT 1", (model,))
        return int(found[0]) if found else 0

    def _note(self, model: str, highest: int, keys: Collection[int]) -> None:
        """Note for which keys a vector was stored: a matrix that has the highest key before would miss those below."""
        self._add_changes(sum(key <= highest for key in keys))
        self._epoch.highest[model] = max((highest, *keys))

    def put_agent_vectors(self, records: Sequence[Record], keys: Sequence[int]) -> None:
        """Store the vectors that agents wrote, within the transaction that inserts the records."""
        given = [(key, each.embedding) for each, key in zip(records, keys, strict=True) if each.embedding is not None]
        for at in range(0, len(given), _MAX_KEYS):
            some = given[at : at + _MAX_KEYS]
            known = self._stored([key for key, _ in some])
            rows = [(key, agent_model(len(embedding)), pack_floats(embedding)) for key, embedding in some]
            new = [row for row in rows if known.get(row[0]) != row[1:]]
            self._add_changes(sum(key in known and known[key][0] != model for key, model, _ in new))
            highest = {model: self._highest(model) for _, model, _ in new}
            self._db.run_many("INSERT OR REPLACE INTO vectors VALUES (?,?,?)", new)
            for model, before in highest.items():
                self._note(model, before, [key for key, of, _ in new if of == model])

    def _stored(self, keys: Sequence[int]) -> dict[int, tuple[str, bytes]]:
        marks = ",".join("?" * len(keys))
        rows = self._db.rows(f"{_VECTORS} WHERE key IN ({marks})", keys)
        return {key: (model, vector) for key, model, vector in rows}

    def drop_agent_vectors(self, path: bytes, records: Sequence[Record]) -> None:
        """Drop the agent vectors of a file that is about to be replaced if some of its memories no longer have one."""
        if any(record.embedding is None for record in records):
            # A separate query: a deletion with a subquery makes FTS5 flush its pending words.
            query = (
                "SELECT v.key FROM records AS r JOIN vectors AS v USING (key) WHERE r.path = ? AND v.model GLOB 'own:*'"
            )
            found = self._db.rows(query, (path,))
            self._db.run_many("DELETE FROM vectors WHERE key = ?", found)
            self._add_changes(len(found))

    def missing(self, model: str, after: int, limit: int) -> list[tuple[int, str]]:
        """Return (key, redacted text) of memories without a vector of the model or of an agent, by key."""
        known, (low, high) = (model, self.changes), self._complete[1:]
        if self._complete[0] != known or not low <= after <= high:
            low, high = after, after
        query = f"{_TEXTS} {_WITHOUT_VECTOR} AND r.key > ? ORDER BY r.key LIMIT ?"
        rows = self._db.rows(query, (model, high, limit))
        if not rows:
            last = self._db.row("SELECT max(key) FROM records")
            self._complete = known, low, max(high, last[0] or 0 if last else 0)
        return [(key, whole_text(title, body)) for key, title, body in rows]

    # --- reading

    def nearest(
        self,
        vector: Sequence[float],
        model: str,
        filters: Filters,
        limit: int,
        also: Collection[int] = (),
        *,
        less_common: float = 0.0,
    ) -> dict[int, float] | None:
        """Return the `limit` nearest memories by their vectors of the model, nearest first, ties to the newest key;
        then those of `also` that have a vector: the cosine of each by its key. None if no memory has a vector of this
        model. `less_common`: the share of the mean of all vectors that is subtracted from `vector` first."""
        similarities = self._epoch.matrices.compare(self, model, vector, less_common)
        if not len(similarities):
            return None
        return {**similarities.best(self, filters, limit), **similarities.of([*also])}

    def load(self, model: str, after: int) -> Iterator[tuple[int, bytes]]:
        """Yield (key, vector) for each vector of a model with a key above `after`, by key."""
        query = "SELECT key, vector FROM vectors WHERE key > ? AND model = ? ORDER BY key"
        return self._db.stream(query, (after, model))

    def of(self, key: int) -> tuple[str, bytes] | None:
        """Return the model and packed vector of one memory, if it has one."""
        row = self._db.row("SELECT model, vector FROM vectors WHERE key = ?", (key,))
        return (row[0], row[1]) if row else None

    def samples(self, owner: str | None, limit: int) -> list[Sample]:
        """Return some memories with vectors that agents wrote, of one owner or of any named owner."""
        which, given = ("<> ''", ()) if owner is None else ("= ? AND r.owner <> ''", (replace_surrogates(owner),))
        rows = self._db.rows(f"{_SAMPLES} WHERE r.owner {which} AND v.model GLOB 'own:*' LIMIT ?", (*given, limit))
        return [Sample(key, model, vector, body or title) for key, model, vector, title, body in rows]

    def allowed(self, filters: Filters, keys: Sequence[int]) -> set[int]:
        """Return the given keys whose memories pass the filters."""
        where, values = conditions(filters)
        found: set[int] = set()
        for at in range(0, len(keys), _MAX_KEYS):
            some = keys[at : at + _MAX_KEYS]
            marks = ",".join("?" * len(some))
            rows = self._db.rows(f"{_KEYS} IN ({marks}){where}", (*some, *values))
            found.update(key for (key,) in rows)
        return found

    def all_allowed(self, filters: Filters) -> list[int]:
        """Return the keys of all memories that pass the filters, ascending."""
        where, values = conditions(filters)
        return [key for (key,) in self._db.rows(f"{_KEYS} > 0{where} ORDER BY r.key", values)]
