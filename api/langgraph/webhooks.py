"""Check and send webhooks: to other servers under the outbound policy, to own paths without a socket (W-09)."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
from starlette.types import ASGIApp

from toolweave import __version__
from toolweave.api.langgraph_client import StreamingAsgiTransport
from toolweave.config.langgraph_json import LangGraphJson, WebhookUrlRules
from toolweave.config.outbound_allow import parse_allowed_target
from toolweave.config.settings import Settings, decode_webhook_keys
from toolweave.errors import ConfigError, InvalidRequest, OutboundFailed, OutboundRefused
from toolweave.outbound import OutboundLimits, OutboundPolicy, OutboundRequest, check_request, open_outbound_client
from toolweave.outbound_policy import OutboundTarget, parse_target
from toolweave.runtime.persistence.webhooks import WebhookRepository
from toolweave.runtime.webhooks import SendWebhook, run_webhook_delivery

LIMITS = OutboundLimits(
    connect_timeout_s=5, total_timeout_s=15, max_request_bytes=100 * 1024 * 1024, max_response_bytes=0, max_redirects=0
)
LOOPBACK_RANGES = (parse_allowed_target("127.0.0.0/8"), parse_allowed_target("::1"))
LOOPBACK_DISABLED = (
    "Loopback webhooks (paths without a host) are disabled by default, because they call this server's own routes "
    "from inside. If everyone who may create runs may do that, set webhooks.url.disable_loopback to false in "
    "langgraph.json."
)
# Base URL for parsing paths; no request is sent there.
OWN_APP_URL = "http://127.0.0.1"


class WebhookRuleError(OutboundRefused):
    """A rule of langgraph.json does not allow this webhook URL."""


@dataclass(frozen=True, slots=True)
class WebhookRules:
    """The webhook rules of langgraph.json and the settings; `headers` are sent with every webhook."""

    rules: WebhookUrlRules
    policy: OutboundPolicy
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def from_config(cls, config: LangGraphJson, settings: Settings) -> "WebhookRules":
        """Build the rules; if they allow loopback paths, they also allow the loopback addresses.

        Raises:
            ConfigError: a header is invalid or needs a variable that is not set.
        """
        rules = config.webhooks.url
        allow = settings.outbound_allow if rules.disable_loopback else (*settings.outbound_allow, *LOOPBACK_RANGES)
        headers = _checked_headers(config.webhooks.resolved_headers())
        return cls(rules, OutboundPolicy(allow=allow, https_only=rules.require_https, limits=LIMITS), headers)

    async def check_url(self, url: str | None) -> None:
        """Check the webhook URL of a new run.

        Raises:
            InvalidRequest: the rules do not allow the URL, or its host name has no address.
        """
        if url is None:
            return
        try:
            if self.target_of(url) is not None:
                await self.policy.check_url(url)
        except WebhookRuleError as error:
            raise InvalidRequest(str(error)) from error
        except (OutboundRefused, OutboundFailed) as error:
            raise InvalidRequest(f"Webhook refused: {error}") from error

    def target_of(self, url: str) -> OutboundTarget | None:
        """Check the URL without DNS, and return its target, None for an own path. Raises OutboundRefused."""
        if len(url) > self.rules.max_url_length:
            raise WebhookRuleError(f"Webhook URL too long: it may have {self.rules.max_url_length} characters.")
        if url.startswith("/"):
            if self.rules.disable_loopback:
                raise WebhookRuleError(LOOPBACK_DISABLED)
            parse_target(OWN_APP_URL + url)
            return None
        if self.rules.require_https and not url.lower().startswith("https://"):
            raise WebhookRuleError("Webhook must use https")
        target = self.policy.check_without_dns(url)
        self._require_listed(target)
        return target

    def _require_listed(self, target: OutboundTarget) -> None:
        domains, ports = self.rules.allowed_domains, self.rules.allowed_ports
        if domains and not any(_matches(target.host, domain.lower()) for domain in domains):
            raise WebhookRuleError("Webhook host is not among webhooks.url.allowed_domains.")
        if ports and target.port not in ports:
            raise WebhookRuleError("Webhook port is not among webhooks.url.allowed_ports.")


def _checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    try:
        check_request(OutboundRequest("POST", OWN_APP_URL, tuple(headers.items())), 0)
    except OutboundRefused as error:
        raise ConfigError(f"webhooks.headers: {error}", source="langgraph.json", fix="Correct the header.") from error
    return {name.lower(): value for name, value in headers.items()}


def _matches(host: str, pattern: str) -> bool:
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern


@asynccontextmanager
async def sending_webhooks(
    app: ASGIApp, deliveries: WebhookRepository, rules: WebhookRules, config: LangGraphJson, settings: Settings
) -> AsyncIterator[None]:
    """Deliver webhooks until the block ends, as langgraph.json and the settings configure."""
    secret = settings.webhook_secret
    keys = () if secret is None else decode_webhook_keys(secret.get_secret_value())
    async with open_webhook_sender(app, rules, root=OWN_APP_URL + config.http.mount_prefix) as send:
        deliver = _discard if config.http.disable_webhooks else send
        async with run_webhook_delivery(deliveries, deliver, keys=keys):
            yield


@asynccontextmanager
async def open_webhook_sender(
    app: ASGIApp, rules: WebhookRules, *, root: str = OWN_APP_URL, trust: ssl.SSLContext | None = None
) -> AsyncIterator[SendWebhook]:
    """Yield a function that sends a webhook and returns the response status; `root` is the base URL of paths."""
    fixed_headers = {"content-type": "application/json", "user-agent": f"Toolweave/{__version__}", **rules.headers}
    transport = StreamingAsgiTransport(app)
    own_app = httpx.AsyncClient(transport=transport, timeout=httpx.Timeout(None), trust_env=False)
    async with own_app, open_outbound_client(rules.policy, trust=trust) as client:

        async def send(url: str, signature: dict[str, str], body: bytes) -> int:
            # Checked again: the rules may have changed since the run was created.
            target = rules.target_of(url)
            headers = {**fixed_headers, **signature}
            if target is None:
                return await _post_local(own_app, root + url, headers, body, rules.policy.limits.total_timeout_s)
            request = OutboundRequest("POST", url, tuple(headers.items()), body)
            return (await client.send(request, needs_body=False)).status

        yield send


async def _discard(_url: str, _headers: dict[str, str], _body: bytes) -> int:
    """Count a webhook as delivered without sending it: langgraph.json has disabled webhooks."""
    return 204


async def _post_local(client: httpx.AsyncClient, url: str, headers: dict[str, str], body: bytes, seconds: float) -> int:
    """Post to a path of this server; the request passes its access checks with `headers` as its only credentials."""
    try:
        async with asyncio.timeout(seconds):
            answer = await client.post(parse_target(url).url, headers=headers, content=body)
    except TimeoutError as error:
        raise OutboundFailed(f"The application did not answer within {seconds:g} s.", reason="timeout") from error
    except httpx.TransportError as error:
        raise OutboundFailed(f"The application closed the connection: {error}", reason="transfer") from error
    return answer.status_code
