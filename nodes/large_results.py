"""Store complete tool results that are too long for the model, and let the model read or search them (T-12, D-7).

They are items of the graph's store in the thread's own namespace. The server deletes them with the thread; a program
that embeds a graph and deletes threads itself calls `forget_results`. Without a store or a thread nothing is stored.
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
    """A tool that cuts long results itself and can store the complete text."""

    def with_result_store(self, keep: StoreResult) -> BaseTool:
        """Return the tool for one call; `keep` stores the complete result if only a part of it can be shown."""
        ...


def results_namespace(thread_id: str) -> Namespace:
    """Return the store namespace of a thread's results; periods are escaped, as labels must not contain any."""
    return ("threads", thread_id.replace("%", "%25").replace(".", "%2E"), "tool_results")


def _result_store(runtime: "ToolRuntime[Any, Any]") -> tuple[BaseStore, Namespace] | None:
    """Return the store and the namespace for a tool's results, or None without a store or a thread."""
    thread_id = (runtime.config.get("configurable") or {}).get("thread_id")
    return (runtime.store, results_namespace(str(thread_id))) if runtime.store is not None and thread_id else None


def tool_with_result_store(tool: BaseTool, call_id: str, runtime: "ToolRuntime[Any, Any]") -> BaseTool:
    """Return the tool for one call with a place to store its result; unchanged if that is not possible."""
    location = _result_store(runtime)
    if location is None or not isinstance(tool, ResultStoringTool):
        return tool
    store, namespace = location

    async def store_result(text: str, shown: int) -> str | None:
        """Store a result; return a notice on how to read the rest, or None if the store fails."""
        try:
            await store.aput(namespace, call_id, {"text": text[:MAX_STORED_CHARS]}, index=False)
        except Exception as error:  # noqa: BLE001 - any store implementation; if it fails, the result is only cut
            logger.warning("the result of {} could not be stored: {}: {}", call_id, type(error).__name__, error)
            return None
        limit = f"the first {MAX_STORED_CHARS} characters are" if len(text) > MAX_STORED_CHARS else "the whole is"
        return f"To read on, {limit} stored: call {READ_TOOL} with id {call_id!r} and offset {shown}, or with search."

    return tool.with_result_store(store_result)


def has_stored_results(messages: Sequence[AnyMessage]) -> bool:
    """Return whether the messages contain a cut result whose complete text is stored."""
    return any(
        isinstance(message, ToolMessage) and isinstance(message.artifact, dict) and STORED_KEY in message.artifact
        for message in messages
    )


async def forget_results(store: BaseStore, thread_id: str) -> None:
    """Delete a thread's stored results from any store; our server does this when it deletes the thread."""
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
    location = _result_store(runtime)
    item = await location[0].aget(location[1], id) if location else None
    if item is None:
        raise ToolException(f"No result is stored under the id {id!r}. Use the id in the notice of the cut result.")
    text = str(item.value.get("text", ""))
    return _search_text(text, search, offset) if search else _text_part(text, offset, limit)


def _text_part(text: str, offset: int, limit: int) -> str:
    part = text[offset : offset + limit]
    if not part:
        return f"[The result has {len(text)} characters; offset {offset} is past its end.]"
    end = offset + len(part)
    rest = "this is the end" if end == len(text) else f"go on at offset {end}"
    return f"{part}\n\n[Characters {offset} to {end} of {len(text)}; {rest}.]"


def _search_text(text: str, search: str, offset: int) -> str:
    """Show matches of a text, ignoring case; a match within the context of the previous one is skipped."""
    # Lower-casing changes the length of a few letters, and with it all later offsets: such a text is searched as it is.
    haystack, needle = (text.lower(), search.lower()) if len(text.lower()) == len(text) else (text, search)
    offsets: list[int] = []
    match = haystack.find(needle, offset)
    while match >= 0 and len(offsets) <= MAX_MATCHES:
        offsets.append(match)
        match = haystack.find(needle, match + len(search) + MATCH_CONTEXT_CHARS)
    if not offsets:
        return f"[{search!r} is not in the result from offset {offset} on.]"
    shown = [
        f"[offset {match}]\n{text[max(0, match - MATCH_CONTEXT_CHARS) : match + len(search) + MATCH_CONTEXT_CHARS]}"
        for match in offsets[:MAX_MATCHES]
    ]
    more = f"[There are more: search from offset {offsets[-1]}.]" if len(offsets) > MAX_MATCHES else "[That is all.]"
    return "\n\n".join([*shown, more])
