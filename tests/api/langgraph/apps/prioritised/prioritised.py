"""Threads get the settings that their first run has in its metadata; tests can read who asked, and what started."""

import asyncio
from typing import Any

from fastapi import FastAPI
from langgraph.graph import MessagesState
from langgraph_sdk import Auth, Priority, PriorityContext
from typing_extensions import TypedDict

from tests.fixtures.gated_app import chain, gate_routes, pass_gate

CALLS: list[dict[str, Any]] = []
STARTED: list[str] = []
auth = Auth()
priority = Priority()
app = FastAPI()
app.include_router(gate_routes)


@auth.authenticate
async def authenticate(authorization: str | None) -> dict[str, Any]:
    name = (authorization or "").removeprefix("Bearer ") or "somebody"
    return {"identity": name, "org_id": f"org of {name}", "permissions": ["premium"]}


@priority.assign
async def assign(ctx: PriorityContext) -> Any:
    called_with = {
        "user": ctx.user.identity,
        "org_id": getattr(ctx.user, "org_id", None),
        "permissions": list(ctx.permissions),
        "thread_id": ctx.thread_id,
        "thread_metadata": {**ctx.thread_metadata},
        "assistant_id": ctx.assistant_id,
        "graph_id": ctx.graph_id,
        "assistant_metadata": ctx.assistant_metadata,
        "run_metadata": {**ctx.run_metadata},
        "cron_id": ctx.cron_id,
    }
    CALLS.append(called_with)
    # What the function does to its context has no effect.
    ctx.thread_metadata.clear()
    settings = ctx.run_metadata.pop("settings", None)
    if settings == "raise":
        raise KeyError("a secret of the application")
    if settings == "hang":
        await asyncio.Event().wait()
    return settings


@app.get("/calls")
async def calls() -> list[dict[str, Any]]:
    return CALLS


@app.get("/started")
async def started() -> list[str]:
    return STARTED


class State(MessagesState, total=False):
    gate: str
    name: str


class Named(TypedDict, total=False):
    name: str


async def wait_at_gate(state: State) -> Named:
    await pass_gate(state["gate"])
    return {}


async def note_start(state: State) -> Named:
    STARTED.append(state.get("name", ""))
    return {"name": "noted"}


hold = chain(State, ("wait_at_gate", wait_at_gate))
note = chain(State, ("note_start", note_start))
