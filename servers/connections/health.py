"""Name the states of a server and the record of it that /health shows (T-06)."""

from typing import Literal

from typing_extensions import TypedDict

ServerState = Literal["connecting", "ready", "down", "misconfigured", "disabled"]


class ServerHealth(TypedDict):
    """What /health says of one server; `tools` counts what it offers right now, `since` is when `state` began.

    `connecting` is the first attempt only: a server that was lost is `down` until it is back.
    """

    state: ServerState
    tools: int
    last_error: str | None
    since: str
