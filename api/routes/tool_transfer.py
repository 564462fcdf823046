"""Bring tools in and out, many at once: /tools/import and /tools/export (W-01)."""

import asyncio

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, ConfigDict, Field

from toolweave.api.clients import known_to_the_api
from toolweave.api.request_bodies import StrictJsonRoute
from toolweave.api.routes.tools import REFUSALS, Registry, Variables
from toolweave.api.stored_tools import StoredTools, UnreadTool, read_tools, shown, store_given
from toolweave.runtime.codec import dumps
from toolweave.servers.registry.repository import OnConflict
from toolweave.tool_config import ToolConfig

MOST_TOOLS = 5_000

# Before /tools/{tool_id}: no tool is called "import" or "export".
router = APIRouter(
    prefix="/tools",
    tags=["tools"],
    route_class=StrictJsonRoute,
    dependencies=[Depends(known_to_the_api)],
    responses=REFUSALS,
)


class ToolImport(BaseModel):
    """Tools as `GET /tools/export` gives them, and what becomes of those whose ids are taken."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    tools: list[UnreadTool] = Field(min_length=1, max_length=MOST_TOOLS)
    on_conflict: OnConflict = "error"


class ToolExport(BaseModel):
    """All tools, their secrets hidden."""

    tools: list[ToolConfig]


@router.post(
    "/import",
    status_code=201,
    response_model=StoredTools,
    responses={409: {"description": "Ids are taken; nothing was stored."}},
)
async def import_tools(given: ToolImport, registry: Registry, variables: Variables) -> Response:
    """Store many tools, all or none; `on_conflict` says what becomes of those that are there already.

    With "replace", `***` keeps the secrets that are stored, as PUT does; new tools need theirs written out.
    """
    stored = await store_given(registry, await read_tools(given.tools), variables, given.on_conflict)
    return Response(dumps(stored), 201, media_type="application/json")


@router.get("/export", response_model=ToolExport)
async def export_tools(registry: Registry) -> Response:
    """Give all tools in a form that the import takes; their secrets stay here."""
    stored = await registry.all()
    tools = await asyncio.to_thread(lambda: [shown(tool) for tool in stored])
    headers = {"content-disposition": 'attachment; filename="tools.json"'}
    return Response(dumps({"tools": tools}), headers=headers, media_type="application/json")
