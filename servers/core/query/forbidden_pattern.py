"""Refuse queries with a text that the operator's pattern matches (D-12)."""

import asyncio
import time
from typing import Any

import regex  # type: ignore[import-untyped]

from toolweave.errors import ConfigError
from toolweave.servers.core.query.guardrails import Guardrail, Refusal
from toolweave.servers.core.query.models import Query

_SETTING = "TOOLWEAVE_QUERY_FORBIDDEN"
# Some patterns take ages for some texts: what is not known by then counts as forbidden.
LIMIT_S = 0.5


def forbidden_pattern(pattern: str) -> Guardrail:
    """Look for the pattern in every text that a column is compared with.

    Raises:
        ConfigError: it is not a regular expression.
    """
    try:
        compiled = regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError) as error:
        raise ConfigError(
            f"it is not a regular expression: {error}.", source=_SETTING, fix="Correct it, or unset it."
        ) from None

    async def check(query: Query) -> Refusal | None:
        texts = list(query.texts())
        return await asyncio.to_thread(_first_refusal, compiled, texts) if texts else None

    return Guardrail("forbidden_pattern", check)


def _first_refusal(pattern: Any, texts: list[tuple[str, str]]) -> Refusal | None:
    end = time.monotonic() + LIMIT_S
    for place, text in texts:
        try:
            # Others may work meanwhile.
            found = pattern.search(text, concurrent=True, timeout=max(0.001, end - time.monotonic()))
        except TimeoutError:
            return Refusal(f"Parameter '{place}' could not be checked in time.", "Compare with shorter texts.")
        if found:
            return Refusal(
                f"Parameter '{place}' must be a text without what the operator forbids.", "Compare with other texts."
            )
    return None
