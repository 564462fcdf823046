"""An application whose middleware goes around everything and says what it saw."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from langgraph_sdk.client import LangGraphClient
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

from toolweave.api.langgraph_client import SERVER_APP_KEY, api_client
from toolweave.config.settings import Settings


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    app.state.settings = Settings()
    app.state.label = "from the application's state"
    yield


class Signed(BaseHTTPMiddleware):
    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        user = request.scope.get("user")
        response = await call_next(request)
        response.headers["x-seen"] = f"{request.app.state.label}, user {user and user.identity}"
        response.headers["x-server"] = type(request.scope[SERVER_APP_KEY]).__name__
        return response


app = FastAPI(lifespan=lifespan)
app.add_middleware(Signed)
app.add_middleware(CORSMiddleware, allow_origins=["https://its-own.example"])


@app.get("/hello")
async def hello(request: Request) -> dict[str, Any]:
    user = request.scope.get("user")
    return {"user": user and user.identity}


@app.get("/mine")
async def mine(request: Request) -> int:
    client: LangGraphClient = api_client(request)
    return len(await client.threads.search())
