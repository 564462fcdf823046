"""Validate, store and return the ToolConfigs of requests: all or none, with secrets masked (W-01, W-08).

A secret is returned as `***`. Text that only refers to variables, such as `{env:TOOL_KEY}`, is no secret.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from threading import BoundedSemaphore
from typing import Annotated, Any, ParamSpec, TypeVar

from fastapi import Body, Depends, HTTPException
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, SkipValidation, TypeAdapter, ValidationError, WrapValidator

from toolweave.config.variables import ToolVariables
from toolweave.errors import Conflict
from toolweave.outbound_policy import parse_target
from toolweave.redact import HIDDEN, is_secret_name
from toolweave.schema import MAX_FORM_STEPS
from toolweave.servers.registry.openapi.importing import SkippedOperation
from toolweave.servers.registry.repository import OnConflict, ToolRepository
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
"""A ToolRequest in the OpenAPI document; not validated until `validate_tools`."""
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


async def validate_tools(tools: Sequence[object]) -> list[ToolRequest]:
    """Validate the `tools` of a body. Raises RequestValidationError, which names the invalid fields."""
    return await run_in_import_thread(_validate, _TOOLS, tools, ("body", "tools"))


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
