"""The settings of outbound requests: what may be reached beside public addresses, and the keys that sign webhooks."""

import base64
from ipaddress import ip_network

import pytest

from toolweave.config.outbound_allow import AllowedTarget
from toolweave.config.settings import decode_webhook_keys, load_settings
from toolweave.errors import ConfigError

KEY = b"0123456789abcdef01234567"
SECRET = f"whsec_{base64.b64encode(KEY).decode()}"


@pytest.mark.parametrize(
    ("entry", "place", "port"),
    [
        ("hooks.internal", "hooks.internal", None),
        ("Hooks.Internal.:8443", "hooks.internal", 8443),
        ("localhost:80", "localhost", 80),
        ("10.0.0.0/8", ip_network("10.0.0.0/8"), None),
        ("10.1.2.3", ip_network("10.1.2.3/32"), None),
        ("fd00::1", ip_network("fd00::1/128"), None),
        ("[FD00::1]", ip_network("fd00::1/128"), None),
        ("[fd00::1]:81", ip_network("fd00::1/128"), 81),
    ],
)
def test_an_entry_is_a_host_an_address_or_a_network(entry: str, place: object, port: int | None) -> None:
    (target,) = load_settings({"TOOLWEAVE_OUTBOUND_ALLOW": entry}).outbound_allow
    assert (target.host, target.port) == (place, port)


def test_entries_are_separated_by_commas() -> None:
    allowed = load_settings({"TOOLWEAVE_OUTBOUND_ALLOW": " a.example , b.example:1,, "}).outbound_allow
    assert allowed == (AllowedTarget("a.example"), AllowedTarget("b.example", 1))
    assert load_settings({}).outbound_allow == ()


@pytest.mark.parametrize(
    "entry",
    [
        "http://a.example",
        "*",
        "a.example:65536",
        "a.example:",
        "user@a.example",
        "10.0.0.1/8",
        "10.0.0",
        "fe80::1%eth0",
        "[fe80::1%eth0]:80",
        "[a.example]",
        "fd00::1:99999999",
        "bücher.example",
        ":80",
    ],
)
def test_another_entry_is_an_error_that_does_not_repeat_it(entry: str) -> None:
    with pytest.raises(ConfigError, match="TOOLWEAVE_OUTBOUND_ALLOW each entry must be a host, host:port") as raised:
        load_settings({"TOOLWEAVE_OUTBOUND_ALLOW": f"ok.example,{entry}"})
    assert "ok.example" not in str(raised.value)


def test_keys_are_read_in_the_standard_form_and_never_shown() -> None:
    settings = load_settings({"TOOLWEAVE_WEBHOOK_SECRET": f"{SECRET} {SECRET}"})
    assert settings.webhook_secret is not None
    assert decode_webhook_keys(settings.webhook_secret.get_secret_value()) == (KEY, KEY)
    assert SECRET not in repr(settings)


@pytest.mark.parametrize(
    "secret", ["secret", "whsec_!!", f"whsec_{'A' * 28}", f"whsec_{'A' * 100}", f"{SECRET} other", SECRET[6:]]
)
def test_a_key_of_another_form_is_an_error_that_does_not_repeat_it(secret: str) -> None:
    with pytest.raises(ConfigError, match="TOOLWEAVE_WEBHOOK_SECRET must be whsec_") as raised:
        load_settings({"TOOLWEAVE_WEBHOOK_SECRET": secret})
    assert secret not in str(raised.value)
