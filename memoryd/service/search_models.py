"""The models that searches use, as the configuration chooses them, and the packages that are missing for them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module

from memoryd.config.settings import SearchConfig
from memoryd.core.findings import Finding
from memoryd.core.query import Rerank
from memoryd.search.embedding.embedder import Embedder
from memoryd.search.embedding.minilm import INSTALL, MiniLM, missing_package
from memoryd.search.embedding.static import Static
from memoryd.search.rerank import Reranker
from memoryd.search.semantic import SemanticSearch


class SearchModels:
    """The search by meaning and the rerankers. Nothing is loaded before it is needed. `findings` names the packages
    that are missing."""

    def __init__(self) -> None:
        self._search: SearchConfig | None = None
        self._by_model = Reranker(MiniLM())
        self._by_table = Reranker(Static())
        self.meaning = SemanticSearch(None)
        self.findings: tuple[Finding, ...] = ()

    def configure(self, search: SearchConfig) -> None:
        """Choose the models again if the configuration of searches changed."""
        if search == self._search:
            return
        self._search = search
        self.meaning = SemanticSearch(_embedder(search, os.environ), "off by configuration: embedder in [search]")
        self.findings = search_findings(search)

    def reranker(self, wanted: Rerank | None, *, both: bool) -> Reranker | None:
        """Return what ranks the results of a query again, as wanted or (None) as configured; None if nothing does.
        `both`: words and meaning rank them.

        Where the index has the vectors of MiniLM, only the shipped table has another opinion. It takes milliseconds, so
        it is asked wherever meaning and words rank the results, unless it is unwanted.
        """
        choice = wanted or (self._search.rerank if self._search is not None else "auto")
        if not isinstance(self.meaning.embedder, MiniLM):
            return self._by_model if choice == "minilm" else None
        return self._by_table if choice == "minilm" or (both and choice == "auto") else None

    def tidy(self, now: float) -> bool:
        """Release what has not been used for a while; `now` in epoch seconds. False if that is nothing."""
        return any([self.meaning.tidy(now), self._by_model.tidy(now), self._by_table.tidy(now)])


def search_findings(config: SearchConfig) -> tuple[Finding, ...]:
    """Return which packages a search misses, of memoryd itself: those that it cannot load; and why results are not
    ranked again although the configuration says so. An embedder reports itself."""
    needed = {"Stemmer": "PyStemmer"} | ({} if config.embedder == "off" else {"simsimd": "simsimd"})
    own = [
        f"a search needs the package {name}, which cannot be loaded: {reason}; reinstall memoryd"
        for module, name in needed.items()
        if (reason := _load_error(module)) is not None
    ]
    package = missing_package() if config.rerank == "minilm" else None
    chosen = [] if package is None else [f'rerank = "minilm" needs the package {package}; {INSTALL}']
    return tuple(Finding("package-missing", "", message) for message in (*own, *chosen))


def _load_error(module: str) -> str | None:
    """Return why a module cannot be loaded, also where it is installed; None if it can."""
    try:
        import_module(module)
    except ImportError as error:
        return str(error).strip().partition("\n")[0]
    return None


def _embedder(config: SearchConfig, env: Mapping[str, str]) -> Embedder | None:
    if config.embedder == "endpoint":
        from memoryd.search.embedding.endpoint import Endpoint  # noqa: PLC0415 - its HTTP client takes 2 MB

        place = config.endpoint
        return Endpoint(place.url, place.model, place.size, env.get(place.key_env))
    made: Mapping[str, type[Static] | type[MiniLM]] = {"static": Static, "minilm": MiniLM}
    return made[config.embedder]() if config.embedder in made else None
