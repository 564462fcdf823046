"""Describe the server that a chat talks to: the texts of the banner and of /model, /tools and /threads (U-06)."""

from typing import Any

from langgraph_sdk.client import LangGraphClient

from toolweave.api.routes.chat import message_text
from toolweave.cli.api_client import read_health
from toolweave.cli.terminal import shorten

COMMANDS = {
    "/help": "List these commands.",
    "/tools": "List the MCP servers and their tools.",
    "/model": "Show the model.",
    "/threads": "List the latest threads; continue one with --thread.",
    "/new": "Start a new thread.",
    "/quit": "Leave the chat.",
}
UNKNOWN = "unknown: the server does not report it"
MAX_THREADS = 10
MAX_TEXT_CHARS = 60


async def banner_text(client: LangGraphClient, assistant: str, thread_id: str) -> str:
    """Return the lines that introduce an interactive chat."""
    servers = (await read_health(client)).get("servers", {})
    ready = [f"{name} ({server['tools']})" for name, server in servers.items() if server["state"] == "ready"]
    failed = [f"{name} ({server['state']})" for name, server in servers.items() if server["state"] not in _QUIET_STATES]
    lines = {
        "model": await model_text(client),
        "assistant": assistant,
        "tools": ", ".join([*ready, *failed]) or ("none" if servers else UNKNOWN),
        "thread": thread_id,
    }
    width = max(map(len, lines))
    return "\n".join(f"  {name:<{width}}  {text}" for name, text in lines.items()) + "\n  /help lists the commands."


async def model_text(client: LangGraphClient) -> str:
    """Return the name of the server's model."""
    return str((await read_health(client)).get("model", UNKNOWN))


async def tools_text(client: LangGraphClient) -> str:
    """Return one line per MCP server and one per tool that it offers."""
    lines = []
    for name, server in (await read_health(client)).get("servers", {}).items():
        if server["state"] == "disabled":
            continue
        lines.append(f"  {name}: {server['state']}")
        details: Any = await client.http.get(f"/servers/{name}") if server["tools"] else {"offers": []}
        for tool in details["offers"]:
            about = shorten(tool["description"] or "", MAX_TEXT_CHARS)
            lines.append(f"    {tool['name']}  {about}".rstrip())
    return "\n".join(lines) or f"  {UNKNOWN}"


async def threads_text(client: LangGraphClient) -> str:
    """Return one line per thread, the last one first: its id, its time and its first message."""
    threads = await client.threads.search(limit=MAX_THREADS, sort_by="updated_at", sort_order="desc")
    return "\n".join(f"  {_thread_text(thread)}" for thread in threads) or "  There are no threads."


_QUIET_STATES = frozenset({"ready", "disabled"})


def _thread_text(thread: Any) -> str:
    values = thread.get("values")
    messages = values.get("messages") if isinstance(values, dict) else None
    first = messages[0] if isinstance(messages, list) and messages else {}
    text = message_text(first.get("content")) if isinstance(first, dict) else ""
    return f"{thread['thread_id']}  {thread['updated_at'][:16]}  {shorten(text, MAX_TEXT_CHARS)}".rstrip()
