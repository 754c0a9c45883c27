"""`pytest --hypothesis-profile=deep` tries many more and much longer histories, other ones each time.

No profile measures time: on a busy machine a slow example is no fault of the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from memoryd.catalogue import Catalogue

settings.register_profile("usual", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("deep", settings.get_profile("usual"), max_examples=300, stateful_step_count=60)
settings.load_profile("usual")


@pytest.fixture
def catalogue(tmp_path: Path) -> Iterator[Catalogue]:
    """An empty one."""
    made = Catalogue(str(tmp_path / "catalogue.sqlite"))
    yield made
    made.close()
