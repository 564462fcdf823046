"""Read what a run was configured with, from within one of its nodes."""

from collections.abc import Mapping
from typing import Any

from langgraph.config import get_config


def run_configurable() -> Mapping[str, Any]:
    """Return the `configurable` of the run whose node asks; nothing outside of graphs."""
    try:
        return get_config().get("configurable") or {}
    except RuntimeError:
        return {}
