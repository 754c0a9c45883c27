"""Many threads that do the same at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

Each = TypeVar("Each")


def by_threads(work: Callable[[Each], object], each: Iterable[Each], timeout_s: float = 60.0) -> None:
    """One thread for each; returns when all have ended, which they must in time."""
    threads = [threading.Thread(target=work, args=(one,), daemon=True) for one in each]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout_s)
    assert not any(thread.is_alive() for thread in threads)
