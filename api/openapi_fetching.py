"""Fetch OpenAPI documents from URLs of users, under the outbound policy (W-09)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolweave.config.outbound_allow import AllowedTarget
from toolweave.errors import OutboundFailed
from toolweave.outbound import OutboundLimits, OutboundPolicy, OutboundRequest, open_outbound_client
from toolweave.servers.registry.openapi.document import MOST_BYTES

ACCEPT = "application/json, application/yaml;q=0.9, */*;q=0.5"


@dataclass(frozen=True)
class Fetched:
    """A document as it came, and the URL that it came from in the end."""

    document: bytes | str | Mapping[str, Any] = field(repr=False)
    url: str | None


async def fetch_document(url: str, allow: tuple[AllowedTarget, ...]) -> Fetched:
    """Fetch a document.

    Raises:
        OutboundRefused: the policy does not let a request go there.
        OutboundFailed: there is no usable answer, or none with status 200.
    """
    policy = OutboundPolicy(allow=allow, limits=OutboundLimits(response_bytes=MOST_BYTES))
    async with open_outbound_client(policy) as client:
        answer = await client.send(OutboundRequest("GET", url, (("Accept", ACCEPT),)))
    if answer.status != 200:
        raise OutboundFailed(f"The document's URL answers with status {answer.status}.", reason="transfer")
    return Fetched(answer.body, answer.url)
