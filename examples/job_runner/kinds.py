"""Say what kinds of jobs there are: write one more function here to have one more."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

Tell = Callable[[float], None]
Kind = Callable[[dict[str, Any], Tell], Awaitable[Any]]

_WORDS_AT_ONCE = 1_000


class WrongParams(ValueError):
    """The params are not those that the kind of job needs; says which are."""


class JobFailed(Exception):
    """The job came to nothing, for a reason that anybody may read."""


async def count(params: dict[str, Any], tell: Tell) -> dict[str, int]:
    """Count how often each word is in a text."""
    words = params["text"].lower().split()
    if not words:
        raise JobFailed("there are no words in the text")
    counted: Counter[str] = Counter()
    for start in range(0, len(words), _WORDS_AT_ONCE):
        counted.update(words[start : start + _WORDS_AT_ONCE])
        tell(100 * min(start + _WORDS_AT_ONCE, len(words)) / len(words))
        await asyncio.sleep(0)
    return dict(counted)


async def sleep(params: dict[str, Any], tell: Tell) -> None:
    """Take a while, in steps."""
    steps = params.get("steps", 10)
    for step in range(steps):
        await asyncio.sleep(params["seconds"] / steps)
        tell(100 * (step + 1) / steps)


def check_count(params: dict[str, Any]) -> None:
    """Raise WrongParams unless these are the params of `count`."""
    if not isinstance(params.get("text"), str):
        raise WrongParams("text must be a text")


def check_sleep(params: dict[str, Any]) -> None:
    """Raise WrongParams unless these are the params of `sleep`."""
    seconds, steps = params.get("seconds"), params.get("steps", 10)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= 600:
        raise WrongParams("seconds must be a number from 0 to 600")
    if isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= 100:
        raise WrongParams("steps must be a whole number from 1 to 100")


KINDS: dict[str, tuple[Kind, Callable[[dict[str, Any]], None]]] = {
    "count": (count, check_count),
    "sleep": (sleep, check_sleep),
}
