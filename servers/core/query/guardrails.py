"""Ask a chain of validators before every query; one that refuses is named, and the query is not run (D-12)."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from toolweave.servers.core.query.models import Query
from toolweave.servers.error_codes import GUARDRAIL, ToolFailed


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a query may not be run, in words for whoever asked."""

    reason: str
    suggestion: str | None = None


@dataclass(frozen=True, slots=True)
class Guardrail:
    """One validator by the name of its rule; it gives None for a query that may be run."""

    rule: str
    check: Callable[[Query], Awaitable[Refusal | None]]


class Guardrails:
    """The validators in the order in which they are asked."""

    def __init__(self, chain: Sequence[Guardrail]) -> None:
        self._chain = tuple(chain)

    @property
    def rules(self) -> list[str]:
        """List the rules in their order."""
        return [guardrail.rule for guardrail in self._chain]

    async def check(self, query: Query) -> None:
        """Ask each in turn.

        Raises:
            ToolFailed: one refuses; names its rule.
        """
        for guardrail in self._chain:
            if refusal := await guardrail.check(query):
                message = f"The guardrail '{guardrail.rule}' refused the query: {refusal.reason}"
                raise ToolFailed(GUARDRAIL, message, refusal.suggestion)
