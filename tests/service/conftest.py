"""One machine with a real systemd for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.service.box import Box, BoxError, boot


@pytest.fixture(scope="module")
def machine() -> Iterator[Box]:
    try:
        with boot() as box:
            yield box
    except BoxError as error:
        pytest.skip(f"no systemd box here: {error}")
