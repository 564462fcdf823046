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
from toolweave.servers.registry.repository import OnConflict, RegisteredTools
from toolweave.servers.registry.stored_tools import RegisteredTool, listed, slug
from toolweave.tool_config import ToolConfig, ToolId, is_secret_header, within

Place = tuple[str | int, ...]
JsonObject = dict[str, Any]
_REFERENCE = re.compile(r"\$?\{env:[A-Za-z_][A-Za-z0-9_]*\}")
# What stands between references without being a secret: the name of a scheme, the colon of name:password.
_AROUND_REFERENCES = re.compile(r"(?:(?:basic|bearer|digest|token|apikey|key)\s)?[\s:]*", re.IGNORECASE)
_VALUES_IN_SCHEMAS = ("default", "const")
NO_SECRET = "*** stands for a secret that is stored already, and there is none: write it, or {env:TOOL_NAME}"  # noqa: S105
OTHER_HOST = "a kept secret (***) goes to the host it was written for only: write it again to send it to this one"
OTHER_ID = "the tool_id must be the one in the path, or left out"
MOST_PROBLEMS = 100
Problem = tuple[Place, str]
T = TypeVar("T")
P = ParamSpec("P")
# Imports compute for seconds. On several threads together they would end no sooner, and the event loop, which takes
# turns with them, would run more slowly.
_IMPORTS = ThreadPoolExecutor(1, thread_name_prefix="tool-import")
MAX_IMPORTS = 20
_PLACES = BoundedSemaphore(MAX_IMPORTS)
ALREADY_THERE = "there is a tool of this tool_id already"


def plain(tool: ToolConfig) -> JsonObject:
    """Give a configuration as JSON values, secrets included: not to be shown."""
    return tool.model_dump(mode="json")


def shown(tool: ToolConfig) -> JsonObject:
    """Give a configuration as JSON values, with `***` in the place of each secret."""
    config = plain(tool)
    for place in secret_places(config):
        _put(config, place, HIDDEN)
    return config


def left_hidden(config: JsonObject) -> list[Place]:
    """List the places where a configuration has `***` instead of a secret."""
    return [place for place in secret_places(config) if _at(config, place) == HIDDEN]


def put_back(config: JsonObject, stored: JsonObject) -> bool:
    """Replace each `***` by the secret that `stored` has in the same place; say whether there was one."""
    places = set(left_hidden(config)).intersection(secret_places(stored))
    for place in places:
        _put(config, place, _at(stored, place))
    return bool(places)


def secret_places(config: JsonObject) -> list[Place]:
    """Find where secrets are written in a configuration."""
    api = config["api"]
    found: list[Place] = [("api", "headers", name) for name, text in api["headers"].items() if _is_secret(name, text)]
    if (value := api["auth"]["value"]) is not None and not _refers_only(value):
        found.append(("api", "auth", "value"))
    for part in ("input_schema", "output_schema"):
        found += _in_schema(config[part], (part,))
    return found


def _is_secret(header: str, text: str) -> bool:
    if _refers_only(text):
        return False
    # A variable's name shows that there is a secret; what stands beside it may belong to it.
    return text == HIDDEN or is_secret_header(header, text)


def _refers_only(text: str) -> bool:
    others = _REFERENCE.sub("", text)
    return others != text and _AROUND_REFERENCES.fullmatch(others) is not None


def _in_schema(schema: Any, place: Place) -> Iterator[Place]:
    """Find the fixed values of fields whose names name secrets, at any depth."""
    if isinstance(schema, list):
        for position, item in enumerate(schema):
            yield from _in_schema(item, (*place, position))
    elif isinstance(schema, dict):
        for name, part in schema.items():
            if names_a_secret(name) and isinstance(part, dict):
                yield from (
                    (*place, name, keyword) for keyword in _VALUES_IN_SCHEMAS if isinstance(part.get(keyword), str)
                )
            yield from _in_schema(part, (*place, name))


def _at(value: Any, place: Place) -> Any:
    for step in place:
        value = value[step]
    return value


def _put(config: JsonObject, place: Place, text: str) -> None:
    _at(config, place[:-1])[place[-1]] = text


class ToolRequest(ToolConfig):
    """A ToolConfig as it is sent to us: without a `tool_id` it is named after its name (W-01)."""

    # Null is absent.
    tool_id: Annotated[ToolId, WrapValidator(lambda given, check: "" if given is None else check(given))] = ""


UnreadTool = SkipValidation[ToolRequest]
"""A ToolRequest to whoever reads our document; JSON values until they are read here."""
_TOOL: TypeAdapter[ToolRequest] = TypeAdapter(ToolRequest)
_TOOLS: TypeAdapter[list[ToolRequest]] = TypeAdapter(list[ToolRequest])


async def in_turn(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run the computing of an import on the thread of the imports, one after the other.

    Raises:
        HTTPException: 503, `MAX_IMPORTS` are waiting or running.
    """
    if not _PLACES.acquire(blocking=False):
        raise HTTPException(503, f"{MAX_IMPORTS} imports of tools are waiting already. Try again later.")
    future = asyncio.get_running_loop().run_in_executor(_IMPORTS, partial(work, *args, **kwargs))
    # When its thread is through, not when the caller goes: the work of a client that is gone still takes its turn.
    future.add_done_callback(lambda _: _PLACES.release())
    return await asyncio.shield(future)


async def read_tools(given: Sequence[object]) -> list[ToolRequest]:
    """Read the `tools` of a body. Raises RequestValidationError, which names what is wrong with them."""
    return await in_turn(_read, _TOOLS, given, ("body", "tools"))


async def _read_tool(tool: Annotated[UnreadTool, Body()]) -> ToolRequest:
    # On a thread: to look at the form of a large schema takes up to a second.
    return await asyncio.to_thread(_read, _TOOL, tool, ("body",))


GivenTool = Annotated[ToolRequest, Depends(_read_tool)]


def _read(adapter: TypeAdapter[T], given: object, place: Place) -> T:
    try:
        return adapter.validate_python(given, context=within([FORM_STEPS]))
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)[:MOST_PROBLEMS]
        raise RequestValidationError([{**each, "loc": (*place, *each["loc"])} for each in found]) from None


def new_tool(given: ToolConfig, tool_id: str, variables: ToolVariables) -> ToolConfig:
    """Make the configuration of a tool that is not there yet. Raises RequestValidationError."""
    return _checked(plain(given) | {"tool_id": tool_id}, [], variables)


def changed_tool(given: ToolConfig, stored: ToolConfig, variables: ToolVariables) -> ToolConfig:
    """Make the configuration that takes the place of `stored`; `***` keeps the secret that is stored there.

    Raises:
        RequestValidationError: what is wrong with it. A kept secret does not go to another host, or whoever may change
            a tool could read it there.
    """
    problems: list[Problem] = []
    if given.tool_id not in ("", stored.tool_id):
        problems.append((("tool_id",), OTHER_ID))
    config = plain(given) | {"tool_id": stored.tool_id}
    moves = read_target(given.api.base_url).origin != read_target(stored.api.base_url).origin
    if put_back(config, plain(stored)) and moves:
        problems.append((("api", "base_url"), OTHER_HOST))
    return _checked(config, problems, variables)


def refused_body(problems: Iterable[Problem]) -> RequestValidationError:
    """Make the answer 422 that names each field and what is wrong with it, and repeats no value."""
    return RequestValidationError(
        [{"type": "value_error", "loc": ("body", *place), "msg": problem} for place, problem in problems]
    )


def _checked(config: JsonObject, problems: list[Problem], variables: ToolVariables) -> ToolConfig:
    problems += [(place, NO_SECRET) for place in sorted(left_hidden(config), key=str)]
    try:
        # The form of the schemas, which takes longest, was looked at when the request was read.
        tool = ToolConfig.stored(config)
    except ValidationError as error:
        raise refused_body(problems + [(each["loc"], each["msg"]) for each in error.errors()]) from None
    problems += reference_problems(tool, variables)
    if problems:
        raise refused_body(problems)
    return tool


def reference_problems(tool: ToolConfig, variables: ToolVariables) -> list[Problem]:
    """List the references to variables whose values may not go to the tool's host."""
    texts: list[tuple[Place, str]] = [(("api", "headers", name), text) for name, text in tool.api.headers.items()]
    texts.append((("api", "auth", "value"), tool.api.auth.value or ""))
    authority = read_target(tool.api.base_url).authority
    return [
        (place, problem)
        for place, text in texts
        for problem in variables.refused({".".join(map(str, place)): text}, authority)
    ]


@dataclass(frozen=True, slots=True)
class _Read:
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
    registry: RegisteredTools,
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
    ids = [tool.tool_id or slug(tool.name) for tool in given]
    there = await registry.registered(ids)
    if there and on_conflict == "error":
        raise Conflict(f"There are tools registered already as {listed(list(there))}.")
    # On a thread: thousands of tools would keep everybody else from the event loop.
    read = await asyncio.to_thread(_read_each, list(zip(ids, given, strict=True)), there, variables, on_conflict)
    if read.wrong and not usable_only:
        found = [
            (("tools", number, *each["loc"][1:]), each["msg"]) for number in read.wrong for each in read.wrong[number]
        ]
        raise refused_body(found[:MOST_PROBLEMS])
    report = await registry.import_all(read.tools, on_conflict=on_conflict, revisions=read.revisions)
    late = set(report.skipped)
    stored = [tool for tool in read.tools if tool.tool_id not in late]
    skipped = [(tool, ALREADY_THERE) for tool in (*read.left, *(each for each in read.tools if each.tool_id in late))]
    skipped += [(given[number], " ".join(each["msg"] for each in problems)) for number, problems in read.wrong.items()]
    return {
        "tools": await asyncio.to_thread(lambda: [shown(tool) for tool in stored]),
        "created": report.created,
        "replaced": report.replaced,
        "skipped": [{"operation": f"{tool.api.method} {tool.api.path}", "reason": reason} for tool, reason in skipped],
        "warnings": [],
    }


def _read_each(
    given: Sequence[tuple[str, ToolConfig]],
    there: Mapping[str, RegisteredTool],
    variables: ToolVariables,
    on_conflict: OnConflict,
) -> _Read:
    read = _Read()
    for number, (tool_id, tool) in enumerate(given):
        stored = there.get(tool_id)
        try:
            if stored is None:
                read.tools.append(new_tool(tool, tool_id, variables))
            elif on_conflict == "skip":
                read.left.append(stored.config)
            else:
                read.tools.append(changed_tool(tool, stored.config, variables))
                if left_hidden(plain(tool)):
                    read.revisions[tool_id] = stored.revision
        except RequestValidationError as error:
            read.wrong[number] = error.errors()
    return read
