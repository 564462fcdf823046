"""Say when a webhook is tried again: after 5 s, then four times as long each time, at most six hours."""

import random
from datetime import timedelta

# About twenty hours from the first attempt to the last.
MOST_ATTEMPTS = 10
_FIRST = timedelta(seconds=5)
_FACTOR = 4
_LONGEST = timedelta(hours=6)
# Deliveries that failed together do not come back together.
_JITTER = 0.2


def pause_after(attempts: int) -> timedelta:
    """Give the pause after so many attempts."""
    pause = min(_FIRST * int(_FACTOR ** (attempts - 1)), _LONGEST)
    return pause * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - spreads load, keeps no secret
