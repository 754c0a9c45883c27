"""How many examples a hypothesis test tries, by the profile: a fifth usually, all of them in `full`, more in `deep`."""

from __future__ import annotations

from hypothesis import settings

LEAST = 5
DEEP = settings.get_current_profile_name() == "deep"  # other examples each time


def examples(number: int) -> int:
    """`number` is what the profile `full` tries."""
    return max(LEAST, number * settings().max_examples // 100)
