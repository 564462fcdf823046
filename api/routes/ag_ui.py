"""Serve chat assistants to AG-UI clients: POST /agui/{assistant_id} (S-10, docs/ag-ui.md)."""

import asyncio
from importlib import import_module
from typing import Any

from fastapi import APIRouter, Request, Response

from toolweave.api.request_bodies import StrictJsonRoute
from toolweave.api.routes.client_runs import Client

WIRE_MODULE = "toolweave.api.routes.ag_ui_wire"
router = APIRouter(tags=["ag-ui"], route_class=StrictJsonRoute)


@router.post("/agui/{assistant_id}", responses={status: {} for status in (400, 401, 403, 404, 409, 429, 502, 503)})
async def run_agent(assistant_id: str, body: dict[str, Any], request: Request, client: Client) -> Response:
    """Run an assistant, named by its graph or its id, on an AG-UI RunAgentInput; stream AG-UI events.

    The thread is created if it does not exist, and gets the messages that it does not have. A run ends when its client
    disconnects.
    """
    # Imported by the first request, on a thread: the types of AG-UI take a tenth of a second.
    await asyncio.to_thread(import_module, WIRE_MODULE)
    from toolweave.api.routes import ag_ui_wire  # noqa: PLC0415

    return await ag_ui_wire.answer_run(assistant_id, body, request, client)
