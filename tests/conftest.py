"""`pytest --hypothesis-profile=deep` tries many more and much longer histories, other ones each time."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("deep", max_examples=300, stateful_step_count=60, deadline=None)
