"""The `webhooks` section of langgraph.json: where webhooks may go, and the headers they carry (W-09)."""

import os
import re
from collections.abc import Mapping

from pydantic import Field

from toolweave.config.sections import Section
from toolweave.errors import ConfigError

_TEMPLATE = re.compile(r"\$\{\{\s*env\.(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*\}\}")


class WebhookUrlRules(Section):
    """What a webhook URL must be like.

    `allowed_domains` holds hosts and `*.domain` patterns (subdomains only), `allowed_ports` ports; empty allows every
    public one. `disable_loopback` refuses bare paths, which go to the application itself.
    """

    require_https: bool = True
    allowed_domains: tuple[str, ...] = ()
    allowed_ports: tuple[int, ...] = ()
    max_url_length: int = Field(default=2048, gt=0)
    disable_loopback: bool = True


class WebhooksEntry(Section):
    """The `webhooks` section; `headers` may hold `${{ env.NAME }}`, for names that begin with `env_prefix`."""

    url: WebhookUrlRules = WebhookUrlRules()
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    env_prefix: str = Field(default="LG_WEBHOOK_", min_length=1)

    def filled_headers(self, environ: Mapping[str, str] | None = None) -> dict[str, str]:
        """Give the headers with the values of `environ` (default: the process's) filled in.

        Raises:
            ConfigError: a variable is not set or lacks the prefix; names header and variable, shows no value.
        """
        values = os.environ if environ is None else environ
        return {header: self._filled(header, text, values) for header, text in self.headers.items()}

    def _filled(self, header: str, text: str, values: Mapping[str, str]) -> str:
        def value(match: re.Match[str]) -> str:
            name = match["name"]
            if not name.startswith(self.env_prefix):
                fix = f"Rename the variable, or set webhooks.env_prefix (now {self.env_prefix!r})."
                raise ConfigError(f"webhooks.headers.{header} may not read {name!r}.", source="langgraph.json", fix=fix)
            if name not in values:
                raise ConfigError(
                    f"webhooks.headers.{header} needs {name!r}, which is not set.",
                    source="langgraph.json",
                    fix="Set the environment variable.",
                )
            return values[name]

        return _TEMPLATE.sub(value, text)
