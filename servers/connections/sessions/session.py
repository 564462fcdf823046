"""Speak with one MCP server over one session; with what it imports, the only code of ours that loads MCP (S-04)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Protocol
from uuid import uuid4

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from loguru import logger
from mcp import ClientSession
from mcp.shared.exceptions import McpError
from mcp.shared.session import ProgressFnT
from mcp.types import (
    METHOD_NOT_FOUND,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    CancelledNotification,
    CancelledNotificationParams,
    ClientNotification,
    ClientRequest,
    PaginatedRequestParams,
    RequestParams,
    TextContent,
)
from pydantic_core import PydanticSerializationError, to_json

from toolweave.config.mcp import McpServerConfig
from toolweave.servers.connections.checks import ResultChecks
from toolweave.servers.connections.context import Answer, OnProgress
from toolweave.servers.connections.redaction import Redaction
from toolweave.servers.connections.registry import ToolSpec
from toolweave.servers.connections.results import description_text, is_longer, not_understood, note, unsent
from toolweave.servers.connections.sessions.client import SupervisedClient, ask_for_messages
from toolweave.servers.connections.sessions.faults import (
    classify,
    declines_caller,
    describe,
    ends_session,
    is_sign_of_life,
    was_refused,
)
from toolweave.servers.connections.sessions.link import Link
from toolweave.servers.connections.sessions.questions import Elicitations
from toolweave.visible import visible


class HandedAnswers(dict[Any, Any]):
    """The open requests of an SDK session by their ids, each with the stream for its answer, which has room for one.

    The SDK takes a request out, lets others run and sends the answer. Where its caller was cancelled meanwhile, that
    fails, and the session would end with everybody's calls.
    """

    def pop(self, request_id: Any, default: Any = None) -> Any:
        """Take a request out, to be answered or to be forgotten."""
        stream = super().pop(request_id, None)
        return default if stream is None else _AtOnce(stream)


class _AtOnce:
    """A stream for one answer, which is sent before anything else happens."""

    def __init__(self, stream: MemoryObjectSendStream[Any]) -> None:
        self._stream = stream

    async def send(self, answer: Any) -> None:
        self.send_nowait(answer)

    def send_nowait(self, answer: Any) -> None:
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._stream.send_nowait(answer)


MOST_SCHEMA_CHARS = 100_000
DEEPEST_SCHEMA = 40
_DEFINITIONS = ("$defs", "definitions")


class SchemaTooLarge(ValueError):
    """A schema has more text or depth than a model should get."""


def shown_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a tool's schema for the model, every text in it visible and every reference replaced.

    Clients of endpoints replace references, too, but fail with one that leads nowhere and never end with many that
    double each other. Here one that leads outside, nowhere or in a circle stands for anything.

    Raises:
        SchemaTooLarge: it has more than a model should get.
    """
    shown = {key: part for key, part in schema.items() if key not in _DEFINITIONS}
    return _Copier(schema).copy_mapping(shown, 1)


class _Copier:
    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._left = MOST_SCHEMA_CHARS
        self._following: list[str] = []

    def copy(self, value: Any, depth: int) -> Any:
        if depth > DEEPEST_SCHEMA:
            raise SchemaTooLarge(f"it is nested more than {DEEPEST_SCHEMA} levels deep")
        self._spend(2)
        if isinstance(value, str):
            self._spend(len(value))
            return visible(value)
        if isinstance(value, Mapping):
            return self.copy_mapping(value, depth)
        if isinstance(value, list | tuple):
            return [self.copy(inner, depth + 1) for inner in value]
        return value

    def copy_mapping(self, part: Mapping[str, Any], depth: int) -> dict[str, Any]:
        reference = part.get("$ref")
        if not isinstance(reference, str):
            return {self.copy(str(key), depth): self.copy(inner, depth + 1) for key, inner in part.items()}
        target = None if reference in self._following else self._target(reference)
        self._following.append(reference)
        found = self.copy_mapping(target, depth + 1) if isinstance(target, Mapping) else {}
        self._following.pop()
        return found | self.copy_mapping({key: inner for key, inner in part.items() if key != "$ref"}, depth)

    def _target(self, reference: str) -> Any:
        first, *steps = reference.split("/")
        part: Any = self._schema if first == "#" else None
        for step in steps:
            part = part.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(part, Mapping) else None
        return part

    def _spend(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            raise SchemaTooLarge(f"it has more than {MOST_SCHEMA_CHARS} characters")


LONGEST_NAME = 128
LONGEST_META = 4_000
MOST_HINTS = 20
NO_PARAMETERS = "Its parameters are too many to be described here."


class Hints(Protocol):
    """A tool's annotations."""

    def model_dump(self, *, exclude_none: bool) -> dict[str, Any]:
        """Return them as a dict."""
        ...


class ListedTool(Protocol):
    """What `mcp.types.Tool` has of interest here; the mcp package itself is not imported."""

    name: str
    description: str | None
    inputSchema: dict[str, Any]  # noqa: N815 - the protocol's own spelling
    outputSchema: dict[str, Any] | None  # noqa: N815
    meta: dict[str, Any] | None

    @property
    def annotations(self) -> Hints | None:
        """The tool's hints."""
        ...


class Listing:
    """The tool lists of one session; a warning that was given for one is not repeated for the next."""

    def __init__(self, server: str, redaction: Redaction) -> None:
        self._server = server
        self._redaction = redaction
        self._warned: set[str] = set()

    def specs(self, tools: Iterable[ListedTool]) -> list[ToolSpec]:
        """Return the tools that can be offered, in the server's order; takes some 80 µs per tool."""
        return [self._spec(tool) for tool in tools if self._has_a_name(tool)]

    def _has_a_name(self, tool: ListedTool) -> bool:
        if tool.name.strip() and len(tool.name) <= LONGEST_NAME and tool.name.isprintable():
            return True
        self._warn(f"a tool named {note(tool.name)[:LONGEST_NAME]!r} is left out: that is no name for a tool")
        return False

    def _spec(self, tool: ListedTool) -> ToolSpec:
        # Cut only then: nothing finds the first half of a credential.
        description = description_text(self._redaction.withhold(tool.description))
        try:
            schema = shown_schema(self._redaction.withhold(tool.inputSchema))
        except SchemaTooLarge as error:
            self._warn(
                f"the tool {tool.name} is offered without its schema, and its arguments are not checked: {error}"
            )
            schema, description = {"type": "object"}, f"{description} {NO_PARAMETERS}".strip()
        hints = tool.annotations.model_dump(exclude_none=True) if tool.annotations else {}
        return ToolSpec(
            name=tool.name,
            description=description or None,
            input_schema=schema,
            annotations=dict(list(_short(self._redaction.withhold(hints)).items())[:MOST_HINTS]),
            meta=None if is_longer(tool.meta, LONGEST_META) else self._redaction.withhold(tool.meta),
            output_schema=tool.outputSchema,
        )

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            logger.bind(server=self._server).warning("MCP server {}: {}", self._server, text)


def _short(hints: dict[str, Any]) -> dict[str, Any]:
    texts = {name: note(hint) for name, hint in hints.items() if isinstance(hint, str)}
    return {name: texts.get(name, hint) for name, hint in hints.items() if isinstance(hint, bool | int | float | str)}


FAILURE_KEY = "toolweave/failure"
LONGEST_REFUSAL = 2_000
MOST_PAGES = 200
MANY_TOOLS = 100
TELL_LIMIT_S = 1.0


class McpSession:
    """An initialised session; its methods raise only our own errors."""

    def __init__(self, session: ClientSession, link: Link, elicitations: Elicitations, redaction: Redaction) -> None:
        self._session = session
        self._link = link
        self._elicitations = elicitations
        self._redaction = redaction
        self._listing = Listing(link.server, redaction)
        self._results = ResultChecks(link.server)

    async def list_tools(self) -> tuple[ToolSpec, ...]:
        """List all tools in the server's order; a server without the tools capability has none.

        Raises:
            ToolError: the server did not answer with tools.
        """
        specs: list[ToolSpec] = []
        cursor: str | None = None
        try:
            for _ in range(MOST_PAGES):
                page = await self._session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
                if len(page.tools) > MANY_TOOLS:
                    specs += await asyncio.to_thread(self._listing.specs, page.tools)
                else:
                    specs += self._listing.specs(page.tools)
                cursor = page.nextCursor
                if not cursor:
                    self._results.take(specs)
                    return tuple(specs)
        except Exception as error:
            if isinstance(error, McpError) and error.error.code == METHOD_NOT_FOUND:
                return ()
            self._link.declined = declines_caller(error)
            self._link.lose(f"it cannot list its tools: {describe(error)}")
            raise classify(error, self._link.server) from error
        self._link.lose(f"its tool list has more than {MOST_PAGES} pages")
        raise not_understood(self._link.server)

    async def ping(self) -> None:
        """Ask for a sign of life; an answer that is an error is one, too.

        Raises:
            ToolError: the server is gone.
        """
        try:
            await self._session.send_ping()
        except Exception as error:
            if is_sign_of_life(error):
                return
            self._link.lose(describe(error))
            raise classify(error, self._link.server) from error

    def turn(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Wait for the turn of a call; it matters only for a server that asks people something (S-07)."""
        return self._elicitations.turn()

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        meta: dict[str, Any],
        answers: Sequence[Answer] = (),
        on_progress: OnProgress | None = None,
    ) -> CallToolResult:
        """Call one tool. When cancelled, the server is told to stop (mcp.md 3.2).

        Raises:
            ToolError: the call could not be carried out.
        """
        if problem := unsendable({"arguments": arguments, "meta": meta}):
            raise unsent(self._link.server, tool, problem)
        # The number the request is about to take: nothing runs between here and its use. The SDK offers no other way.
        request_id = self._session._request_id  # noqa: SLF001
        try:
            with self._elicitations.during(request_id, answers) as call:
                params = CallToolRequestParams(name=tool, arguments=arguments, _meta=RequestParams.Meta(**meta))
                result = await self._session.send_request(
                    ClientRequest(CallToolRequest(params=params)),
                    CallToolResult,
                    progress_callback=self._progress_callback(on_progress),
                )
                result = call.with_questions(result)
        except asyncio.CancelledError:
            if not self._link.is_lost:
                self._link.spawn(self._tell_cancelled(request_id))
            raise
        except Exception as error:
            if isinstance(error, McpError) and was_refused(error):
                return failed_result(error.error.message[:LONGEST_REFUSAL], "tool")
            if ends_session(error):
                self._link.lose(describe(error))
            raise classify(error, self._link.server, tool) from error
        if not result.isError:
            await self._check(tool, result)
        return result

    async def _check(self, tool: str, result: CallToolResult) -> None:
        if problems := await self._results.problems(tool, result.structuredContent):
            said = RuntimeError(f"its structured content does not fit its output schema: {'; '.join(problems)}")
            raise not_understood(self._link.server, tool) from said

    def _progress_callback(self, on_progress: OnProgress | None) -> ProgressFnT | None:
        if on_progress is None:
            return None

        async def callback(progress: float, total: float | None, message: str | None) -> None:
            on_progress(progress, total, self._redaction.withhold(message))

        return callback

    async def _tell_cancelled(self, request_id: int) -> None:
        params = CancelledNotificationParams(requestId=request_id, reason="the caller no longer waits")
        with contextlib.suppress(TimeoutError, anyio.ClosedResourceError, anyio.BrokenResourceError):
            async with asyncio.timeout(TELL_LIMIT_S):
                await self._session.send_notification(ClientNotification(CancelledNotification(params=params)))


def unsendable(message: dict[str, Any]) -> str | None:
    """Say why the SDK could not write `message`; it would find out in its writer and take the session down."""
    try:
        to_json(message)
    except (PydanticSerializationError, ValueError) as error:
        lone_surrogate = "surrogates" in str(error)
        return "a text in it is not valid Unicode" if lone_surrogate else "a value in it has no JSON form"
    return None


@contextlib.asynccontextmanager
async def open_session(config: McpServerConfig, link: Link) -> AsyncIterator[McpSession]:
    """Connect to a server and initialise; enter and leave it in the same task.

    Raises:
        BaseException: whatever the libraries raise, often in groups; the link's `why_lost` has it in words. A failure
            of the transport reaches the block as CancelledError.
    """
    closing, closed = anyio.create_memory_object_stream[Any](1)
    try:
        redaction = link.redaction or Redaction(config)
        elicitations = Elicitations(config, redaction)
        async with SupervisedClient(config, link, elicitations).session(config.name, auto_initialize=False) as session:
            session._response_streams = HandedAnswers(session._response_streams)  # noqa: SLF001
            # When the incoming stream ends, the SDK answers every open request with an error and tells nobody else.
            # An entry that no request owns makes that visible at once, where a ping would notice seconds later. Nor
            # does the server know its name, with which it could claim to answer.
            session._response_streams[f"end-{uuid4()}"] = closing  # noqa: SLF001
            link.spawn(_report_end(closed, link))
            await _initialized(session, config, link)
            link.spawn(ask_for_messages(session))
            yield McpSession(session, link, elicitations, redaction)
    except (Exception, BaseExceptionGroup, asyncio.CancelledError) as error:
        link.declined = link.declined or declines_caller(error)
        link.lose(describe(error, command=config.command))
        raise
    finally:
        closing.close()
        closed.close()


async def _initialized(session: ClientSession, config: McpServerConfig, link: Link) -> None:
    try:
        await link.race(session.initialize())
    except Exception as error:
        # Before its process ends because of it, which is the lesser reason.
        link.declined = declines_caller(error)
        link.lose(describe(error, command=config.command))
        raise


async def _report_end(closed: MemoryObjectReceiveStream[Any], link: Link) -> None:
    with contextlib.suppress(anyio.EndOfStream):
        await closed.receive()
        link.lose("the server closed the connection")


def failed_result(text: str, kind: str) -> CallToolResult:
    """Build a result that says a call failed; its `_meta` keeps the kind: tool, transport, timeout or protocol."""
    return CallToolResult(content=[TextContent(type="text", text=text)], isError=True, _meta={FAILURE_KEY: kind})
