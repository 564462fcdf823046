"""Load the application's priority function, and call it for the settings of a thread (S-08)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from langgraph_sdk.priority import Priority
from langgraph_sdk.priority.types import PriorityContext
from loguru import logger

from toolweave.config.langgraph_json import LangGraphJson
from toolweave.errors import ConfigError, ToolweaveError
from toolweave.runtime.graphs import load_object
from toolweave.runtime.persistence.search import storable_text

AssignPriority = Callable[[PriorityContext], Awaitable[object]]
MAX_PRIORITY = 5
MAX_GROUP_LENGTH = 256
DEFAULT_GROUP = "default"
# The clock that fires crons waits for the function, too.
ASSIGN_TIMEOUT_S = 30.0


class PriorityError(ToolweaveError):
    """The priority function of langgraph.json failed or returned invalid settings, so no run was created."""


class ThreadPriority(NamedTuple):
    """The priority settings that a thread keeps."""

    priority: int
    fairness_group: str


def load_priority(config: LangGraphJson) -> AssignPriority | None:
    """Load the assign function of `priority.path`; return None if langgraph.json has none.

    Raises:
        ConfigError: `priority.path` cannot be loaded, is no Priority object, or has no assign function.
    """
    if config.priority is None:
        return None
    target = config.priority.path
    priority = load_object(
        config, target, what="priority", kind=Priority, fix="Name an object of langgraph_sdk.Priority."
    )
    assign: AssignPriority | None = priority._assign_handler  # noqa: SLF001 - for servers
    if assign is None:
        fix = "Decorate an async function with @priority.assign."
        raise ConfigError(f"priority: {target!r} has no assign function.", source=str(config.path), fix=fix)
    return assign


async def call_assign(assign: AssignPriority, context: PriorityContext) -> ThreadPriority:
    """Call the assign function and return the settings of the thread.

    Raises:
        PriorityError: it raised, did not return in time, or returned invalid settings; the log has the traceback.
    """
    try:
        async with asyncio.timeout(ASSIGN_TIMEOUT_S):
            settings = await assign(context)
        return parse_settings(settings)
    except Exception as error:  # noqa: BLE001 - the application's function
        logger.opt(exception=error).error("the priority function failed for a run of graph {}", context.graph_id)
        # The text of another exception may be secret.
        problem = str(error) if isinstance(error, PriorityError) else f"it raised {type(error).__name__}."
        raise PriorityError(f"No run was created, because the priority function failed: {problem}") from None


def parse_settings(settings: object) -> ThreadPriority:
    """Check the settings that an assign function returned, and apply the defaults. Raises PriorityError."""
    if settings is None:
        return ThreadPriority(0, DEFAULT_GROUP)
    if not isinstance(settings, Mapping):
        raise PriorityError(f"it returned a {type(settings).__name__}, not a dict or None.")
    if unknown := settings.keys() - {"priority", "fairness_group"}:
        raise PriorityError(f"it returned the unknown key {min(map(str, unknown))[:80]!r}.")
    priority, group = settings.get("priority"), settings.get("fairness_group")
    if priority is None:
        priority = 0
    if not isinstance(priority, int) or isinstance(priority, bool) or abs(priority) > MAX_PRIORITY:
        raise PriorityError(f"priority is {priority!r:.80}, not an integer from -5 to 5.")
    if group is not None and (not isinstance(group, str) or len(group) > MAX_GROUP_LENGTH):
        raise PriorityError("fairness_group is not a string of at most 256 characters.")
    return ThreadPriority(int(priority), storable_text(group or DEFAULT_GROUP))
