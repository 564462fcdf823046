"""Say how patient a connection is: every interval and bound of the tool plane in one place."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """Hold the plane's waiting times, in seconds; tests pass shorter ones.

    A dead stdio child is noticed by its end of file, so its ping only finds a child that hangs; a remote server is
    noticed by the ping itself (T-06: a dead one within 3 s). A ping that finds calls in flight waits as long as a
    call may: a server that is merely busy is not restarted. `reconnect_s` repeats its last delay (D-6).
    `retry_s` are the pauses before the second and each later attempt of a call, each of which then waits up to
    `retry_connect_s` for a connection: exhausted retries end after 7 s and little more (D-5). `clock` is what
    breakers and retries go by, `sleep` makes the pauses.
    """

    connect_s: float = 15.0
    list_s: float = 5.0
    leave_s: float = 6.0
    first_wait_s: float = 2.0
    ping_local_s: float = 5.0
    ping_remote_s: float = 2.0
    ping_limit_s: float = 2.0
    refresh_pause_s: float = 0.25
    reconnect_s: tuple[float, ...] = (0.25, 0.5, 1.0)
    steady_s: float = 1.0
    exits_before_rest: int = 5
    rest_s: float = 30.0
    caller_idle_s: float = 300.0
    caller_sessions: int = 64
    retry_s: tuple[float, ...] = (1.0, 2.0, 4.0)
    retry_connect_s: float = 0.5
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


PACE = Pace()
