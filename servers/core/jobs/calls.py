"""Send one request to a job service, and say in words what came of it where that is no job (C-04, W-09)."""

import asyncio
import json
import ssl
import time
from base64 import b64decode
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import httpx

from toolweave.config.outbound_allow import AllowedTarget
from toolweave.errors import OutboundFailed, OutboundRefused
from toolweave.outbound import OutboundLimits, OutboundPolicy, OutboundRequest, OutboundResponse, open_outbound_client
from toolweave.outbound_policy import Resolver, resolve
from toolweave.servers.core.jobs.answers import Job, NoJob, known_job, read_object, said_by, started_job, without
from toolweave.servers.core.jobs.endpoints import CalledEndpoint
from toolweave.servers.core.jobs.failures import Asked, broken, no_job, refused, status_failure
from toolweave.servers.error_codes import INVALID_PARAMETER, ToolFailed

# Reads an answer's object as a job, or raises NoJob.
Reading = Callable[[dict[str, Any]], Job]

MOST_SENT_BYTES = 1_000_000
# A shorter one could be a part of any word.
SHORTEST_SECRET = 4
# Less than an answer of ours may have, so that no job is lost in one that is too large.
MOST_READ_BYTES = 500_000


@dataclass(frozen=True, slots=True)
class JobCalls:
    """Make requests under the outbound policy, each to its endpoint's own host, following no redirect.

    `resolver` looks names up; `trust` says which certificates count, by default those that other clients here trust.
    """

    allow: Sequence[AllowedTarget]
    timeout_s: float
    resolver: Resolver = resolve
    trust: ssl.SSLContext | None = None

    async def post(self, endpoint: CalledEndpoint, params: dict[str, Any], key: str | None) -> Job:
        """Start a job; sent once, whatever happens. `key` goes along as the header Idempotency-Key.

        Raises:
            ToolFailed: the service cannot be reached or answered with no job; says whether a job may have begun.
        """
        try:
            content = json.dumps(params, allow_nan=False, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            raise ToolFailed(INVALID_PARAMETER, "Parameter 'params' must be plain JSON, with finite numbers.") from None
        if len(content) > MOST_SENT_BYTES:
            raise ToolFailed(INVALID_PARAMETER, f"Parameter 'params' must be at most {MOST_SENT_BYTES} bytes as JSON.")
        headers = [("Content-Type", "application/json"), *([("Idempotency-Key", key)] if key else [])]
        request = OutboundRequest("POST", endpoint.url, tuple(headers), content)
        return await self._exchange(endpoint, request, self.timeout_s, started_job)

    async def get(self, endpoint: CalledEndpoint, job_id: str, *, within_s: float) -> Job:
        """Ask about a job.

        Raises:
            ToolFailed: the service cannot be reached, does not know the job, or answered with no job.
        """
        request = OutboundRequest("GET", endpoint.job_url(job_id))
        return await self._exchange(endpoint, request, within_s, partial(known_job, job_id))

    async def _exchange(
        self, endpoint: CalledEndpoint, request: OutboundRequest, within_s: float, read: Reading
    ) -> Job:
        own = [(name, value.get_secret_value()) for name, value in endpoint.headers]
        asked = Asked(request.method, endpoint.shown, time.perf_counter())
        try:
            with_headers = replace(request, headers=(("Accept", "application/json"), *request.headers, *own))
            answer = await self._send(with_headers, endpoint, within_s)
        except OutboundRefused as error:
            raise refused(asked, error) from None
        except OutboundFailed as error:
            raise broken(asked, error, within_s) from None
        secrets = _echoes(own)
        if answer.redirects or answer.status >= 400:
            raise status_failure(asked, answer.status, said_by(answer.body, secrets))
        try:
            return read(without(secrets, read_object(answer.body)))
        except NoJob as error:
            raise no_job(asked, str(error)) from None

    async def _send(self, request: OutboundRequest, endpoint: CalledEndpoint, within_s: float) -> OutboundResponse:
        limits = OutboundLimits(
            connect_seconds=within_s, total_seconds=within_s, response_bytes=MOST_READ_BYTES, redirects=0
        )
        policy = OutboundPolicy(allow=tuple(self.allow), only=(endpoint.only,), limits=limits, resolver=self.resolver)
        async with open_outbound_client(policy, trust=await self._trusted(endpoint)) as client:
            return await client.send(request)

    async def _trusted(self, endpoint: CalledEndpoint) -> ssl.SSLContext:
        if endpoint.target.scheme == "http":
            # No certificate satisfies this one, and making it takes no time.
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return await asyncio.to_thread(httpx.create_ssl_context) if self.trust is None else self.trust


def _echoes(headers: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """List what would tell a secret: a value, what is in it behind a word such as Bearer, a name with its password."""
    found = []
    for _, value in headers:
        scheme, _, rest = value.rpartition(" ")
        found += [value, rest]
        with suppress(ValueError):  # it is no base64
            pair = b64decode(f"{rest}==").decode() if scheme.strip().lower() == "basic" else ""
            found += [pair, pair.partition(":")[2]]
    return tuple(secret for secret in found if len(secret) >= SHORTEST_SECRET)
