"""One operation of an API on a real socket, with the response that a test gives."""

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.nodes.http_tools.orders import tool
from tests.outbound.peers import Answer, Peer, always, serving, text
from toolweave.config.settings import load_settings
from toolweave.nodes.http_tools.api_calls import ApiCalls
from toolweave.nodes.http_tools.requests import HTTPRequestSpec, HTTPResponseSpec
from toolweave.outbound_policy import Resolver, resolve_host
from toolweave.tool_config import ToolConfig


def json_answer(value: Any, status: str = "200 OK", *headers: str) -> bytes:
    """Write a response of JSON; bytes are JSON already."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return text(status, body, "Content-Type: application/json", *headers)


def calls(
    allow: str = "127.0.0.1", variables: str = "TOOL_*", resolver: Resolver = resolve_host, **more: Any
) -> ApiCalls:
    """Build the caller of APIs from settings as an operator writes them."""
    settings = load_settings({"TOOLWEAVE_OUTBOUND_ALLOW": allow, "TOOLWEAVE_TOOL_ENV": variables})
    return ApiCalls(settings.outbound_allow, settings.tool_env, resolver=resolver, **more)


@dataclass
class Operation:
    """An operation, and the peer that serves it."""

    peer: Peer
    tool: ToolConfig

    def spec(self, **fields: Any) -> HTTPRequestSpec:
        return HTTPRequestSpec(**{"method": self.tool.api.method, "url": f"{self.tool.api.base_url}/thing", **fields})

    async def call(self, by: ApiCalls | None = None, **fields: Any) -> HTTPResponseSpec:
        return await (by or calls()).call(self.tool, self.spec(**fields))


def operation(base_url: str, method: str = "GET", **api: Any) -> ToolConfig:
    """Describe an operation."""
    return tool("/thing", method, base_url=base_url, **api)


@asynccontextmanager
async def serving_operation(
    answer: Answer | bytes, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None, **api: Any
) -> AsyncIterator[Operation]:
    """Serve one operation; `api` is more of its configuration."""
    async with serving(always(answer) if isinstance(answer, bytes) else answer, tls) as peer:
        base_url = f"{'https' if tls else 'http'}://{host}:{peer.port}"
        yield Operation(peer, operation(base_url, **api))
