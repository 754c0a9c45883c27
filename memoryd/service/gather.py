"""Many roots, one answer: futures of workers joined into one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

Result = dict[str, Any]


def gather(
    futures: Mapping[str, Future[Result]],
    merge: Callable[[dict[str, Result]], Result],
    *,
    strict: bool = False,
) -> Future[Result]:
    """A future of `merge({root: result})`. A failing root is told in `errors` beside the others' results;
    when all fail, or any with `strict`, the first error is the answer."""
    joined: Future[Result] = Future()
    joined.set_running_or_notify_cancel()
    lock = threading.Lock()
    left = set(futures)

    def finish() -> None:
        errors = {name: error for name, future in futures.items() if (error := future.exception()) is not None}
        if errors and (strict or len(errors) == len(futures)):
            joined.set_exception(next(iter(errors.values())))
            return
        results = {name: future.result() for name, future in futures.items() if name not in errors}
        answer = merge(results)
        if errors:
            answer["errors"] = {name: str(error) for name, error in errors.items()}
        joined.set_result(answer)

    def done(name: str) -> None:
        with lock:
            left.discard(name)
            last = not left
        if last:
            try:
                finish()
            except Exception as error:  # noqa: BLE001 - whoever waits must get an answer, also of a bug in `merge`
                joined.set_exception(error)

    if not futures:
        joined.set_result(merge({}))
    for name, future in futures.items():
        future.add_done_callback(lambda _, name=name: done(name))  # type: ignore[misc]  # mypy cannot infer the default
    return joined
