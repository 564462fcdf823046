"""Routes beside the API, one of which calls it as its caller."""

from typing import Any

from fastapi import FastAPI, Request

from toolweave.api.langgraph_client import StreamingAsgiTransport

app = FastAPI()


@app.get("/hello")
async def hello(request: Request) -> dict[str, Any]:
    user = request.scope.get("user")
    return {"user": user and user.identity, "transport": StreamingAsgiTransport.__name__}
