"""Call the APIs of registered tools, and offer their operations as LangChain tools (W-06, W-08, W-09).

Credentials are resolved immediately before a request is sent; they are part of that request only.
"""

import asyncio
import json
import ssl
import time
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Self

import httpx
from langchain_core.tools import BaseTool, ToolException
from pydantic import Field

from toolweave import __version__
from toolweave.config.outbound_allow import AllowedTarget
from toolweave.config.variables import ToolVariables
from toolweave.errors import ApiCallFailed, ConfigError, OutboundFailed, OutboundRefused
from toolweave.invisible_text import visible_text
from toolweave.nodes.http_tools import requests
from toolweave.nodes.http_tools.responses import EchoedSecrets, ToolOutput, mapped_output, parse_response, status_text
from toolweave.nodes.large_results import STORED_KEY, StoreResult
from toolweave.outbound import OutboundLimits, OutboundPolicy, OutboundRequest, OutboundResponse, open_outbound_client
from toolweave.outbound_policy import OutboundTarget, Resolver, parse_target, resolve_host
from toolweave.redact import HIDDEN, is_secret_name
from toolweave.tool_config import ApiAuth, Method, ToolConfig


@dataclass(frozen=True, slots=True)
class Credentials:
    """Headers and query parameters that authenticate, and every text to hide in the response."""

    headers: dict[str, str] = field(repr=False)
    query: dict[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)


def resolve_credentials(tool: ToolConfig, variables: ToolVariables) -> Credentials:
    """Resolve a tool's references to variables; the values may be sent to its own host only.

    Raises:
        ConfigError: a variable is not allowed for this host or not set, or a value cannot be sent. The text names the
            variable or the place, never a value.
    """
    authority = parse_target(tool.api.base_url).authority
    headers = {name: variables.resolve(tool.api.headers[name], authority) for name in sorted(tool.secret_headers)}
    secrets = [part for text in headers.values() for part in (text, text.partition(" ")[2])]
    secrets += [value for name in headers for value in variables.env_values(tool.api.headers[name])]
    query: dict[str, str] = {}
    auth = tool.api.auth
    if auth.type != "none" and auth.value is not None:
        value = variables.resolve(auth.value, authority)
        if auth.type == "api_key" and auth.location == "query":
            query[auth.name or ""] = value
            secrets.append(value)
        else:
            name, content, parts = _auth_header(auth, value)
            headers = {key: text for key, text in headers.items() if key.lower() != name.lower()} | {name: content}
            secrets += parts
        secrets += variables.env_values(auth.value) if auth.type != "basic" else ()
    _require_sendable(headers)
    return Credentials(headers, query, tuple(dict.fromkeys(secret for secret in secrets if secret.strip())))


def _auth_header(auth: ApiAuth, value: str) -> tuple[str, str, list[str]]:
    """Return the header's name and value, and the secrets in it."""
    if auth.type == "api_key":
        return auth.name or "", value, [value]
    if auth.type == "bearer":
        return "Authorization", f"Bearer {value}", [value]
    name, colon, password = value.partition(":")
    if not colon:
        raise ConfigError("The value of basic auth is not of the form name:password.")
    encoded = b64encode(value.encode("utf-8", "surrogateescape")).decode()
    # Some APIs take a key as the name, without a password.
    return "Authorization", f"Basic {encoded}", [encoded, value, password or name]


def _require_sendable(headers: dict[str, str]) -> None:
    for name, text in headers.items():
        if not text.isascii() or not text.isprintable():
            raise ConfigError(
                f"The configured value of the header {name} has a character that headers cannot carry, "
                "such as the line break at the end of a file."
            )


MAX_DISPLAY_URL_CHARS = 300
DEFAULT_HEADERS = {"Accept": "application/json, */*", "User-Agent": f"Toolweave/{__version__}"}


def build_outbound_request(spec: requests.HTTPRequestSpec, credentials: Credentials) -> OutboundRequest:
    """Encode a request. Configured credentials replace headers and query values of the same name.

    Raises:
        ValueError: the body has NaN, an infinity or a lone surrogate.
    """
    content = b"" if spec.body is None else requests.json_bytes(spec.body)
    headers = {**DEFAULT_HEADERS, **({"Content-Type": "application/json"} if content else {})}
    for more in (spec.headers, credentials.headers):
        names = {name.lower() for name in more}
        headers = {name: text for name, text in headers.items() if name.lower() not in names} | dict(more)
    query = {name: value for name, value in spec.query.items() if name not in credentials.query}
    url = requests.add_query(spec.url, {**query, **credentials.query})
    return OutboundRequest(spec.method, url, tuple(headers.items()), content)


def display_url(spec: requests.HTTPRequestSpec) -> str:
    """Return the request's URL for people: shortened, and without the values of query parameters named like secrets."""
    try:
        plain = parse_target(spec.url).url.partition("?")[0]
    except OutboundRefused:
        return "(a URL that cannot be used)"
    url = requests.add_query(
        plain, {name: HIDDEN if is_secret_name(name) else value for name, value in spec.query.items()}
    )
    return url if len(url) <= MAX_DISPLAY_URL_CHARS else f"{url[:MAX_DISPLAY_URL_CHARS]}…"


MAX_RESPONSE_BYTES = 5 * 1024 * 1024


@dataclass(eq=False)
class ApiCalls:
    """Call operations of HTTP APIs, from any event loop and concurrently.

    Only TLS certificates are stored between calls.

    Args:
        allow: Exceptions from the outbound policy.
        variables: The variables that tool configurations may refer to, and for which hosts.
        trust: The trusted certificates; by default those of other HTTPS clients on this machine.
        resolver: Resolves host names.
    """

    allow: Sequence[AllowedTarget] = ()
    variables: ToolVariables = field(default_factory=ToolVariables)
    trust: ssl.SSLContext | None = field(default=None, kw_only=True)
    resolver: Resolver = field(default=resolve_host, kw_only=True)
    # Accepts no certificate: for operations that are called without TLS.
    _no_trust: ssl.SSLContext = field(default_factory=partial(ssl.SSLContext, ssl.PROTOCOL_TLS_CLIENT), init=False)

    async def call(self, tool: ToolConfig, request: requests.HTTPRequestSpec) -> requests.HTTPResponseSpec:
        """Send a request with the tool's credentials to its API and return the response.

        Credentials that the API repeats are hidden in the result and in errors.

        Raises:
            ApiCallFailed: no response came, or one with a status from 400 on, which is its `response`; `executed` is
                False only if the API certainly did not receive the request.
        """
        subject = f"{request.method} {display_url(request)}"
        try:
            credentials = resolve_credentials(tool, self.variables)
        except ConfigError as error:
            raise ApiCallFailed(f"{subject} was not sent: {error}", executed=False) from None
        echoes = await asyncio.to_thread(EchoedSecrets, credentials.secrets)
        subject = echoes.hide(subject)
        started = time.perf_counter()
        try:
            answer = await self._send(tool, request, credentials)
        except (OutboundRefused, OutboundFailed) as error:
            # Without the cause, which would show in logs what the API sent.
            transient = isinstance(error, OutboundFailed) and not error.was_sent
            message = f"{subject} failed: {echoes.hide(str(error))}"
            raise ApiCallFailed(message, executed=error.was_sent, transient=transient) from None
        except ValueError as error:
            raise ApiCallFailed(f"{subject} was not sent: {error}.", executed=False) from None
        milliseconds = (time.perf_counter() - started) * 1000
        response = await asyncio.to_thread(parse_response, answer, echoes, milliseconds)
        if response.status_code >= 400:
            raise ApiCallFailed(f"{subject} answered {status_text(response)}", response=response.model_dump())
        return response

    async def _send(
        self, tool: ToolConfig, spec: requests.HTTPRequestSpec, credentials: Credentials
    ) -> OutboundResponse:
        request = build_outbound_request(spec, credentials)
        target = parse_target(tool.api.base_url)
        if parse_target(request.url).origin != target.origin:
            raise OutboundRefused(f"It would not reach the tool's own host, {target.scheme}://{target.authority}.")
        if target.scheme == "https" and self.trust is None:
            # Loading the many certificates takes time: on a thread, and once.
            self.trust = await asyncio.to_thread(httpx.create_ssl_context)
        trust = self.trust if target.scheme == "https" else self._no_trust
        async with open_outbound_client(self._policy(tool, target), trust=trust) as client:
            return await client.send(request)

    def _policy(self, tool: ToolConfig, target: OutboundTarget) -> OutboundPolicy:
        limits = OutboundLimits(total_timeout_s=tool.api.timeout_s, max_response_bytes=MAX_RESPONSE_BYTES)
        return OutboundPolicy(allow=tuple(self.allow), only=(target.peer,), limits=limits, resolver=self.resolver)


MAX_RESULT_CHARS = 40_000
REDUCE_HINT = "Ask for less at once, for example with a filter, a smaller limit or the next page."
MAY_HAVE_RUN_HINT = "The API may have executed the request: check this before you call the tool again."
_SAFE_METHODS: frozenset[Method] = frozenset({"GET", "HEAD"})


class ApiTool(BaseTool):
    """One registered operation; its name is the tool_id, its result the response after the response mappings.

    A failed call returns an error ToolMessage with a hint, never an exception. The tool is async only. Results longer
    than `max_result_chars` are cut, unless `with_result_store` returned the tool.
    """

    operation: ToolConfig
    calls: ApiCalls = Field(exclude=True, repr=False)
    max_result_chars: int = MAX_RESULT_CHARS
    keep: StoreResult | None = Field(default=None, exclude=True, repr=False)
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    handle_tool_error: bool = True

    def _to_args_and_kwargs(
        self,
        tool_input: str | dict[str, Any],
        tool_call_id: str | None,  # noqa: ARG002 - the interface of BaseTool
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        # Positional, so that no tool argument collides with a parameter of _arun.
        return (tool_input,), {}

    async def _arun(self, arguments: str | dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
        if not isinstance(arguments, dict):
            raise ToolException(f"The tool {self.name} takes an object of named arguments, not a plain string.")
        try:
            request = requests.build_request(self.operation, arguments)
            response = await self.calls.call(self.operation, request)
        except requests.WrongArguments as error:
            listed = "; ".join(error.problems)
            raise ToolException(f"The arguments do not fit: {listed}. Correct them and call the tool again.") from None
        except ApiCallFailed as error:
            raise ToolException(self._failure_text(error)) from None
        output, text = await asyncio.to_thread(self._output_and_text, response)
        value, limit = output.value, self.max_result_chars
        notes = "".join(f"\n\n[{warning}]" for warning in output.warnings)
        if len(text) <= limit:
            return text + notes, {"structured_content": value} if isinstance(value, dict) else None
        hint = await self.keep(text, limit) if self.keep else None
        notice = f"[The answer was cut: {limit} of its {len(text)} characters are shown. {hint or REDUCE_HINT}]"
        return f"{text[:limit]}\n{notice}{notes}", {STORED_KEY: {"characters": len(text)}} if hint else None

    def with_result_store(self, keep: StoreResult) -> Self:
        """Return this tool for one call that passes its whole result to `keep` if the result is cut."""
        return self.model_copy(update={"keep": keep})

    def _failure_text(self, error: ApiCallFailed) -> str:
        lost = error.executed and error.response is None and self.operation.api.method not in _SAFE_METHODS
        return f"{error} {MAY_HAVE_RUN_HINT}" if lost else str(error)

    def _output_and_text(self, response: requests.HTTPResponseSpec) -> tuple[ToolOutput, str]:
        """Return the output, for programs, and its text, for the model."""
        output = mapped_output(self.operation, response)
        value = output.value
        return output, visible_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"HTTP tools are asynchronous: use `await tool.ainvoke(...)` for {self.name}.")


def http_tools(configs: Iterable[ToolConfig], calls: ApiCalls | None = None) -> list[ApiTool]:
    """Return LangChain tools for operations of HTTP APIs, for `build_agent_loop(tools=...)` and any other agent.

    Args:
        configs: The operations.
        calls: Sends the requests; by default to public addresses only, with variables `TOOL_*`.
    """
    sender = calls or ApiCalls()
    return [
        ApiTool(
            name=config.tool_id,
            description=config.description,
            args_schema={"properties": {}, **config.input_schema, "type": "object"},
            operation=config,
            calls=sender,
        )
        for config in configs
    ]
