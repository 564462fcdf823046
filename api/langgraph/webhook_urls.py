"""Say which webhook URLs are taken: the rules of langgraph.json and the outbound policy (langgraph_api.md 5.11)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolweave.config.langgraph_json import LangGraphJson, WebhookUrlRules
from toolweave.config.outbound_allow import allowed_target
from toolweave.config.settings import Settings
from toolweave.errors import ConfigError, InvalidRequest, OutboundFailed, OutboundRefused
from toolweave.outbound import OutboundLimits, OutboundPolicy, OutboundRequest
from toolweave.outbound_messages import require_sendable
from toolweave.outbound_urls import OutboundTarget, read_target

LIMITS = OutboundLimits(
    connect_seconds=5, total_seconds=15, request_bytes=100 * 1024 * 1024, response_bytes=0, redirects=0
)
LOOPBACK = (allowed_target("127.0.0.0/8"), allowed_target("::1"))
NO_LOOPBACK = (
    "Loopback webhooks (paths without a host) are disabled by default: they reach this server's own routes, from "
    "inside. Where everyone who may create runs may do that, set webhooks.url.disable_loopback to false in "
    "langgraph.json."
)
# What a path is appended to when it is read; no request goes there.
OWN_APP = "http://127.0.0.1"


class RuleBrokenError(OutboundRefused):
    """A rule of langgraph.json does not let a webhook go to its URL."""


@dataclass(frozen=True, slots=True)
class WebhookRules:
    """The rules of one langgraph.json and its server's settings; `headers` go with every webhook."""

    rules: WebhookUrlRules
    policy: OutboundPolicy
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, config: LangGraphJson, settings: Settings) -> "WebhookRules":
        """Take the operator's rules; who allows loopback paths allows this machine's addresses as well.

        Raises:
            ConfigError: a header cannot be sent, or needs a variable that is not set.
        """
        rules = config.webhooks.url
        allow = settings.outbound_allow if rules.disable_loopback else (*settings.outbound_allow, *LOOPBACK)
        headers = _sendable(config.webhooks.filled_headers())
        return cls(rules, OutboundPolicy(allow=allow, https_only=rules.require_https, limits=LIMITS), headers)

    async def require(self, url: str | None) -> None:
        """Check the webhook of a run that is about to be created.

        Raises:
            InvalidRequest: it may not be delivered there, or the host's name has no address now.
        """
        if url is None:
            return
        try:
            if self.target_of(url) is None:
                return
            await self.policy.check(url)
        except RuleBrokenError as error:
            raise InvalidRequest(str(error)) from error
        except (OutboundRefused, OutboundFailed) as error:
            raise InvalidRequest(f"Webhook refused: {error}") from error

    def target_of(self, url: str) -> OutboundTarget | None:
        """Check what can be seen in the URL; None stands for a path of our own. Raises OutboundRefused."""
        if len(url) > self.rules.max_url_length:
            raise RuleBrokenError(f"Webhook URL too long: it may have {self.rules.max_url_length} characters.")
        if url.startswith("/"):
            if self.rules.disable_loopback:
                raise RuleBrokenError(NO_LOOPBACK)
            read_target(OWN_APP + url)
            return None
        if self.rules.require_https and not url.lower().startswith("https://"):
            raise RuleBrokenError("Webhook must use https")
        target = self.policy.check_written(url)
        self._require_listed(target)
        return target

    def _require_listed(self, target: OutboundTarget) -> None:
        domains, ports = self.rules.allowed_domains, self.rules.allowed_ports
        if domains and not any(_matches(target.host, domain.lower()) for domain in domains):
            raise RuleBrokenError("Webhook host is not among webhooks.url.allowed_domains.")
        if ports and target.port not in ports:
            raise RuleBrokenError("Webhook port is not among webhooks.url.allowed_ports.")


def _sendable(headers: Mapping[str, str]) -> dict[str, str]:
    try:
        require_sendable(OutboundRequest("POST", OWN_APP, tuple(headers.items())), 0)
    except OutboundRefused as error:
        raise ConfigError(f"webhooks.headers: {error}", source="langgraph.json", fix="Correct the header.") from error
    return {name.lower(): value for name, value in headers.items()}


def _matches(host: str, pattern: str) -> bool:
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern
