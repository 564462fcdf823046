"""Read the ToolConfigs of requests: named, with kept secrets put back, and refused for what they may not refer to."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import BoundedSemaphore
from typing import Annotated, Any, ParamSpec, TypeVar

from fastapi import Body, Depends, HTTPException
from fastapi.exceptions import RequestValidationError
from pydantic import SkipValidation, TypeAdapter, ValidationError, model_validator

from toolweave.api.tool_secrets import JsonObject, Place, left_hidden, plain, put_back
from toolweave.config.variables import ToolVariables
from toolweave.outbound_urls import read_target
from toolweave.schema import FORM_STEPS
from toolweave.tool_config import ToolConfig, ToolId, within

NO_SECRET = "*** stands for a secret that is stored already, and there is none: write it, or {env:TOOL_NAME}"  # noqa: S105
OTHER_HOST = "a kept secret (***) goes to the host it was written for only: write it again to send it to this one"
OTHER_ID = "the tool_id must be the one in the path, or left out"

MOST_PROBLEMS = 100

Problem = tuple[Place, str]


class ToolRequest(ToolConfig):
    """A ToolConfig as it is sent to us: without a `tool_id` it is named after its name (W-01)."""

    tool_id: ToolId = ""

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and value.get("tool_id", "") is None:
            return {name: item for name, item in value.items() if name != "tool_id"}
        return value


UnreadTool = SkipValidation[ToolRequest]
"""A ToolRequest to whoever reads our document; JSON values until they are read here."""

_TOOL: TypeAdapter[ToolRequest] = TypeAdapter(ToolRequest)
_TOOLS: TypeAdapter[list[ToolRequest]] = TypeAdapter(list[ToolRequest])
T = TypeVar("T")
P = ParamSpec("P")


# Imports compute for seconds. On several threads together they would end no sooner, and the event loop, which takes
# turns with them, would run more slowly.
_IMPORTS = ThreadPoolExecutor(1, thread_name_prefix="tool-import")
MAX_IMPORTS = 20
_PLACES = BoundedSemaphore(MAX_IMPORTS)


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
    config, kept = put_back(plain(given) | {"tool_id": stored.tool_id}, plain(stored))
    if kept and _origin(given) != _origin(stored):
        problems.append((("api", "base_url"), OTHER_HOST))
    return _checked(config, problems, variables)


def refused_body(problems: Iterable[Problem]) -> RequestValidationError:
    """Make the answer 422 that names each field and what is wrong with it, and repeats no value."""
    return RequestValidationError(
        [{"type": "value_error", "loc": ("body", *place), "msg": problem} for place, problem in problems]
    )


def problems_of(error: RequestValidationError) -> list[Problem]:
    """Give back what `refused_body` was made of."""
    return [(tuple(each["loc"][1:]), each["msg"]) for each in error.errors()]


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


def _origin(tool: ToolConfig) -> tuple[str, str, int]:
    return read_target(tool.api.base_url).origin
