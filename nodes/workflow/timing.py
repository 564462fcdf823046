"""Note on a node's exception how long the node had run, for whoever reports it (W-10)."""

import time
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, TypeVar, cast

from langgraph.errors import NodeTimeoutError

Node = TypeVar("Node", bound=Callable[..., Awaitable[Any]])
_SECONDS = "_toolweave_seconds"


def timed(node: Node) -> Node:
    """Wrap a node; what it raises can be asked with `seconds_of`."""

    @wraps(node)
    async def run(*args: Any, **kwargs: Any) -> Any:
        began = time.monotonic()
        try:
            return await node(*args, **kwargs)
        except Exception as error:
            setattr(error, _SECONDS, time.monotonic() - began)
            raise

    return cast("Node", run)


def seconds_of(error: object) -> float | None:
    """Give how long a node had run when it failed; None where nobody knows, as after a crash."""
    return error.elapsed if isinstance(error, NodeTimeoutError) else getattr(error, _SECONDS, None)
