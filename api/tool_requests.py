"""Read, store and show the ToolConfigs of requests: all or none, with their secrets hidden (W-01, W-08).

A secret is shown as `***`. What refers to variables only, such as `{env:TOOL_KEY}`, holds none and is shown as it is.
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
from toolweave.outbound_policy import read_target
from toolweave.redact import HIDDEN, names_a_secret
from toolweave.schema import FORM_STEPS
from toolweave.servers.registry.openapi.importing import SkippedOperation
from toolweave.servers.registry.repository import OnConflict, ToolRepository
from toolweave.servers.registry.stored_tools import RegisteredTool, format_ids, make_tool_id
from toolweave.tool_config import ToolConfig, ToolId, is_secret_header, within

JsonPath = tuple[str | int, ...]
JsonObject = dict[str, Any]
_REFERENCE = re.compile(r"\$?\{env:[A-Za-z_][A-Za-z0-9_]*\}")
# What stands between references without being a secret: the name of a scheme, the colon of name:password.
_SCHEME_OR_SEPARATOR = re.compile(r"(?:(?:basic|bearer|digest|token|apikey|key)\s)?[\s:]*", re.IGNORECASE)
_VALUE_KEYWORDS = ("default", "const")
NO_STORED_SECRET = "*** stands for a secret that is stored already, and there is none: write it, or {env:TOOL_NAME}"  # noqa: S105
OTHER_HOST = "a kept secret (***) goes to the host it was written for only: write it again to send it to this one"
WRONG_TOOL_ID = "the tool_id must be the one in the path, or left out"
MAX_PROBLEMS = 100
Problem = tuple[JsonPath, str]
T = TypeVar("T")
P = ParamSpec("P")
# Imports compute for seconds. On several threads together they would end no sooner, and the event loop, which takes
# turns with them, would run more slowly.
_IMPORT_EXECUTOR = ThreadPoolExecutor(1, thread_name_prefix="tool-import")
MAX_IMPORTS = 20
_IMPORT_SLOTS = BoundedSemaphore(MAX_IMPORTS)
TOOL_ID_TAKEN = "there is a tool of this tool_id already"


def config_json(tool: ToolConfig) -> JsonObject:
    """Give a configuration as JSON values, secrets included: not to be shown."""
    return tool.model_dump(mode="json")


def masked_json(tool: ToolConfig) -> JsonObject:
    """Give a configuration as JSON values, with `***` in the place of each secret."""
    config = config_json(tool)
    for path in secret_paths(config):
        _set_at(config, path, HIDDEN)
    return config


def masked_paths(config: JsonObject) -> list[JsonPath]:
    """List the places where a configuration has `***` instead of a secret."""
    return [path for path in secret_paths(config) if _value_at(config, path) == HIDDEN]


def restore_secrets(config: JsonObject, stored: JsonObject) -> bool:
    """Replace each `***` by the secret that `stored` has in the same place; say whether there was one."""
    paths = set(masked_paths(config)).intersection(secret_paths(stored))
    for path in paths:
        _set_at(config, path, _value_at(stored, path))
    return bool(paths)


def secret_paths(config: JsonObject) -> list[JsonPath]:
    """Find where secrets are written in a configuration."""
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
    # A variable's name shows that there is a secret; what stands beside it may belong to it.
    return text == HIDDEN or is_secret_header(header, text)


def _is_reference(text: str) -> bool:
    others = _REFERENCE.sub("", text)
    return others != text and _SCHEME_OR_SEPARATOR.fullmatch(others) is not None


def _schema_secret_paths(schema: Any, path: JsonPath) -> Iterator[JsonPath]:
    """Find the fixed values of fields whose names name secrets, at any depth."""
    if isinstance(schema, list):
        for position, item in enumerate(schema):
            yield from _schema_secret_paths(item, (*path, position))
    elif isinstance(schema, dict):
        for name, part in schema.items():
            if names_a_secret(name) and isinstance(part, dict):
                yield from ((*path, name, keyword) for keyword in _VALUE_KEYWORDS if isinstance(part.get(keyword), str))
            yield from _schema_secret_paths(part, (*path, name))


def _value_at(value: Any, path: JsonPath) -> Any:
    for step in path:
        value = value[step]
    return value


def _set_at(config: JsonObject, path: JsonPath, text: str) -> None:
    _value_at(config, path[:-1])[path[-1]] = text


class ToolRequest(ToolConfig):
    """A ToolConfig as it is sent to us: without a `tool_id` it is named after its name (W-01)."""

    # Null is absent.
    tool_id: Annotated[ToolId, WrapValidator(lambda given, check: "" if given is None else check(given))] = ""


UnvalidatedTool = SkipValidation[ToolRequest]
"""A ToolRequest to whoever reads our document; JSON values until they are read here."""
_TOOL: TypeAdapter[ToolRequest] = TypeAdapter(ToolRequest)
_TOOLS: TypeAdapter[list[ToolRequest]] = TypeAdapter(list[ToolRequest])


async def run_in_import_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run the computing of an import on the thread of the imports, one after the other.

    Raises:
        HTTPException: 503, `MAX_IMPORTS` are waiting or running.
    """
    if not _IMPORT_SLOTS.acquire(blocking=False):
        raise HTTPException(503, f"{MAX_IMPORTS} imports of tools are waiting already. Try again later.")
    future = asyncio.get_running_loop().run_in_executor(_IMPORT_EXECUTOR, partial(work, *args, **kwargs))
    # When its thread is through, not when the caller goes: the work of a client that is gone still takes its turn.
    future.add_done_callback(lambda _: _IMPORT_SLOTS.release())
    return await asyncio.shield(future)


async def validate_tools(given: Sequence[object]) -> list[ToolRequest]:
    """Read the `tools` of a body. Raises RequestValidationError, which names what is wrong with them."""
    return await run_in_import_thread(_validate, _TOOLS, given, ("body", "tools"))


async def _validate_tool(tool: Annotated[UnvalidatedTool, Body()]) -> ToolRequest:
    # On a thread: to look at the form of a large schema takes up to a second.
    return await asyncio.to_thread(_validate, _TOOL, tool, ("body",))


ValidatedTool = Annotated[ToolRequest, Depends(_validate_tool)]


def _validate(adapter: TypeAdapter[T], given: object, path: JsonPath) -> T:
    try:
        return adapter.validate_python(given, context=within([FORM_STEPS]))
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)[:MAX_PROBLEMS]
        raise RequestValidationError([{**each, "loc": (*path, *each["loc"])} for each in found]) from None


def new_tool(given: ToolConfig, tool_id: str, variables: ToolVariables) -> ToolConfig:
    """Make the configuration of a tool that is not there yet. Raises RequestValidationError."""
    return _checked_tool(config_json(given) | {"tool_id": tool_id}, [], variables)


def updated_tool(given: ToolConfig, stored: ToolConfig, variables: ToolVariables) -> ToolConfig:
    """Make the configuration that takes the place of `stored`; `***` keeps the secret that is stored there.

    Raises:
        RequestValidationError: what is wrong with it. A kept secret does not go to another host, or whoever may change
            a tool could read it there.
    """
    problems: list[Problem] = []
    if given.tool_id not in ("", stored.tool_id):
        problems.append((("tool_id",), WRONG_TOOL_ID))
    config = config_json(given) | {"tool_id": stored.tool_id}
    moves = read_target(given.api.base_url).origin != read_target(stored.api.base_url).origin
    if restore_secrets(config, config_json(stored)) and moves:
        problems.append((("api", "base_url"), OTHER_HOST))
    return _checked_tool(config, problems, variables)


def validation_error(problems: Iterable[Problem]) -> RequestValidationError:
    """Make the answer 422 that names each field and what is wrong with it, and repeats no value."""
    return RequestValidationError(
        [{"type": "value_error", "loc": ("body", *path), "msg": problem} for path, problem in problems]
    )


def _checked_tool(config: JsonObject, problems: list[Problem], variables: ToolVariables) -> ToolConfig:
    problems += [(path, NO_STORED_SECRET) for path in sorted(masked_paths(config), key=str)]
    try:
        # The form of the schemas, which takes longest, was looked at when the request was read.
        tool = ToolConfig.stored(config)
    except ValidationError as error:
        raise validation_error(problems + [(each["loc"], each["msg"]) for each in error.errors()]) from None
    problems += reference_problems(tool, variables)
    if problems:
        raise validation_error(problems)
    return tool


def reference_problems(tool: ToolConfig, variables: ToolVariables) -> list[Problem]:
    """List the references to variables whose values may not go to the tool's host."""
    texts: list[tuple[JsonPath, str]] = [(("api", "headers", name), text) for name, text in tool.api.headers.items()]
    texts.append((("api", "auth", "value"), tool.api.auth.value or ""))
    authority = read_target(tool.api.base_url).authority
    return [
        (path, problem)
        for path, text in texts
        for problem in variables.refused({".".join(map(str, path)): text}, authority)
    ]


@dataclass(frozen=True, slots=True)
class _CheckedTools:
    """Tools that may be stored, those that are to be left as they are, and what is wrong with others by position.

    `revisions` names those that got secrets of stored ones: these must still be the same when they are replaced.
    """

    tools: list[ToolConfig] = field(default_factory=list)
    left: list[ToolConfig] = field(default_factory=list)
    wrong: dict[int, Sequence[Any]] = field(default_factory=dict)
    revisions: dict[str, int] = field(default_factory=dict)


class StoredTools(BaseModel):
    """What became of the tools: those stored as they are shown, and the ids of new and of replaced ones."""

    tools: list[ToolConfig]
    created: list[str]
    replaced: list[str]
    skipped: list[SkippedOperation]
    warnings: list[str]


async def store_tools(
    registry: ToolRepository,
    given: Sequence[ToolConfig],
    variables: ToolVariables,
    on_conflict: OnConflict,
    *,
    usable_only: bool = False,
) -> JsonObject:
    """Store tools, all or none, and return `StoredTools`; to replace one, `***` keeps its secrets.

    With `usable_only` the tools that may not be stored are skipped, with the reason.

    Raises:
        RequestValidationError: what is wrong with all of them.
        Conflict: ids are taken, and `on_conflict` is "error"; or tools whose secrets are kept were changed meanwhile.
    """
    ids = [tool.tool_id or make_tool_id(tool.name) for tool in given]
    there = await registry.find_registered(ids)
    if there and on_conflict == "error":
        raise Conflict(f"There are tools registered already as {format_ids(list(there))}.")
    # On a thread: thousands of tools would keep everybody else from the event loop.
    read = await asyncio.to_thread(_check_tools, list(zip(ids, given, strict=True)), there, variables, on_conflict)
    if read.wrong and not usable_only:
        found = [
            (("tools", number, *each["loc"][1:]), each["msg"]) for number in read.wrong for each in read.wrong[number]
        ]
        raise validation_error(found[:MAX_PROBLEMS])
    report = await registry.import_all(read.tools, on_conflict=on_conflict, revisions=read.revisions)
    late = set(report.skipped)
    stored = [tool for tool in read.tools if tool.tool_id not in late]
    skipped = [(tool, TOOL_ID_TAKEN) for tool in (*read.left, *(each for each in read.tools if each.tool_id in late))]
    skipped += [(given[number], " ".join(each["msg"] for each in problems)) for number, problems in read.wrong.items()]
    return {
        "tools": await asyncio.to_thread(lambda: [masked_json(tool) for tool in stored]),
        "created": report.created,
        "replaced": report.replaced,
        "skipped": [{"operation": f"{tool.api.method} {tool.api.path}", "reason": reason} for tool, reason in skipped],
        "warnings": [],
    }


def _check_tools(
    given: Sequence[tuple[str, ToolConfig]],
    there: Mapping[str, RegisteredTool],
    variables: ToolVariables,
    on_conflict: OnConflict,
) -> _CheckedTools:
    read = _CheckedTools()
    for number, (tool_id, tool) in enumerate(given):
        stored = there.get(tool_id)
        try:
            if stored is None:
                read.tools.append(new_tool(tool, tool_id, variables))
            elif on_conflict == "skip":
                read.left.append(stored.config)
            else:
                read.tools.append(updated_tool(tool, stored.config, variables))
                if masked_paths(config_json(tool)):
                    read.revisions[tool_id] = stored.revision
        except RequestValidationError as error:
            read.wrong[number] = error.errors()
    return read
