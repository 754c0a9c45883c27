"""The semantic arm that the configuration asks for."""

from __future__ import annotations

import os
from collections.abc import Mapping

from memoryd.config.schema import SearchConfig
from memoryd.search.embedding.embedder import Embedder
from memoryd.search.embedding.endpoint import Endpoint
from memoryd.search.embedding.minilm import MiniLM
from memoryd.search.embedding.static import Static
from memoryd.search.semantic import Semantic


def meaning_of(config: SearchConfig, env: Mapping[str, str]) -> Semantic:
    """Nothing is loaded before it is needed."""
    # Numpy's library for matrices reads this when it is loaded. Its threads wait by spinning: on a machine at work a
    # product that takes 3 ms on one thread takes 20.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    return Semantic(_embedder(config, env), "off by configuration: embedder in [search]")


def _embedder(config: SearchConfig, env: Mapping[str, str]) -> Embedder | None:
    if config.embedder == "endpoint":
        place = config.endpoint
        return Endpoint(place.url, place.model, place.size, env.get(place.key_env))
    made: Mapping[str, type[Static] | type[MiniLM]] = {"static": Static, "minilm": MiniLM}
    return made[config.embedder]() if config.embedder in made else None
