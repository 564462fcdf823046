"""The application beside the API: it hears webhooks, tells tests what it heard, and opens gates."""

import asyncio
from typing import Any

from fastapi import FastAPI, Request, Response
from steered_gates import GATES  # type: ignore[import-not-found]

app = FastAPI()
HEARD: dict[str, list[dict[str, Any]]] = {}
NEWS = asyncio.Condition()


@app.post("/hook")
async def hook(request: Request, k: str, status: int = 200) -> Response:
    body = (await request.body()).decode()
    async with NEWS:
        HEARD.setdefault(k, []).append({"headers": dict(request.headers), "body": body})
        NEWS.notify_all()
    return Response(status_code=status)


@app.get("/heard")
async def heard(k: str) -> list[dict[str, Any]]:
    return HEARD.get(k, [])


@app.get("/heard/first")
async def first_heard(k: str) -> dict[str, Any]:
    async with NEWS:
        await NEWS.wait_for(lambda: k in HEARD)
        return HEARD[k][0]


@app.get("/gates/{name}/reached")
async def reached(name: str) -> None:
    await GATES[name].reached.wait()


@app.post("/gates/{name}/open")
async def open_gate(name: str) -> None:
    GATES[name].opened.set()
