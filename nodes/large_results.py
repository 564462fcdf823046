"""Keep whole tool results that are too long for the model in the graph's store, and let the model read on (T-12, D-7).

They are items under the thread's own namespace, so a server deletes them with the thread; a program that embeds a graph
and deletes threads itself calls `forget_results`. Without a store or a thread nothing is kept.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Protocol, runtime_checkable

from langchain_core.messages import AnyMessage, ToolMessage
from langchain_core.tools import BaseTool, ToolException, tool
from langgraph.prebuilt import ToolRuntime
from langgraph.store.base import BaseStore
from loguru import logger
from pydantic import Field

READ_TOOL = "read_tool_result"
STORED_KEY = "kept_result"
MAX_STORED_CHARS = 5_000_000
MAX_READ_CHARS = 20_000
MAX_MATCHES = 10
MATCH_CONTEXT_CHARS = 200
_DELETE_BATCH = 100

Namespace = tuple[str, ...]
StoreResult = Callable[[str, int], Awaitable[str | None]]


@runtime_checkable
class ResultStoringTool(Protocol):
    """A tool that cuts long results itself and lets somebody keep the whole."""

    def with_result_store(self, keep: StoreResult) -> BaseTool:
        """Return the tool for one call whose whole answer goes to `keep` when only a part of it can be shown."""
        ...


def results_namespace(thread_id: str) -> Namespace:
    """Give the namespace of a thread's kept results; labels may not have periods, and no two threads share one."""
    return ("threads", thread_id.replace("%", "%25").replace(".", "%2E"), "tool_results")


def _result_store(runtime: "ToolRuntime[Any, Any]") -> tuple[BaseStore, Namespace] | None:
    """Give the store and the namespace of the thread a tool runs on; None without a store or a thread."""
    thread_id = (runtime.config.get("configurable") or {}).get("thread_id")
    return (runtime.store, results_namespace(str(thread_id))) if runtime.store is not None and thread_id else None


def tool_with_result_store(called: BaseTool, call_id: str, runtime: "ToolRuntime[Any, Any]") -> BaseTool:
    """Return a tool for one call that keeps what it cuts, if it can and there is somewhere to keep it."""
    place = _result_store(runtime)
    if place is None or not isinstance(called, ResultStoringTool):
        return called
    store, namespace = place

    async def keep(text: str, shown: int) -> str | None:
        """Keep a result; return how the model reads on, None when the store fails."""
        try:
            await store.aput(namespace, call_id, {"text": text[:MAX_STORED_CHARS]}, index=False)
        except Exception as error:  # noqa: BLE001 - a store may be anybody's; without it the result is only cut
            logger.warning("the whole result of {} could not be kept: {}: {}", call_id, type(error).__name__, error)
            return None
        limit = f"the first {MAX_STORED_CHARS} characters are" if len(text) > MAX_STORED_CHARS else "the whole is"
        return f"To read on, {limit} kept: call {READ_TOOL} with id {call_id!r} and offset {shown}, or with search."

    return called.with_result_store(keep)


def has_stored_results(messages: Sequence[AnyMessage]) -> bool:
    """Say whether a dialogue has a result that the model can read on."""
    return any(
        isinstance(message, ToolMessage) and isinstance(message.artifact, dict) and STORED_KEY in message.artifact
        for message in messages
    )


async def forget_results(store: BaseStore, thread_id: str) -> None:
    """Delete a thread's kept results from any store; our server does it with the thread."""
    namespace = results_namespace(thread_id)
    while found := await store.asearch(namespace, limit=_DELETE_BATCH):
        for item in found:
            await store.adelete(item.namespace, item.key)


@tool(READ_TOOL)
async def read_tool_result(
    id: Annotated[str, Field(description="The id that the notice in the cut result names.")],  # noqa: A002
    runtime: ToolRuntime,
    offset: Annotated[int, Field(description="The character to begin at.", ge=0)] = 0,
    limit: Annotated[int, Field(description="How many characters to read.", ge=1, le=MAX_READ_CHARS)] = 10_000,
    search: Annotated[
        str | None,
        Field(description="Find this text from offset on, instead of reading.", min_length=1, max_length=200),
    ] = None,
) -> str:
    """Read on in an earlier tool result of this conversation that was too long to show whole, or search in it."""
    place = _result_store(runtime)
    item = await place[0].aget(place[1], id) if place else None
    if item is None:
        raise ToolException(f"No result is kept under the id {id!r}. Take the id from the notice in the cut result.")
    text = str(item.value.get("text", ""))
    return _search_text(text, search, offset) if search else _text_part(text, offset, limit)


def _text_part(text: str, offset: int, limit: int) -> str:
    part = text[offset : offset + limit]
    if not part:
        return f"[The result has {len(text)} characters; there is nothing at offset {offset}.]"
    end = offset + len(part)
    rest = "this is the end" if end == len(text) else f"go on at offset {end}"
    return f"{part}\n\n[Characters {offset} to {end} of {len(text)}; {rest}.]"


def _search_text(text: str, search: str, offset: int) -> str:
    """Show the places of a text regardless of case, no two closer than what is shown around one."""
    # Lowering changes the length of a few letters, and with it every offset behind them.
    lowered, wanted = (text.lower(), search.lower()) if len(text.lower()) == len(text) else (text, search)
    places: list[int] = []
    place = lowered.find(wanted, offset)
    while place >= 0 and len(places) <= MAX_MATCHES:
        places.append(place)
        place = lowered.find(wanted, place + len(search) + MATCH_CONTEXT_CHARS)
    if not places:
        return f"[{search!r} is not in the result from offset {offset} on.]"
    shown = [
        f"[offset {place}]\n{text[max(0, place - MATCH_CONTEXT_CHARS) : place + len(search) + MATCH_CONTEXT_CHARS]}"
        for place in places[:MAX_MATCHES]
    ]
    more = f"[There are more: search from offset {places[-1]}.]" if len(places) > MAX_MATCHES else "[That is all.]"
    return "\n\n".join([*shown, more])
