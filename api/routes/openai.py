"""Serve chat graphs to clients of OpenAI's API: /v1/models, /v1/chat/completions, /v1/responses (S-09).

Every assistant whose graph takes messages is a model; docs/openai.md has the fields and limits. The module that writes
the wire form is imported by the first request: it needs the types of the package openai, half a second of imports.
"""

import asyncio
from importlib import import_module
from typing import Any

from fastapi import APIRouter, Request, Response

from toolweave.api.errors import json_response
from toolweave.api.request_bodies import StrictJsonRoute
from toolweave.api.routes.client_runs import Client, chat_assistants, find_chat_assistant
from toolweave.api.routes.openai_requests import ChatCompletionRequest, ResponseRequest

OWNER = "toolweave"
WIRE_MODULE = "toolweave.api.routes.openai_wire"
router = APIRouter(tags=["openai"], route_class=StrictJsonRoute)


REFUSALS: dict[int | str, dict[str, Any]] = {status: {} for status in (400, 401, 403, 404, 409, 429, 502, 503)}


@router.get("/v1/models", responses=REFUSALS)
async def list_models(client: Client) -> Response:
    """List the chat assistants as models."""
    found = await chat_assistants(client)
    return json_response({"object": "list", "data": [_model(each.name, each.created) for each in found]})


@router.get("/v1/models/{model}", responses=REFUSALS)
async def get_model(model: str, client: Client) -> Response:
    """Return a chat assistant as a model, by its graph's name or its id."""
    found = await find_chat_assistant(client, model)
    return json_response(_model(model, found.created))


def _model(name: str, created: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": created, "owned_by": OWNER}


@router.post("/v1/chat/completions", responses=REFUSALS)
async def create_chat_completion(body: ChatCompletionRequest, request: Request, client: Client) -> Response:
    """Run the assistant on the messages; `stream` sends chunks. A run ends when its client disconnects.

    `metadata.thread_id` continues a thread, without it nothing is stored (D-7).
    """
    # Imported by the first request, on a thread: the types of openai take half a second.
    await asyncio.to_thread(import_module, WIRE_MODULE)
    from toolweave.api.routes import openai_wire  # noqa: PLC0415

    return await openai_wire.answer_chat_completion(body, request, client)


@router.post("/v1/responses", responses=REFUSALS)
async def create_response(body: ResponseRequest, request: Request, client: Client) -> Response:
    """Run the assistant on the input; `stream` sends events. A run ends when its client disconnects.

    The response is stored on a thread of its own, which `previous_response_id` continues; not with `store: false`.
    """
    await asyncio.to_thread(import_module, WIRE_MODULE)
    from toolweave.api.routes import openai_wire  # noqa: PLC0415

    return await openai_wire.answer_response(body, request, client)
