"""Tell whoever follows a run how far it is; the server keeps the last word in the run's metadata."""

import math
from typing import Literal, TypedDict

from langgraph.config import get_stream_writer


class ProgressEvent(TypedDict):
    """A custom stream event: percent from 0 to 100 and a short sentence for a person."""

    type: Literal["progress"]
    progress: float
    message: str


def tell_progress(percent: float, message: str) -> None:
    """Write a progress event to the custom stream of the node that calls; outside a graph do nothing."""
    try:
        write = get_stream_writer()
    except (RuntimeError, KeyError):
        return
    within = min(max(percent, 0.0), 100.0) if math.isfinite(percent) else 0.0
    write(ProgressEvent(type="progress", progress=round(within, 1), message=message))
