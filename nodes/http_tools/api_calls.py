"""Send requests to the APIs of registered tools, and give their answers without any credential (W-06, W-08, W-09)."""

import asyncio
import ssl
import threading
import time
from collections.abc import Sequence
from ipaddress import ip_network

import httpx

from toolweave.config.outbound_allow import AllowedTarget
from toolweave.config.settings import Settings
from toolweave.config.tool_variables import ToolVariables
from toolweave.errors import ApiCallFailed, ConfigError, OutboundFailed, OutboundRefused
from toolweave.nodes.http_tools.api_answers import read_api_answer, status_text
from toolweave.nodes.http_tools.api_requests import outbound_request, shown_url
from toolweave.nodes.http_tools.credentials import Credentials, credentials_of
from toolweave.nodes.http_tools.echoes import echoes_of
from toolweave.nodes.http_tools.specs import HTTPRequestSpec, HTTPResponseSpec
from toolweave.outbound import OutboundLimits, OutboundPolicy, OutboundResponse, open_outbound_client
from toolweave.outbound_policy import Resolver, resolve
from toolweave.outbound_urls import OutboundTarget, read_target
from toolweave.tool_config import ToolConfig

MOST_BYTES = 5 * 1024 * 1024


class ApiCalls:
    """Call operations of HTTP APIs; nothing is kept between calls but the certificates that count.

    It can be used from any event loop, for any number of calls at once.

    Args:
        allow: exceptions from the outbound policy.
        variables: which variables tool configurations may refer to, and for which hosts.
        trust: which certificates count; by default those that other HTTPS clients here trust.
        resolver: looks names up.
    """

    def __init__(
        self,
        allow: Sequence[AllowedTarget] = (),
        variables: ToolVariables | None = None,
        *,
        trust: ssl.SSLContext | None = None,
        resolver: Resolver = resolve,
    ) -> None:
        self._allow = tuple(allow)
        self._variables = variables or ToolVariables()
        self._trust = trust
        self._making_trust = threading.Lock()
        # No certificate satisfies this one: for operations that are called without TLS.
        self._no_trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._resolver = resolver

    async def call(self, tool: ToolConfig, request: HTTPRequestSpec) -> HTTPResponseSpec:
        """Send a request to a tool's API, adding its credentials; give what the API answered.

        Credentials that the API repeats are hidden in whatever this returns or raises.

        Raises:
            ApiCallFailed: no answer came, or one with a status from 400 on, which is its `response`; `executed` is
                False only if the API surely did not get the request.
        """
        subject = f"{request.method} {shown_url(request)}"
        try:
            credentials = credentials_of(tool, self._variables)
        except ConfigError as error:
            raise ApiCallFailed(f"{subject} was not sent: {error}", executed=False) from None
        echoes = await echoes_of(credentials.secrets)
        subject = echoes.hide(subject)
        started = time.perf_counter()
        try:
            answer = await self._send(tool, request, credentials)
        except (OutboundRefused, OutboundFailed) as error:
            # Not with its cause: that would quote, in logs, what the API sent.
            passing = isinstance(error, OutboundFailed) and not error.sent
            told = f"{subject} failed: {echoes.hide(str(error))}"
            raise ApiCallFailed(told, executed=error.sent, passing=passing) from None
        except ValueError as error:
            raise ApiCallFailed(f"{subject} was not sent: {error}.", executed=False) from None
        response = await read_api_answer(answer, echoes, (time.perf_counter() - started) * 1000)
        if response.status_code >= 400:
            raise ApiCallFailed(f"{subject} answered {status_text(response)}", response=response.model_dump())
        return response

    async def _send(self, tool: ToolConfig, spec: HTTPRequestSpec, credentials: Credentials) -> OutboundResponse:
        request = outbound_request(spec, credentials)
        own = read_target(tool.api.base_url)
        if read_target(request.url).origin != own.origin:
            raise OutboundRefused(f"It would not go to the tool's own host, {own.scheme}://{own.authority}.")
        trust = await self._trusted() if own.scheme == "https" else self._no_trust
        async with open_outbound_client(self._policy(tool, own), trust=trust) as client:
            return await client.send(request)

    def _policy(self, tool: ToolConfig, own: OutboundTarget) -> OutboundPolicy:
        place = own.host if own.address is None else ip_network(own.address)
        limits = OutboundLimits(total_seconds=tool.api.timeout_s, response_bytes=MOST_BYTES)
        return OutboundPolicy(
            allow=self._allow, only=(AllowedTarget(place, own.port),), limits=limits, resolver=self._resolver
        )

    async def _trusted(self) -> ssl.SSLContext:
        """Give the certificates that count; they are read once, off the loop, because there are many."""
        return await asyncio.to_thread(self._read_trust) if self._trust is None else self._trust

    def _read_trust(self) -> ssl.SSLContext:
        with self._making_trust:
            if self._trust is None:
                self._trust = httpx.create_ssl_context()
            return self._trust


def api_calls(settings: Settings) -> ApiCalls:
    """Make what calls APIs as the settings of this process say."""
    return ApiCalls(settings.outbound_allow, settings.tool_env)
