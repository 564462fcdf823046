"""Register the operations of HTTP APIs as tools that a model may choose: /tools (W-01)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, HTTPException, Query, Request, Response
from fastapi import Path as InPath
from loguru import logger
from pydantic import BaseModel, ConfigDict, Field

from toolweave.api.errors import json_response
from toolweave.api.langgraph_client import require_known_caller
from toolweave.api.request_bodies import StrictJsonRoute
from toolweave.api.tool_requests import (
    StoredTools,
    UnvalidatedTool,
    ValidatedTool,
    masked_json,
    new_tool,
    store_tools,
    updated_tool,
    validate_tools,
)
from toolweave.config.settings import Settings
from toolweave.config.variables import ToolVariables
from toolweave.errors import ConfigError, PersistenceError
from toolweave.servers.registry.current import REGISTRY
from toolweave.servers.registry.repository import OnConflict, ToolRepository, open_tool_registry
from toolweave.servers.registry.stored_tools import RegisteredTool, make_tool_id
from toolweave.tool_config import ToolConfig


@asynccontextmanager
async def open_app_registry(settings: Settings) -> AsyncIterator[ToolRepository | None]:
    """Open and publish the registry; yield None, and log the reason, if it cannot be opened now.

    Everything else works without it; each use then tries to open it again.
    """
    async with AsyncExitStack() as stack:
        try:
            registry = await stack.enter_async_context(open_tool_registry(settings))
        except (ConfigError, PersistenceError) as error:
            logger.error("The tool registry is unavailable until this is fixed: {}", error)
            yield None
            return
        REGISTRY.publish(registry)
        stack.callback(REGISTRY.unpublish, registry)
        yield registry


async def get_registry(request: Request) -> AsyncIterator[ToolRepository]:
    """Yield the application's registry, or open it for this request. Raises PersistenceError."""
    opened: ToolRepository | None = request.app.state.registry
    if opened is not None:
        yield opened
        return
    async with AsyncExitStack() as stack:
        try:
            registry = await stack.enter_async_context(open_tool_registry(request.app.state.settings))
        except ConfigError as error:
            raise PersistenceError(str(error)) from error
        yield registry


Registry = Annotated[ToolRepository, Depends(get_registry)]
MAX_PAGE_SIZE = 1_000
MAX_IMPORTED_TOOLS = 5_000
QUERY_DESCRIPTION = "Words that must all occur in id, name, description, path or method."
# FastAPI adds the phrase of each status.
ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {401: {}, 413: {}, 503: {}}
router = APIRouter(
    prefix="/tools",
    tags=["tools"],
    route_class=StrictJsonRoute,
    dependencies=[Depends(require_known_caller)],
    responses=ERROR_RESPONSES,
)


class ToolImport(BaseModel):
    """Tools as `GET /tools/export` returns them, and what to do with those whose ids exist."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    tools: list[UnvalidatedTool] = Field(min_length=1, max_length=MAX_IMPORTED_TOOLS)
    on_conflict: OnConflict = "error"


class ToolExport(BaseModel):
    """All tools, with masked secrets."""

    tools: list[ToolConfig]


def get_variables(request: Request) -> ToolVariables:
    """Return the setting with the variables that tools may refer to."""
    variables: ToolVariables = request.app.state.settings.tool_env
    return variables


Variables = Annotated[ToolVariables, Depends(get_variables)]
ToolId = Annotated[str, InPath(max_length=200)]
IfMatch = Annotated[str | None, Header(max_length=200, description="The etag of the expected revision.")]


@router.post("", status_code=201, response_model=ToolConfig, responses={409: {}})
async def create_tool(request: Request, tool: ValidatedTool, registry: Registry, variables: Variables) -> Response:
    """Store a tool and return it with its `tool_id`; without one, a free one is built from its name.

    Credentials may be written as `{env:NAME}`, for names that TOOLWEAVE_TOOL_ENV allows; literal ones are stored and
    from then on shown as `***`. A `base_url` that the outbound policy refuses is stored, too: its host is resolved at
    each call, which is refused then (`error_stage` api_execution).
    """
    new = new_tool(tool, tool.tool_id or make_tool_id(tool.name), variables)
    created = await registry.create(new, rename=not tool.tool_id)
    return _tool_response(created, 201, {"location": f"{request.url.path.rstrip('/')}/{created.config.tool_id}"})


@router.get("", response_model=list[ToolConfig])
async def list_tools(
    registry: Registry,
    query: Annotated[str | None, Query(max_length=500, description=QUERY_DESCRIPTION)] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE)] = 100,
    offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
) -> Response:
    """List the tools, or those that match the words of `query`; `x-pagination-total` counts all of them."""
    page = await registry.search(query, limit=limit, offset=offset)
    headers = {"x-pagination-total": str(page.total)}
    tools = await asyncio.to_thread(lambda: [masked_json(found.config) for found in page.tools])
    return json_response(tools, headers=headers)


# Before the route with an id: no tool has the id "import" or "export".
@router.post("/import", status_code=201, response_model=StoredTools, responses={409: {}})
async def import_tools(body: ToolImport, registry: Registry, variables: Variables) -> Response:
    """Store many tools, all or none; `on_conflict` is what to do with those that exist already.

    With "replace", `***` keeps the stored secrets, as in PUT; the secrets of new tools must be literal.
    """
    stored = await store_tools(registry, await validate_tools(body.tools), variables, body.on_conflict)
    return json_response(stored, 201)


@router.get("/export", response_model=ToolExport)
async def export_tools(registry: Registry) -> Response:
    """Return all tools in the form of an import, without their secrets."""
    stored = await registry.list_all()
    tools = await asyncio.to_thread(lambda: [masked_json(tool) for tool in stored])
    headers = {"content-disposition": 'attachment; filename="tools.json"'}
    return json_response({"tools": tools}, headers=headers)


@router.get("/{tool_id}", response_model=ToolConfig, responses={404: {}})
async def show_tool(tool_id: ToolId, registry: Registry) -> Response:
    """Show one tool; the `etag` header is its revision."""
    return _tool_response(await _require_tool(tool_id, registry))


@router.put("/{tool_id}", response_model=ToolConfig, responses={404: {}, 412: {}})
async def replace_tool(
    tool_id: ToolId, tool: ValidatedTool, registry: Registry, variables: Variables, if_match: IfMatch = None
) -> Response:
    """Replace a tool, with If-Match only that revision of it; `***` keeps a secret if the host is the same."""
    before = await _require_tool(tool_id, registry)
    _require_match(if_match, before)
    changed = updated_tool(tool, before.config, variables)
    # A change in between is detected even without If-Match, so that the kept secrets are those read above.
    return _tool_response(await registry.replace(changed, revision=before.revision))


@router.delete("/{tool_id}", status_code=204, responses={404: {}, 412: {}})
async def delete_tool(tool_id: ToolId, registry: Registry, if_match: IfMatch = None) -> Response:
    """Delete a tool, with If-Match only that revision of it."""
    revision = None
    if if_match is not None:
        before = await _require_tool(tool_id, registry)
        _require_match(if_match, before)
        revision = before.revision
    await registry.delete(tool_id, revision=revision)
    return Response(status_code=204)


async def _require_tool(tool_id: str, registry: ToolRepository) -> RegisteredTool:
    tool = await registry.get(tool_id)
    if tool is None:
        raise HTTPException(404, f"There is no tool {tool_id[:100]!r}.")
    return tool


def _require_match(if_match: str | None, tool: RegisteredTool) -> None:
    tags = {tag.strip() for tag in (if_match or "*").split(",")}
    if not tags & {"*", _etag(tool)}:
        raise HTTPException(412, "The tool has changed: its etag differs from the one in If-Match.")


def _etag(tool: RegisteredTool) -> str:
    return f'"{tool.revision}"'


def _tool_response(tool: RegisteredTool, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return json_response(masked_json(tool.config), status, {"etag": _etag(tool), **(headers or {})})
