"""Vectors from a server with the embeddings API of OpenAI: Ollama, vLLM, llama.cpp or a cloud service.

Texts are sent only to the configured address, already redacted.
"""

from __future__ import annotations

import errno
import json
import math
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

from memoryd.core.vectors import pack_floats
from memoryd.errors import EmbedderError
from memoryd.search.embedding.embedder import unit

BATCH = 32  # texts in one request
TIMEOUT_S = 20.0
MAX_TEXT_CHARS = 8_000  # most models read no more of a text
MAX_RESPONSE_BYTES = 64 * 1024 * 1024


class Endpoint:
    """A client of the API at `url` (such as `http://localhost:11434/v1`); `key` is sent only in its authorisation
    header."""

    fast = False
    calls = 0
    idle_s = float("inf")  # there is nothing to free

    def __init__(self, url: str, model: str, size: int, key: str | None = None, timeout_s: float = TIMEOUT_S) -> None:
        self.name = f"endpoint:{model}:{size}"
        self.size = size
        self._url = url.rstrip("/") + "/embeddings"
        self._model = model
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._timeout_s = timeout_s

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return a vector of 32-bit numbers for each text; zeros for an empty one, which servers reject."""
        vectors = [bytes(4 * self.size)] * len(texts)
        worded = [number for number, text in enumerate(texts) if text.strip()]
        for at in range(0, len(worded), BATCH):
            some = worded[at : at + BATCH]
            for number, vector in zip(
                some, self._request([texts[each][:MAX_TEXT_CHARS] for each in some]), strict=True
            ):
                vectors[number] = vector
        return vectors

    def release(self) -> None:
        """Do nothing: there is no cache."""

    def _request(self, texts: list[str]) -> list[bytes]:
        body = json.dumps({"model": self._model, "input": texts, "encoding_format": "float"}).encode()
        request = urllib.request.Request(self._url, body, self._headers)  # noqa: S310 - the configuration allows http(s) only
        try:
            with _opener().open(request, timeout=self._timeout_s) as answer:
                content = answer.read(MAX_RESPONSE_BYTES)
        except urllib.error.HTTPError as error:
            error.close()
            raise self._error(f"answers {error.code} {error.reason}", _status_hint(error.code)) from error
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise self._error(f"cannot be reached: {reason}", _connection_hint(reason)) from error
        return self._vectors(content, len(texts))

    def _vectors(self, content: bytes, wanted: int) -> list[bytes]:
        try:
            rows = sorted(json.loads(content)["data"], key=lambda row: row["index"])
            vectors = [[float(number) for number in row["embedding"]] for row in rows]
        except (ValueError, KeyError, TypeError) as error:
            raise self._error("did not return embeddings", "url must be the API base URL, e.g. .../v1") from error
        if len(vectors) != wanted:
            raise self._error(f"returned {len(vectors)} embeddings for {wanted} texts", None)
        sizes = {len(vector) for vector in vectors}
        if sizes != {self.size}:
            found = ", ".join(map(str, sorted(sizes)))
            raise self._error(f"returned vectors of {found} numbers, not {self.size}", "set size in [search.endpoint]")
        if not all(math.isfinite(number) for vector in vectors for number in vector):
            raise self._error("returned non-finite numbers", None)
        return [pack_floats(unit(vector)) for vector in vectors]

    def _error(self, what: str, hint: str | None) -> EmbedderError:
        return EmbedderError(f"embeddings endpoint {self._url} {what}", hint=hint)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A handler that follows no redirect: key and texts go to the configured address only."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:  # noqa: ARG002 - the signature is the library's
        return None


def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_NoRedirect)


def _connection_hint(reason: object) -> str:
    if isinstance(reason, OSError) and reason.errno == errno.EAFNOSUPPORT:
        return (
            "memoryd may not use the network: in its systemd unit RestrictAddressFamilies= must also list AF_INET "
            "and AF_INET6, as the shipped unit does"
        )
    return "check that the server is running and the URL is correct"


def _status_hint(code: int) -> str | None:
    if code in (401, 403):
        return "set key_env in [search.endpoint] to the environment variable that holds the API key"
    return "check the model name" if code in (400, 404) else None
