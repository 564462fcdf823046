"""Start runs that wait where a test wants them."""

from typing import Any
from uuid import uuid4

import httpx
from langgraph_sdk.client import LangGraphClient

NOBODY = "00000000-0000-4000-8000-000000000000"


async def new_thread(sdk: LangGraphClient) -> str:
    return (await sdk.threads.create())["thread_id"]


async def run_at_gate(sdk: LangGraphClient, http: httpx.AsyncClient, thread_id: str, **fields: Any) -> tuple[str, str]:
    """Start a run and return when it waits at a gate of its own: its id and the gate's name."""
    gate = str(uuid4())
    run = await sdk.runs.create(thread_id, "gated", input={"n": 1, "gate": gate}, **fields)
    await http.get(f"/gates/{gate}/reached")
    return run["run_id"], gate
