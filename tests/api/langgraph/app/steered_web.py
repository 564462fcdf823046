"""The application beside the API: gates for the tests, and what shows how the two are merged."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.fixtures.gated_app import gate_routes
from toolweave.api.langgraph_client import api_client
from toolweave.config.settings import Settings


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
    app.state.settings = Settings()
    yield {"greeting": "from the lifespan"}


class Signature:
    """Middleware that signs what it has seen."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def signing(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-signed", b"by the application")]
            await send(message)

        await self._app(scope, receive, signing)


app = FastAPI(title="Steered", version="7.0", lifespan=lifespan)
app.add_middleware(Signature)
app.include_router(gate_routes)


@app.get("/greeting")
async def greeting(request: Request) -> dict[str, Any]:
    return {"lifespan": request.state.greeting, "environment": os.environ.get("STEERED_APP_ENV")}


@app.get("/info")
async def info() -> dict[str, str]:
    return {"version": "the application's own"}


@app.get("/steps/{n}")
async def run_steps(n: int, request: Request) -> Any:
    async with api_client(request) as client:
        return await client.runs.wait(None, "steps", input={"n": n})
