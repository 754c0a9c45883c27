"""The live files that upkeep is decided on, read one at a time as they are asked for: a thousand large documents never
lie in memory together. A file that has gone meanwhile is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from memoryd.layouts.base import Loaded


class LiveFiles(Mapping[str, Loaded]):
    """Each look reads afresh; whatever a plan is decided on is compared again before it is carried out."""

    def __init__(self, paths: Sequence[str], load: Callable[[str], Loaded | None]) -> None:
        self._paths = dict.fromkeys(paths)
        self._load = load
        self._last: tuple[str, Loaded] | None = None

    def __iter__(self) -> Iterator[str]:
        for path in self._paths:
            if path in self:
                yield path

    def __len__(self) -> int:
        return len(self._paths)

    def __contains__(self, path: object) -> bool:
        if not isinstance(path, str) or path not in self._paths:
            return False
        loaded = self._load(path)
        self._last = None if loaded is None else (path, loaded)
        return loaded is not None

    def __getitem__(self, path: str) -> Loaded:
        """What iterating has just read is not read again."""
        if (self._last is None or self._last[0] != path) and path not in self:
            raise KeyError(path)
        assert self._last is not None
        loaded = self._last[1]
        self._last = None
        return loaded
