"""Send webhooks: to other servers under the outbound policy, to a path of our own without a socket (W-09)."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from toolweave import __version__
from toolweave.api.in_process import AsgiApp, StreamingAsgiTransport
from toolweave.api.langgraph.webhook_urls import OWN_APP, WebhookRules
from toolweave.config.langgraph_json import LangGraphJson
from toolweave.config.settings import Settings, webhook_keys
from toolweave.errors import OutboundFailed
from toolweave.outbound import OutboundClient, OutboundRequest, open_outbound_client
from toolweave.outbound_urls import read_target
from toolweave.runtime.persistence.webhooks import WebhookRepository
from toolweave.runtime.webhooks import Send, delivering_webhooks


@asynccontextmanager
async def sending_webhooks(
    app: AsgiApp, deliveries: WebhookRepository, rules: WebhookRules, config: LangGraphJson, settings: Settings
) -> AsyncIterator[None]:
    """Deliver webhooks while the block runs, as langgraph.json and the settings say."""
    secret = settings.webhook_secret
    keys = () if secret is None else webhook_keys(secret.get_secret_value())
    async with open_webhook_sender(app, rules, root=OWN_APP + config.http.mount_prefix) as send:
        chosen = _discard if config.http.disable_webhooks else send
        async with delivering_webhooks(deliveries, chosen, keys=keys):
            yield


@asynccontextmanager
async def open_webhook_sender(
    app: AsgiApp, rules: WebhookRules, *, root: str = OWN_APP, trust: ssl.SSLContext | None = None
) -> AsyncIterator[Send]:
    """Open what sends a webhook's body and gives the status of the answer; paths begin at `root`."""
    fixed = {"content-type": "application/json", "user-agent": f"Toolweave/{__version__}", **rules.headers}
    transport = StreamingAsgiTransport(app)
    own_app = httpx.AsyncClient(transport=transport, timeout=httpx.Timeout(None), trust_env=False)
    async with own_app, open_outbound_client(rules.policy, trust=trust) as client:

        async def send(url: str, signature: dict[str, str], body: bytes) -> int:
            # The rules may have changed since the run was created.
            target = rules.target_of(url)
            every = {**fixed, **signature}
            if target is None:
                return await _to_own_app(own_app, root + url, every, body, rules.policy.limits.total_seconds)
            return await _to_other_server(client, url, every, body)

        yield send


async def _discard(_url: str, _headers: dict[str, str], _body: bytes) -> int:
    """Take every webhook for heard: langgraph.json has switched them off."""
    return 204


async def _to_other_server(client: OutboundClient, url: str, headers: dict[str, str], body: bytes) -> int:
    answer = await client.send(OutboundRequest("POST", url, tuple(headers.items()), body), body_wanted=False)
    return answer.status


async def _to_own_app(client: httpx.AsyncClient, url: str, headers: dict[str, str], body: bytes, seconds: float) -> int:
    """Post to a path of this server; the request passes its guards, and brings no credentials but `headers`."""
    try:
        async with asyncio.timeout(seconds):
            answer = await client.post(read_target(url).url, headers=headers, content=body)
    except TimeoutError as error:
        raise OutboundFailed(f"The application did not answer within {seconds:g} s.", reason="timeout") from error
    except httpx.TransportError as error:
        raise OutboundFailed(f"The application broke off: {error}", reason="transfer") from error
    return answer.status_code
