"""Which webhook URLs are taken: the rules of langgraph.json on top of the outbound policy."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.outbound.peers import Names
from toolweave.api.langgraph.webhooks import WebhookRules
from toolweave.config.langgraph_json import WebhookUrlRules, load_langgraph_json
from toolweave.config.outbound_allow import allowed_targets
from toolweave.config.settings import Settings
from toolweave.errors import ConfigError, InvalidRequest
from toolweave.outbound import OutboundPolicy

pytestmark = pytest.mark.requirement("W-09")

NAMES = Names(
    hooks_example=[["93.184.216.34"]],
    a_hooks_example=[["93.184.216.34"]],
    hooks_example_evil_example=[["93.184.216.34"]],
    inside_example=[["10.0.0.1"]],
)


def rules(allow: str = "", **fields: Any) -> WebhookRules:
    chosen = WebhookUrlRules(**fields)
    policy = OutboundPolicy(allow=allowed_targets(allow), https_only=chosen.require_https, resolver=NAMES)
    return WebhookRules(chosen, policy)


@pytest.mark.parametrize(
    ("fields", "url", "complaint"),
    [
        ({}, "https://hooks.example/x", None),
        ({}, "http://hooks.example/x", "^Webhook must use https$"),
        ({}, "/hook", "^Loopback webhooks .* are disabled by default"),
        ({}, "https://inside.example/", "stands for a private address"),
        ({"allow": "inside.example"}, "https://inside.example/", None),
        ({"require_https": False}, "http://hooks.example/x", None),
        ({"require_https": False}, "hook", "begin with http"),
        ({"disable_loopback": False}, "/hook", None),
        ({"disable_loopback": False}, "//hooks.example/x", None),
        ({"disable_loopback": False}, "/ho ok", "blank"),
        ({"max_url_length": 24}, "https://hooks.example/xy", None),
        ({"max_url_length": 24}, "https://hooks.example/xyz", "Webhook URL too long"),
        ({"max_url_length": 4, "disable_loopback": False}, "/hook", "Webhook URL too long"),
        ({"allowed_domains": ("hooks.example",)}, "https://HOOKS.example./x", None),
        ({"allowed_domains": ("Hooks.Example",)}, "https://hooks.example/x", None),
        ({"allowed_domains": ("hooks.example",)}, "https://a.hooks.example/x", "allowed_domains"),
        ({"allowed_domains": ("hooks.example",)}, "https://hooks.example.evil.example/", "allowed_domains"),
        ({"allowed_domains": ("*.hooks.example",)}, "https://a.hooks.example/x", None),
        ({"allowed_domains": ("*.hooks.example",)}, "https://hooks.example/x", "allowed_domains"),
        ({"allowed_domains": ("*.hooks.example",)}, "https://evilhooks.example/x", "allowed_domains"),
        ({"allowed_domains": ("inside.example",)}, "https://inside.example/x", "a private address"),
        ({"allowed_domains": ("hooks.example",)}, "https://93.184.216.34/", "allowed_domains"),
        ({"allowed_ports": (8443,)}, "https://hooks.example:8443/x", None),
        ({"allowed_ports": (443,)}, "https://hooks.example/x", None),
        ({"allowed_ports": (8443,)}, "https://hooks.example/x", "allowed_ports"),
        ({"allowed_ports": (443,), "disable_loopback": False}, "/hook", None),
    ],
)
async def test_a_webhook_is_accepted_when_every_rule_allows_it(
    fields: dict[str, Any], url: str, complaint: str | None
) -> None:
    if complaint is None:
        await rules(**fields).check_url(url)
        return
    with pytest.raises(InvalidRequest, match=complaint):
        await rules(**fields).check_url(url)


def configured(tmp_path: Path, webhooks: dict[str, Any], **settings: Any) -> WebhookRules:
    """Read the rules as a server does that has this `webhooks` section."""
    file = tmp_path / "langgraph.json"
    file.write_text(json.dumps({"graphs": {"g": "a.b:c"}, "webhooks": webhooks}), encoding="utf-8")
    return WebhookRules.from_config(load_langgraph_json(file), Settings(**settings))


async def test_without_a_section_nothing_of_this_machine_or_network_is_reached(tmp_path: Path) -> None:
    chosen = configured(tmp_path, {})
    for url in ("/hook", "https://localhost/", "https://127.0.0.1/", "https://[::1]/", "https://10.0.0.1/"):
        with pytest.raises(InvalidRequest):
            await chosen.check_url(url)
    await chosen.check_url("https://93.184.216.34/")


async def test_loopback_paths_allow_loopback_addresses_and_no_others(tmp_path: Path) -> None:
    chosen = configured(tmp_path, {"url": {"disable_loopback": False}})
    for url in ("/hook", "https://localhost/", "https://127.0.0.1/", "https://[::1]/"):
        await chosen.check_url(url)
    for url in ("https://10.0.0.1/", "https://[::ffff:127.0.0.1]/", "http://127.0.0.1/"):
        with pytest.raises(InvalidRequest):
            await chosen.check_url(url)


async def test_the_operators_setting_allows_what_it_names(tmp_path: Path) -> None:
    chosen = configured(tmp_path, {}, outbound_allow="10.0.0.0/8")
    await chosen.check_url("https://10.0.0.1/")
    with pytest.raises(InvalidRequest):
        await chosen.check_url("https://127.0.0.1/")


@pytest.mark.parametrize("headers", [{"x": "a\r\nb: c"}, {"a b": "c"}, {"Host": "x"}, {"content-length": "1"}])
def test_a_header_that_cannot_be_sent_is_a_wrong_configuration(tmp_path: Path, headers: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"webhooks\.headers"):
        configured(tmp_path, {"headers": headers})


def test_headers_are_not_shown(tmp_path: Path) -> None:
    chosen = configured(tmp_path, {"headers": {"X-Key": "a secret"}})
    assert chosen.headers == {"x-key": "a secret"}
    assert "a secret" not in repr(chosen)
