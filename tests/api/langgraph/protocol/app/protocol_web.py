"""The gates, over HTTP."""

from fastapi import FastAPI
from protocol_gates import GATES  # type: ignore[import-not-found]

app = FastAPI()


@app.get("/gates/{name}/reached")
async def reached(name: str) -> None:
    await GATES[name].reached.wait()


@app.post("/gates/{name}/open")
async def open_gate(name: str) -> None:
    GATES[name].opened.set()
