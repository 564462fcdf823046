"""The application beside the API: it receives webhooks, returns them to tests, and opens gates."""

import asyncio
from typing import Any

from fastapi import FastAPI, Request, Response

from tests.fixtures.gated_app import gate_routes

app = FastAPI()
app.include_router(gate_routes)
HEARD: dict[str, list[dict[str, Any]]] = {}
NEWS = asyncio.Condition()


@app.post("/hook")
async def hook(request: Request, k: str, status: int = 200) -> Response:
    body = (await request.body()).decode()
    async with NEWS:
        HEARD.setdefault(k, []).append({"headers": dict(request.headers), "body": body})
        NEWS.notify_all()
    return Response(status_code=status)


@app.get("/webhooks")
async def webhooks(k: str) -> list[dict[str, Any]]:
    return HEARD.get(k, [])


@app.get("/webhooks/first")
async def first_webhook(k: str) -> dict[str, Any]:
    async with NEWS:
        await NEWS.wait_for(lambda: k in HEARD)
        return HEARD[k][0]
