"""The application beside the API: the gates, for clients in any language."""

from client_gates import GATES  # type: ignore[import-not-found]
from fastapi import FastAPI

app = FastAPI()


@app.get("/gates/{name}/reached")
async def reached(name: str) -> None:
    await GATES[name].reached.wait()


@app.post("/gates/{name}/open")
async def open_gate(name: str) -> None:
    GATES[name].opened.set()
