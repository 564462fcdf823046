"""The application beside the API: it receives webhooks, returns them to tests, and opens gates."""

import asyncio
from collections import defaultdict
from typing import Any

from fastapi import FastAPI, Request, Response

from tests.fixtures.gated_app import gate_routes

app = FastAPI()
app.include_router(gate_routes)
RECEIVED: dict[str, list[dict[str, Any]]] = {}
# One for each test: the servers of several modules, each with its own event loop, can share this module.
ARRIVALS: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)


@app.post("/hook")
async def hook(request: Request, k: str, status: int = 200) -> Response:
    body = (await request.body()).decode()
    RECEIVED.setdefault(k, []).append({"headers": dict(request.headers), "body": body})
    ARRIVALS[k].set()
    return Response(status_code=status)


@app.get("/webhooks")
async def webhooks(k: str) -> list[dict[str, Any]]:
    return RECEIVED.get(k, [])


@app.get("/webhooks/first")
async def first_webhook(k: str) -> dict[str, Any]:
    await ARRIVALS[k].wait()
    return RECEIVED[k][0]
