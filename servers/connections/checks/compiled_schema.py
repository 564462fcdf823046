"""Compile a server's schema once, for values that are checked at every call."""

from typing import Any

from toolweave.schema import Schema, check_size
from toolweave.servers.connections.checks.quick_check import quick_check


class CompiledSchema:
    """A schema that accepts what fits in microseconds and takes its time only to say what is wrong.

    A monstrous schema takes up to half a second to compile: make one on a thread.

    Raises:
        ValueError: it is too large, nested too deeply, or no schema.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        check_size(schema)
        self._fits = quick_check(schema)
        # A schema that was compiled is well-formed; judging that by the draft's own schema takes milliseconds.
        self._judge = Schema(schema, well_formed=self._fits is not None)

    def problems(self, value: Any) -> list[str]:
        """Name what is wrong with `value`."""
        if self._fits is not None and self._fits(value):
            return []
        return self._judge.problems(value)
