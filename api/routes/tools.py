"""Register the operations of HTTP APIs as tools that a model may choose: /tools (W-01).

A secret is returned as `***`. Text that only refers to variables, such as `{env:TOOL_KEY}`, is no secret.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import BoundedSemaphore
from typing import Annotated, Any, ParamSpec, TypeVar

from fastapi import APIRouter, Body, Depends, Header, HTTPException, Query, Request, Response
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from loguru import logger
from pydantic import BaseModel, ConfigDict, Field, SkipValidation, TypeAdapter, ValidationError, WrapValidator

from toolweave.api.errors import json_response
from toolweave.api.langgraph_client import require_known_caller
from toolweave.api.request_bodies import StrictJsonRoute
from toolweave.config.settings import Settings
from toolweave.config.variables import ToolVariables
from toolweave.errors import ConfigError, Conflict, PersistenceError
from toolweave.outbound_policy import parse_target
from toolweave.redact import HIDDEN, is_secret_name
from toolweave.schema import MAX_FORM_STEPS
from toolweave.servers.registry.current import REGISTRY
from toolweave.servers.registry.openapi.importing import SkippedOperation
from toolweave.servers.registry.repository import OnConflict, ToolRepository, open_tool_registry
from toolweave.servers.registry.stored_tools import RegisteredTool, format_ids, make_tool_id
from toolweave.tool_config import ToolConfig, ToolId, is_secret_header, validation_context

JsonPath = tuple[str | int, ...]
JsonObject = dict[str, Any]
_REFERENCE = re.compile(r"\$?\{env:[A-Za-z_][A-Za-z0-9_]*\}")
# Text beside references that is no secret: the name of a scheme, the colon of name:password.
_SCHEME_OR_SEPARATOR = re.compile(r"(?:(?:basic|bearer|digest|token|apikey|key)\s)?[\s:]*", re.IGNORECASE)
_VALUE_KEYWORDS = ("default", "const")
NO_STORED_SECRET = "*** keeps a stored secret, but none is stored here: send the secret, or {env:TOOL_NAME}"  # noqa: S105
OTHER_HOST = "a stored secret (***) is sent to its own host only: send the secret again to use it for this host"
WRONG_TOOL_ID = "the tool_id must be the one in the path, or left out"
MAX_PROBLEMS = 100
Problem = tuple[JsonPath, str]
T = TypeVar("T")
P = ParamSpec("P")
# Imports compute for seconds. More threads would not finish sooner (GIL) and would slow the event loop down.
_IMPORT_EXECUTOR = ThreadPoolExecutor(1, thread_name_prefix="tool-import")
MAX_IMPORTS = 20
_IMPORT_SLOTS = BoundedSemaphore(MAX_IMPORTS)
TOOL_ID_TAKEN = "there is a tool of this tool_id already"


def config_json(tool: ToolConfig) -> JsonObject:
    """Return a configuration as JSON values, including secrets: never send it to a caller."""
    return tool.model_dump(mode="json")


def masked_json(tool: ToolConfig) -> JsonObject:
    """Return a configuration as JSON values, with `***` in place of each secret."""
    config = config_json(tool)
    for path in secret_paths(config):
        _set_at(config, path, HIDDEN)
    return config


def masked_paths(config: JsonObject) -> list[JsonPath]:
    """Return the paths at which a configuration has `***` instead of a secret."""
    return [path for path in secret_paths(config) if _value_at(config, path) == HIDDEN]


def restore_secrets(config: JsonObject, stored: JsonObject) -> bool:
    """Replace each `***` by the secret at the same path of `stored`; return whether there was one."""
    paths = set(masked_paths(config)).intersection(secret_paths(stored))
    for path in paths:
        _set_at(config, path, _value_at(stored, path))
    return bool(paths)


def secret_paths(config: JsonObject) -> list[JsonPath]:
    """Return the paths of all secrets in a configuration."""
    api = config["api"]
    found: list[JsonPath] = [
        ("api", "headers", name) for name, text in api["headers"].items() if _is_secret(name, text)
    ]
    if (value := api["auth"]["value"]) is not None and not _is_reference(value):
        found.append(("api", "auth", "value"))
    for part in ("input_schema", "output_schema"):
        found += _schema_secret_paths(config[part], (part,))
    return found


def _is_secret(header: str, text: str) -> bool:
    if _is_reference(text):
        return False
    # Masked even beside a variable reference: the literal text may be part of the secret.
    return text == HIDDEN or is_secret_header(header, text)


def _is_reference(text: str) -> bool:
    others = _REFERENCE.sub("", text)
    return others != text and _SCHEME_OR_SEPARATOR.fullmatch(others) is not None


def _schema_secret_paths(schema: Any, path: JsonPath) -> Iterator[JsonPath]:
    """Yield the paths of fixed values of fields with secret names, at any depth."""
    if isinstance(schema, list):
        for position, item in enumerate(schema):
            yield from _schema_secret_paths(item, (*path, position))
    elif isinstance(schema, dict):
        for name, part in schema.items():
            if is_secret_name(name) and isinstance(part, dict):
                yield from ((*path, name, keyword) for keyword in _VALUE_KEYWORDS if isinstance(part.get(keyword), str))
            yield from _schema_secret_paths(part, (*path, name))


def _value_at(value: Any, path: JsonPath) -> Any:
    for step in path:
        value = value[step]
    return value


def _set_at(config: JsonObject, path: JsonPath, text: str) -> None:
    _value_at(config, path[:-1])[path[-1]] = text


class ToolRequest(ToolConfig):
    """A ToolConfig in a request; without a `tool_id` it gets one from its name (W-01)."""

    # Null counts as absent.
    tool_id: Annotated[ToolId, WrapValidator(lambda value, check: "" if value is None else check(value))] = ""


UnvalidatedTool = SkipValidation[ToolRequest]
"""A ToolRequest in the OpenAPI document; validated by the endpoint."""
_TOOL: TypeAdapter[ToolRequest] = TypeAdapter(ToolRequest)
_TOOLS: TypeAdapter[list[ToolRequest]] = TypeAdapter(list[ToolRequest])


async def run_in_import_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run the computation of an import on the single import thread.

    Raises:
        HTTPException: 503, `MAX_IMPORTS` are waiting or running.
    """
    if not _IMPORT_SLOTS.acquire(blocking=False):
        raise HTTPException(503, f"{MAX_IMPORTS} imports of tools are waiting already. Try again later.")
    future = asyncio.get_running_loop().run_in_executor(_IMPORT_EXECUTOR, partial(work, *args, **kwargs))
    # Released when the work ends, not when the client disconnects: the thread still does that work.
    future.add_done_callback(lambda _: _IMPORT_SLOTS.release())
    return await asyncio.shield(future)


async def _validate_tool(tool: Annotated[UnvalidatedTool, Body()]) -> ToolRequest:
    # On a thread: validating a large schema takes up to a second.
    return await asyncio.to_thread(_validate, _TOOL, tool, ("body",))


ValidatedTool = Annotated[ToolRequest, Depends(_validate_tool)]


def _validate(adapter: TypeAdapter[T], value: object, path: JsonPath) -> T:
    try:
        return adapter.validate_python(value, context=validation_context([MAX_FORM_STEPS]))
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)[:MAX_PROBLEMS]
        raise RequestValidationError([{**each, "loc": (*path, *each["loc"])} for each in problems]) from None


def new_tool(tool: ToolConfig, tool_id: str, variables: ToolVariables) -> ToolConfig:
    """Return the configuration of a new tool. Raises RequestValidationError."""
    return _checked_tool(config_json(tool) | {"tool_id": tool_id}, [], variables)


def updated_tool(tool: ToolConfig, stored: ToolConfig, variables: ToolVariables) -> ToolConfig:
    """Return the configuration that replaces `stored`; `***` keeps the secret stored at that path.

    Raises:
        RequestValidationError: the fields that are invalid. A stored secret is not sent to another host: a caller who
            may change tools could read it there.
    """
    problems: list[Problem] = []
    if tool.tool_id not in ("", stored.tool_id):
        problems.append((("tool_id",), WRONG_TOOL_ID))
    config = config_json(tool) | {"tool_id": stored.tool_id}
    changes_host = parse_target(tool.api.base_url).origin != parse_target(stored.api.base_url).origin
    if restore_secrets(config, config_json(stored)) and changes_host:
        problems.append((("api", "base_url"), OTHER_HOST))
    return _checked_tool(config, problems, variables)


def validation_error(problems: Iterable[Problem]) -> RequestValidationError:
    """Return the error for a 422 that names each invalid field and its problem, but no value."""
    return RequestValidationError(
        [{"type": "value_error", "loc": ("body", *path), "msg": problem} for path, problem in problems]
    )


def _checked_tool(config: JsonObject, problems: list[Problem], variables: ToolVariables) -> ToolConfig:
    problems += [(path, NO_STORED_SECRET) for path in sorted(masked_paths(config), key=str)]
    try:
        # Not validated again: the schemas, which take longest, were validated with the request.
        tool = ToolConfig.from_stored(config)
    except ValidationError as error:
        raise validation_error(problems + [(each["loc"], each["msg"]) for each in error.errors()]) from None
    problems += reference_problems(tool, variables)
    if problems:
        raise validation_error(problems)
    return tool


def reference_problems(tool: ToolConfig, variables: ToolVariables) -> list[Problem]:
    """Return the references to variables whose values may not be sent to the tool's host."""
    texts: list[tuple[JsonPath, str]] = [(("api", "headers", name), text) for name, text in tool.api.headers.items()]
    texts.append((("api", "auth", "value"), tool.api.auth.value or ""))
    authority = parse_target(tool.api.base_url).authority
    return [
        (path, problem)
        for path, text in texts
        for problem in variables.reference_problems({".".join(map(str, path)): text}, authority)
    ]


@dataclass(frozen=True, slots=True)
class _CheckedTools:
    """Checked tools: `tools` to store, `unchanged` stored ones to skip, and `invalid` ones, errors by position.

    `revisions` are those of stored tools whose secrets were kept: they must not change before they are replaced.
    """

    tools: list[ToolConfig] = field(default_factory=list)
    unchanged: list[ToolConfig] = field(default_factory=list)
    invalid: dict[int, Sequence[Any]] = field(default_factory=dict)
    revisions: dict[str, int] = field(default_factory=dict)


class StoredTools(BaseModel):
    """The stored tools with masked secrets, and the ids of new and replaced ones."""

    tools: list[ToolConfig]
    created: list[str]
    replaced: list[str]
    skipped: list[SkippedOperation]
    warnings: list[str]


async def store_tools(
    registry: ToolRepository,
    tools: Sequence[ToolConfig],
    variables: ToolVariables,
    on_conflict: OnConflict,
    *,
    usable_only: bool = False,
) -> JsonObject:
    """Store tools, all or none, and return the JSON of `StoredTools`; `***` keeps the secret of a replaced tool.

    With `usable_only`, invalid tools are skipped and reported with the reason.

    Raises:
        RequestValidationError: the invalid fields of all tools.
        Conflict: ids are taken, and `on_conflict` is "error"; or a tool whose secrets are kept was changed meanwhile.
    """
    ids = [tool.tool_id or make_tool_id(tool.name) for tool in tools]
    known = await registry.find_registered(ids)
    if known and on_conflict == "error":
        raise Conflict(f"There are tools registered already as {format_ids(list(known))}.")
    # On a thread: thousands of tools would block the event loop.
    checked = await asyncio.to_thread(_check_tools, list(zip(ids, tools, strict=True)), known, variables, on_conflict)
    if checked.invalid and not usable_only:
        problems = [
            (("tools", n, *each["loc"][1:]), each["msg"]) for n in checked.invalid for each in checked.invalid[n]
        ]
        raise validation_error(problems[:MAX_PROBLEMS])
    report = await registry.import_all(checked.tools, on_conflict=on_conflict, revisions=checked.revisions)
    late = set(report.skipped)
    stored = [tool for tool in checked.tools if tool.tool_id not in late]
    taken = [*checked.unchanged, *(tool for tool in checked.tools if tool.tool_id in late)]
    skipped = [(tool, TOOL_ID_TAKEN) for tool in taken]
    skipped += [(tools[n], " ".join(each["msg"] for each in errors)) for n, errors in checked.invalid.items()]
    return {
        "tools": await asyncio.to_thread(lambda: [masked_json(tool) for tool in stored]),
        "created": report.created,
        "replaced": report.replaced,
        "skipped": [{"operation": f"{tool.api.method} {tool.api.path}", "reason": reason} for tool, reason in skipped],
        "warnings": [],
    }


def _check_tools(
    tools: Sequence[tuple[str, ToolConfig]],
    known: Mapping[str, RegisteredTool],
    variables: ToolVariables,
    on_conflict: OnConflict,
) -> _CheckedTools:
    checked = _CheckedTools()
    for number, (tool_id, tool) in enumerate(tools):
        stored = known.get(tool_id)
        try:
            if stored is None:
                checked.tools.append(new_tool(tool, tool_id, variables))
            elif on_conflict == "skip":
                checked.unchanged.append(stored.config)
            else:
                checked.tools.append(updated_tool(tool, stored.config, variables))
                if masked_paths(config_json(tool)):
                    checked.revisions[tool_id] = stored.revision
        except RequestValidationError as error:
            checked.invalid[number] = error.errors()
    return checked


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
PathToolId = Annotated[str, InPath(max_length=200)]
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
    tools = await run_in_import_thread(_validate, _TOOLS, body.tools, ("body", "tools"))
    return json_response(await store_tools(registry, tools, variables, body.on_conflict), 201)


@router.get("/export", response_model=ToolExport)
async def export_tools(registry: Registry) -> Response:
    """Return all tools in the form of an import, without their secrets."""
    stored = await registry.list_all()
    tools = await asyncio.to_thread(lambda: [masked_json(tool) for tool in stored])
    headers = {"content-disposition": 'attachment; filename="tools.json"'}
    return json_response({"tools": tools}, headers=headers)


@router.get("/{tool_id}", response_model=ToolConfig, responses={404: {}})
async def show_tool(tool_id: PathToolId, registry: Registry) -> Response:
    """Show one tool; the `etag` header is its revision."""
    return _tool_response(await _require_tool(tool_id, registry))


@router.put("/{tool_id}", response_model=ToolConfig, responses={404: {}, 412: {}})
async def replace_tool(
    tool_id: PathToolId, tool: ValidatedTool, registry: Registry, variables: Variables, if_match: IfMatch = None
) -> Response:
    """Replace a tool, with If-Match only that revision of it; `***` keeps a secret if the host is the same."""
    before = await _require_tool(tool_id, registry)
    _require_match(if_match, before)
    changed = updated_tool(tool, before.config, variables)
    # A change in between is detected even without If-Match, so that the kept secrets are those read above.
    return _tool_response(await registry.replace(changed, revision=before.revision))


@router.delete("/{tool_id}", status_code=204, responses={404: {}, 412: {}})
async def delete_tool(tool_id: PathToolId, registry: Registry, if_match: IfMatch = None) -> Response:
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
