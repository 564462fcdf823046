"""Name the states of a server and the record of it that /health shows (T-06)."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from toolweave.servers.connections.breaker import BreakerState
from toolweave.servers.connections.figures import Latency

ServerState = Literal["connecting", "ready", "down", "misconfigured", "disabled"]


class LatencyMs(TypedDict):
    """How long the newest successful calls of a server took, in milliseconds: half of them, and 99 of 100, at most."""

    p50: float
    p99: float


class ServerHealth(TypedDict):
    """What /health says of one server; `tools` counts what it offers right now, `since` is when `state` began.

    `connecting` is the first attempt only: a server that was lost is `down` until it is back. `breaker` says whether
    calls to it are let through. `latency_ms` is there once a call has succeeded.
    """

    state: ServerState
    breaker: BreakerState
    tools: int
    last_error: str | None
    since: str
    latency_ms: NotRequired[LatencyMs]


def latency_ms(latency: Latency) -> LatencyMs:
    """Write a latency as /health shows it."""
    return LatencyMs(p50=latency.p50, p99=latency.p99)
