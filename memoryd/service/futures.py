"""Futures of several workers joined into one answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TypeVar

from memoryd.control.methods.method_types import GatheredResult, Result
from memoryd.errors import NotFoundError

R = TypeVar("R", bound=Result)


def run_in_thread(name: str, work: Callable[[], Result]) -> Future[Result]:
    """Run slow work on a thread of its own, so that the client's next requests are answered meanwhile."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - the future reports it
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


def gather(
    futures: Mapping[str, Future[Result]],
    merge: Callable[[Mapping[str, Result]], GatheredResult],
    *,
    excused: tuple[type[BaseException], ...] = (BaseException,),
    in_any: bool = False,
) -> Future[Result]:
    """Return a future of `merge({root: result})`. The error of a failing root goes to `errors` beside the results of
    the others; if all fail, or one with an error that is not `excused`, that error is the answer. `in_any`: what was
    named need only be in one of the roots."""
    joined: Future[Result] = Future()
    joined.set_running_or_notify_cancel()
    lock = threading.Lock()
    left = set(futures)

    def finish() -> None:
        errors = {name: error for name, future in futures.items() if (error := future.exception()) is not None}
        fatal = [error for error in errors.values() if not isinstance(error, excused)]
        if fatal or (errors and len(errors) == len(futures)):
            joined.set_exception(next(iter(fatal or errors.values())))
            return
        results = {name: future.result() for name, future in futures.items() if name not in errors}
        answer = merge(results)
        if in_any:
            errors = {name: error for name, error in errors.items() if not isinstance(error, NotFoundError)}
        if errors:
            answer.errors = {name: str(error) for name, error in errors.items()}
        joined.set_result(answer)

    def done(name: str) -> None:
        with lock:
            left.discard(name)
            last = not left
        if last:
            try:
                finish()
            except Exception as error:  # noqa: BLE001 - the waiting client must get an answer even if `merge` has a bug
                joined.set_exception(error)

    if not futures:
        joined.set_result(merge({}))
    for name, future in futures.items():
        future.add_done_callback(lambda _, name=name: done(name))  # type: ignore[misc]  # mypy cannot infer the default
    return joined


def of_type(results: Mapping[str, Result], kind: type[R]) -> dict[str, R]:
    """Return results by root as the type that their job returns. Raises TypeError for another type, which is a bug."""
    found = {name: result for name, result in results.items() if isinstance(result, kind)}
    if len(found) != len(results):
        raise TypeError(f"not every result is a {kind.__name__}")
    return found
