"""Open sessions with MCP servers, list their tools and call them; only this module and its imports load MCP (S-04).

The names, descriptions and schemas of tools come from any server and go into prompts, so they are cleaned, cut or
skipped where a model must not get them (D-2). Each such change is logged once.

The MCP adapter opens the transports; this module adds what the adapter cannot configure: stderr, HTTP faults, messages.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import IO, Any
from urllib.parse import urlsplit

import anyio
import httpx
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.sessions import Connection
from loguru import logger
from mcp import ClientSession, types
from mcp.client.stdio import get_default_environment
from mcp.shared.exceptions import McpError
from mcp.shared.session import ProgressFnT, RequestResponder
from pydantic import AnyUrl, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from toolweave import __version__
from toolweave.config.mcp import McpServerConfig
from toolweave.config.mcp_entry import LOOPBACK_HOSTS
from toolweave.config.settings import load_settings
from toolweave.errors import ToolError, ToolProtocolError
from toolweave.invisible_text import visible_text
from toolweave.servers.connections.context import FAILURE_KEY, CallContext, OnProgress
from toolweave.servers.connections.redaction import Redaction
from toolweave.servers.connections.registry import ListedTool
from toolweave.servers.connections.results import (
    bad_arguments,
    bad_response,
    description_text,
    is_longer,
    one_line,
    read_refused,
    response_too_large,
)
from toolweave.servers.connections.sessions import faults, stdio
from toolweave.servers.connections.sessions.elicitations import Elicitations
from toolweave.servers.connections.sessions.http import FaultReportingClient
from toolweave.servers.connections.sessions.monitor import PendingRequests, SessionMonitor
from toolweave.servers.core import loading as core

LOG_LEVEL: types.LoggingLevel = "info"
MAX_LOG_DATA_CHARS = 4_000
MAX_LOGGER_CHARS = 100
# Higher levels of a server are logged as ERROR.
LOGURU_LEVELS = {"debug": "DEBUG", "info": "INFO", "notice": "INFO", "warning": "WARNING"}
PLAIN_LOG_ENV = {
    "FASTMCP_CHECK_FOR_UPDATES": "off",
    **dict.fromkeys(("FASTMCP_ENABLE_RICH_LOGGING", "FASTMCP_SHOW_SERVER_BANNER"), "false"),
    "TOOLWEAVE_LOG_LEVEL": "WARNING",
}
"""Make FastMCP servers write plain lines, and ours none per call, since the tool plane logs calls.

Other servers ignore these variables, and an entry's `env` overrides them.
"""
REQUEST_TIMEOUT_S = 10.0
STREAM_TIMEOUT_S = 300.0


async def request_log_messages(session: ClientSession) -> None:
    """Request the server's log messages from `LOG_LEVEL` on; a server may reject this."""
    capabilities = session.get_server_capabilities()
    if capabilities is None or capabilities.logging is None:
        return
    try:
        await session.set_logging_level(LOG_LEVEL)
    except (McpError, ValidationError) as error:
        logger.debug("an MCP server rejected the log level: {}", type(error).__name__)


class SupervisedClient(MultiServerMCPClient):
    """A `MultiServerMCPClient` for one server whose sessions report to a SessionMonitor (D-1).

    This class opens stdio sessions itself: the adapter would write the child's stderr between the lines of Toolweave's
    log and expand `${NAME}` in env values from Toolweave's environment. The adapter has no in-process servers.
    """

    def __init__(self, config: McpServerConfig, monitor: SessionMonitor, elicitations: Elicitations) -> None:
        self._monitor = monitor
        self._elicitations = elicitations
        self._config = config
        self._log_limit = stdio.LogRateLimit(burst=50, per_s=10)
        self._message_limit = stdio.LogRateLimit(burst=1, per_s=0.1)
        super().__init__({config.name: self._connection()})

    @asynccontextmanager
    async def session(self, server_name: str, *, auto_initialize: bool = True) -> AsyncIterator[ClientSession]:
        """Open a session as the adapter does; start the server's process first if the entry requests it."""
        config, monitor = self._config, self._monitor
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            session: ClientSession
            if config.transport == "in_process":
                await asyncio.to_thread(core.import_core_server)
                settings = config.settings or load_settings()
                session = await enter(core.open_in_process_session(settings, self._session_options()))
            elif config.transport == "stdio":
                program = await asyncio.to_thread(self._program)
                stderr = await enter(self._child_stderr())
                read, write = await enter(stdio.open_stdio_transport(program, stderr, monitor))
                session = await enter(ClientSession(read, write, **self._session_options()))
            else:
                if config.spawn:
                    program = await asyncio.to_thread(self._program)
                    output = await enter(self._child_stderr())
                    await enter(stdio.run_server(program, config.url or "", output, monitor))
                session = await enter(super().session(server_name, auto_initialize=False))
            if auto_initialize:
                await session.initialize()
            yield session

    @asynccontextmanager
    async def _child_stderr(self) -> AsyncIterator[IO[bytes]]:
        reader: stdio.ChildStderr | None = None
        try:
            async with stdio.open_child_stderr(self._monitor) as (child_end, reader):
                yield child_end
        finally:
            self._monitor.stderr_tail = reader.tail if reader is not None else ""

    def _program(self) -> stdio.Program:
        config = self._config
        env = get_default_environment() | PLAIN_LOG_ENV | config.env
        command = stdio.launch_command(config.command or "", config.args, cwd=config.cwd, search_path=env.get("PATH"))
        return stdio.Program(command, env, config.cwd)

    def _connection(self) -> Connection:
        config = self._config
        if config.transport in {"stdio", "in_process"}:  # not opened by the adapter
            return {"transport": "stdio", "command": config.command or "", "args": list(config.args)}
        remote: dict[str, Any] = {
            "transport": config.transport,
            "url": config.url,
            "headers": dict(config.headers),
            "auth": self._monitor.authorization,
            "timeout": REQUEST_TIMEOUT_S,
            "sse_read_timeout": STREAM_TIMEOUT_S,
            "httpx_client_factory": self._http_client,
            "session_kwargs": self._session_options(),
        }
        return remote  # type: ignore[return-value]  # the adapter's two remote TypedDicts, told apart by a value

    def _session_options(self) -> dict[str, Any]:
        return {
            "message_handler": self._on_message,
            "elicitation_callback": self._elicitations.answer,
            "logging_callback": self._on_log,
            "client_info": types.Implementation(name="toolweave", version=__version__),
        }

    def _http_client(
        self,
        headers: dict[str, str] | None = None,
        timeout: httpx.Timeout | None = None,
        auth: httpx.Auth | None = None,
    ) -> httpx.AsyncClient:
        return FaultReportingClient(
            self._config,
            self._monitor,
            self._elicitations,
            # httpx accepts only ASCII in headers of type str.
            headers=[(name.encode(), value.encode("latin-1")) for name, value in (headers or {}).items()],
            timeout=timeout,
            auth=auth,
            # A proxy from the environment cannot reach this machine's loopback addresses.
            trust_env=urlsplit(self._config.url or "").hostname not in LOOPBACK_HOSTS,
        )

    async def _on_message(
        self, message: RequestResponder[types.ServerRequest, types.ClientResult] | types.ServerNotification | Exception
    ) -> None:
        if isinstance(message, types.ServerNotification) and isinstance(
            message.root, types.ToolListChangedNotification
        ):
            self._monitor.request_tool_list()
        elif isinstance(message, Exception) and (suffix := self._message_limit.admit()) is not None:
            # The SDK reports a response whose caller is gone as a RuntimeError, which quotes the response.
            late = isinstance(message, RuntimeError)
            text = "its caller is gone" if late else self._monitor.redaction.sanitize(faults.describe_errors(message))
            logger.bind(server=self._config.name).log(
                "DEBUG" if late or self._monitor.is_failing() else "WARNING",
                "MCP server {} sent an unusable message: {}{}",
                self._config.name,
                text,
                suffix,
            )

    async def _on_log(self, params: types.LoggingMessageNotificationParams) -> None:
        """Log a message of the server, with data of any type, within the rate limit."""
        suffix, data = self._log_limit.admit(), params.data
        if suffix is None:
            return
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)
        logger.bind(server=self._config.name, mcp_level=params.level).log(
            LOGURU_LEVELS.get(params.level, "ERROR"),
            "MCP server {}{}: {}{}",
            self._config.name,
            f" {self._log_text(params.logger)[:MAX_LOGGER_CHARS]}" if params.logger else "",
            self._log_text(text[:MAX_LOG_DATA_CHARS]),
            suffix,
        )

    def _log_text(self, text: str) -> str:
        # The caller cuts the text afterwards: the redaction would not find the first half of a secret.
        return self._monitor.redaction.sanitize(visible_text(text))


MAX_NAME_CHARS = 128
MAX_META_CHARS = 4_000
MAX_RESOURCE_CHARS = 5_000_000
HINT_NAMES = set(types.ToolAnnotations.model_fields)
NO_PARAMETERS_TEXT = "Its parameters are too many to be described here."
MAX_SCHEMA_CHARS = 100_000
MAX_SCHEMA_DEPTH = 40
MAX_REFUSAL_CHARS = 2_000
REFUSAL_CODES = (types.INVALID_PARAMS, types.METHOD_NOT_FOUND)
"""Error codes of a server that parsed a request and rejected it: unknown tool, wrong arguments."""
MAX_PAGES = 200
MAX_INLINE_TOOLS = 100
NOTIFICATION_TIMEOUT_S = 1.0
_DEFINITIONS = ("$defs", "definitions")


class McpSession:
    """A session with one server. After `initialize`, its methods raise only Toolweave's errors."""

    def __init__(self, session: ClientSession, monitor: SessionMonitor, elicitations: Elicitations) -> None:
        self.monitor = monitor
        self.call_slot = elicitations.call_slot
        self._session = session
        self._elicitations = elicitations
        self._requests = monitor.requests = PendingRequests(session, lambda: monitor.mark_lost("it disconnected"))
        self._tool_lists = ToolLists(monitor.server, monitor.redaction)
        self._tools: tuple[ListedTool, ...] = ()
        self._output_tools: dict[str, ListedTool] = {}

    @property
    def is_busy(self) -> bool:
        """Return whether a tool call is pending."""
        return self._elicitations.has_pending_calls

    async def initialize(self) -> None:
        """Initialise the session and request the server's log messages."""
        try:
            await self.monitor.run_until_lost(self._session.initialize())
        except Exception as error:
            # Set the reason before the process exits as a consequence, which is a worse reason.
            self.monitor.is_rejected = faults.is_session_rejection(error)
            self.monitor.mark_lost(faults.describe_errors(error))
            raise
        self.monitor.start_task(request_log_messages(self._session))

    async def list_tools(self) -> tuple[ListedTool, ...]:
        """List all tools in the server's order; a server without the tools capability has none.

        Raises:
            ToolError: the server did not return its tools.
        """
        tools: list[ListedTool] = []
        cursor: str | None = None
        try:
            for _ in range(MAX_PAGES):
                page = await self._session.list_tools(
                    params=types.PaginatedRequestParams(cursor=cursor) if cursor else None
                )
                if len(page.tools) > MAX_INLINE_TOOLS:
                    tools += await asyncio.to_thread(self._tool_lists.listed_tools, page.tools)
                else:
                    tools += self._tool_lists.listed_tools(page.tools)
                cursor = page.nextCursor
                if not cursor:
                    if self._tools != tuple(tools):  # else those that have compiled schemas stay
                        self._tools = tuple(tools)
                        self._output_tools = {tool.name: tool for tool in tools if tool.output_schema is not None}
                    return self._tools
        except Exception as error:
            if isinstance(error, McpError) and error.error.code == types.METHOD_NOT_FOUND:
                return ()
            self.monitor.is_rejected = faults.is_session_rejection(error)
            self.monitor.mark_lost(f"it cannot list its tools: {faults.describe_errors(error)}")
            raise faults.to_tool_error(error, self.monitor.server) from error
        self.monitor.mark_lost(f"its tool list has more than {MAX_PAGES} pages")
        raise bad_response(self.monitor.server)

    async def ping(self) -> None:
        """Check that the server responds; an error response counts.

        Raises:
            ToolError: the server did not respond.
        """
        try:
            await self._session.send_ping()
        except Exception as error:
            if faults.is_server_error(error):
                return
            self.monitor.mark_lost(faults.describe_errors(error))
            raise faults.to_tool_error(error, self.monitor.server) from error

    async def call_tool(self, tool: str, arguments: dict[str, Any], context: CallContext) -> types.CallToolResult:
        """Call one tool; a cancellation is sent to the server (mcp.md 3.2).

        Raises:
            ToolError: the call could not be carried out.
        """
        meta = context.meta()
        if problem := serialization_problem({"arguments": arguments, "meta": meta}):
            raise bad_arguments(self.monitor.server, tool, problem=problem)
        # No other task runs between here and the use of the id.
        request_id = self._requests.next_id
        try:
            with self._elicitations.track_call(request_id, context.answers) as call:
                params = types.CallToolRequestParams(
                    name=tool, arguments=arguments, _meta=types.RequestParams.Meta(**meta)
                )
                result = await self._session.send_request(
                    types.ClientRequest(types.CallToolRequest(params=params)),
                    types.CallToolResult,
                    progress_callback=self._progress_callback(context.on_progress),
                )
                result = call.attach_questions(result)
        except asyncio.CancelledError:
            if not self.monitor.is_lost:
                self.monitor.start_task(self._notify_cancelled(request_id))
            raise
        except Exception as error:
            if not (isinstance(error, McpError) and error.error.code in REFUSAL_CODES):
                raise self._tool_error(error, tool) from error
            result = error_result(error.error.message[:MAX_REFUSAL_CHARS], "tool")
        if not result.isError and (problems := await self._output_problems(tool, result.structuredContent)):
            mismatch = RuntimeError(f"its structured content does not fit its output schema: {'; '.join(problems)}")
            raise self._tool_error(mismatch, tool) from mismatch
        self.monitor.overdue_calls = 0
        self.monitor.record_response()
        return result

    async def read_resource(self, uri: AnyUrl) -> types.ReadResourceResult:
        """Read a resource of at most `MAX_RESOURCE_CHARS`.

        Raises:
            ToolError: the server did not return the resource, or it is too large.
        """
        try:
            result = await self._session.read_resource(uri)
        except Exception as error:
            if faults.is_server_error(error):
                reason = self.monitor.redaction.sanitize(faults.describe_errors(error))
                raise read_refused(self.monitor.server, str(uri), reason=reason) from error
            raise self._tool_error(error, str(uri)) from error
        sizes = (
            len(part.text if isinstance(part, types.TextResourceContents) else part.blob) for part in result.contents
        )
        if sum(sizes) > MAX_RESOURCE_CHARS:
            raise response_too_large(self.monitor.server, str(uri))
        return result

    def _tool_error(self, error: Exception, tool: str) -> ToolError:
        if faults.ends_session(error):
            self.monitor.mark_lost(faults.describe_errors(error))
        failure = faults.to_tool_error(error, self.monitor.server, tool)
        if isinstance(failure, ToolProtocolError):
            self.monitor.overdue_calls = 0
        return failure

    async def _output_problems(self, tool: str, structured: dict[str, Any] | None) -> list[str]:
        """Return the problems of a structured result (MCP 2025-11-25, tools, output schema).

        The SDK's own check validates the schema again with every call, and a server's patterns can run for minutes.
        """
        spec = self._output_tools.get(tool)
        if spec is None:
            return []
        if structured is None:
            return ["it has no structured content"]
        return await spec.validation_errors("results", structured)

    def _progress_callback(self, on_progress: OnProgress | None) -> ProgressFnT | None:
        if on_progress is None:
            return None

        async def callback(progress: float, total: float | None, message: str | None) -> None:
            on_progress(progress, total, self.monitor.redaction.redact_credentials(message))

        return callback

    async def _notify_cancelled(self, request_id: int) -> None:
        params = types.CancelledNotificationParams(requestId=request_id, reason="the caller no longer waits")
        with contextlib.suppress(TimeoutError, anyio.ClosedResourceError, anyio.BrokenResourceError):
            async with asyncio.timeout(NOTIFICATION_TIMEOUT_S):
                await self._session.send_notification(
                    types.ClientNotification(types.CancelledNotification(params=params))
                )


@asynccontextmanager
async def open_session(config: McpServerConfig, monitor: SessionMonitor) -> AsyncIterator[McpSession]:
    """Connect to a server and initialise; enter and leave it in the same task.

    Raises:
        BaseException: any error of the libraries, often in groups; `monitor.loss_reason` describes it. A failure of the
            transport is raised in the block as CancelledError.
    """
    try:
        elicitations = Elicitations(config, monitor.redaction)
        client = SupervisedClient(config, monitor, elicitations)
        async with client.session(config.name, auto_initialize=False) as client_session:
            session = McpSession(client_session, monitor, elicitations)
            await session.initialize()
            yield session
    except (Exception, BaseExceptionGroup, asyncio.CancelledError) as error:
        monitor.is_rejected = monitor.is_rejected or faults.is_session_rejection(error)
        monitor.mark_lost(faults.describe_errors(error))
        raise


def error_result(text: str, kind: str) -> types.CallToolResult:
    """Return the result of a failed call; its `_meta` has the kind: tool, transport, timeout or protocol."""
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], isError=True, _meta={FAILURE_KEY: kind}
    )


def serialization_problem(message: dict[str, Any]) -> str | None:
    """Return why `message` cannot be serialized, else None; the SDK would fail in its writer and end the session."""
    try:
        to_json(message)
    except (PydanticSerializationError, ValueError) as error:
        lone_surrogate = "surrogates" in str(error)
        return "a text in it is not valid Unicode" if lone_surrogate else "a value in it has no JSON form"
    return None


class ToolLists:
    """The tool lists of one session; each warning is logged once per session."""

    def __init__(self, server: str, redaction: Redaction) -> None:
        self._server = server
        self._redaction = redaction
        self._warned: set[str] = set()

    def listed_tools(self, tools: Iterable[types.Tool]) -> list[ListedTool]:
        """Return the usable tools in the server's order; takes about 80 µs per tool."""
        return [self._listed_tool(tool) for tool in tools if self._has_valid_name(tool)]

    def _has_valid_name(self, tool: types.Tool) -> bool:
        if tool.name.strip() and len(tool.name) <= MAX_NAME_CHARS and tool.name.isprintable():
            return True
        self._warn(f"a tool named {one_line(tool.name)[:MAX_NAME_CHARS]!r} is skipped: the name is not valid")
        return False

    def _listed_tool(self, tool: types.Tool) -> ListedTool:
        # Redact before cutting: the redaction would not find the first half of a credential.
        description = description_text(self._redaction.redact_credentials(tool.description))
        try:
            schema = schema_for_model(self._redaction.redact_credentials(tool.inputSchema))
        except SchemaTooLarge as error:
            self._warn(
                f"the tool {tool.name} is offered without its schema, and its arguments are not checked: {error}"
            )
            schema, description = {"type": "object"}, f"{description} {NO_PARAMETERS_TEXT}".strip()
        hints = tool.annotations.model_dump(include=HINT_NAMES, exclude_none=True) if tool.annotations else {}
        return ListedTool(
            name=tool.name,
            description=description or None,
            input_schema=schema,
            annotations={
                name: one_line(hint) if isinstance(hint, str) else hint
                for name, hint in self._redaction.redact_credentials(hints).items()
            },
            meta=None if is_longer(tool.meta, MAX_META_CHARS) else self._redaction.redact_credentials(tool.meta),
            output_schema=tool.outputSchema,
            server=self._server,
        )

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            logger.bind(server=self._server).warning("MCP server {}: {}", self._server, text)


class SchemaTooLarge(ValueError):
    """A schema has too much text or is nested too deeply for a model."""


def schema_for_model(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a tool's schema for the model, without invisible characters and with references replaced.

    Clients of model endpoints replace references, too, but fail at an unknown one and do not end with exponentially
    many. Here a reference that is external, unknown or recursive becomes the empty schema.

    Raises:
        SchemaTooLarge: the schema is too large for a model.
    """
    shown = {key: part for key, part in schema.items() if key not in _DEFINITIONS}
    return _SchemaCopier(schema).copy_mapping(shown, 1)


class _SchemaCopier:
    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._chars_left = MAX_SCHEMA_CHARS
        self._open_references: list[str] = []

    def copy(self, value: Any, depth: int) -> Any:
        if depth > MAX_SCHEMA_DEPTH:
            raise SchemaTooLarge(f"it is nested more than {MAX_SCHEMA_DEPTH} levels deep")
        self._count_chars(2)
        if isinstance(value, str):
            self._count_chars(len(value))
            return visible_text(value)
        if isinstance(value, Mapping):
            return self.copy_mapping(value, depth)
        if isinstance(value, list | tuple):
            return [self.copy(inner, depth + 1) for inner in value]
        return value

    def copy_mapping(self, part: Mapping[str, Any], depth: int) -> dict[str, Any]:
        reference = part.get("$ref")
        if not isinstance(reference, str):
            return {self.copy(str(key), depth): self.copy(inner, depth + 1) for key, inner in part.items()}
        target = None if reference in self._open_references else self._target(reference)
        self._open_references.append(reference)
        found = self.copy_mapping(target, depth + 1) if isinstance(target, Mapping) else {}
        self._open_references.pop()
        return found | self.copy_mapping({key: inner for key, inner in part.items() if key != "$ref"}, depth)

    def _target(self, reference: str) -> Any:
        first, *steps = reference.split("/")
        part: Any = self._schema if first == "#" else None
        for step in steps:
            part = part.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(part, Mapping) else None
        return part

    def _count_chars(self, characters: int) -> None:
        self._chars_left -= characters
        if self._chars_left < 0:
            raise SchemaTooLarge(f"it has more than {MAX_SCHEMA_CHARS} characters")
