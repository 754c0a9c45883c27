"""Answers of several roots joined into one."""

from __future__ import annotations

from concurrent.futures import Future

import pytest
from msgspec import UNSET

from memoryd.control.methods.method_types import Result
from memoryd.control.methods.recovery import BackupsResult
from memoryd.errors import BusyError, MemorydError, NotFoundError
from memoryd.service.futures import gather

MISSING, BUSY = NotFoundError("root b: no backup of x"), BusyError("root c: is being written")


def _joined(*errors: MemorydError, answers: int) -> Result:
    """Return the joined answer of roots that fail and roots that answer."""
    futures: dict[str, Future[Result]] = {str(number): Future() for number in range(answers + len(errors))}
    for number, future in enumerate(futures.values()):
        if number < answers:
            future.set_result(BackupsResult(backups=[]))
        else:
            future.set_exception(errors[number - answers])
    return gather(futures, lambda results: BackupsResult(backups=[]), in_any=True).result(timeout=0)


def test_a_root_that_lacks_what_another_has_is_no_error() -> None:
    answer = _joined(MISSING, BUSY, answers=1)
    assert isinstance(answer, BackupsResult)
    assert answer.errors == {"2": str(BUSY)}
    answer = _joined(MISSING, answers=1)
    assert isinstance(answer, BackupsResult)
    assert answer.errors is UNSET


def test_what_no_root_has_is_an_error() -> None:
    with pytest.raises(NotFoundError, match="no backup of x"):
        _joined(MISSING, MISSING, answers=0)


def test_only_an_excused_error_stands_beside_the_answers() -> None:
    done: Future[Result] = Future()
    done.set_result(BackupsResult(backups=[]))

    def answer(error: MemorydError, *more: MemorydError) -> Result:
        futures = {"a": done}
        for number, each in enumerate((error, *more)):
            futures[str(number)] = Future()
            futures[str(number)].set_exception(each)
        joined = gather(futures, lambda results: BackupsResult(backups=[]), excused=(NotFoundError,))
        return joined.result(timeout=0)

    excused = answer(MISSING)
    assert isinstance(excused, BackupsResult)
    assert excused.errors == {"0": str(MISSING)}
    with pytest.raises(BusyError):
        answer(MISSING, BUSY)
