"""The key `auth` of a server's entry (A-06)."""

from collections.abc import Callable
from pathlib import Path

import pytest

from toolweave.config.mcp import McpConfig, load_mcp_config
from toolweave.config.mcp_entry import OAuth
from toolweave.errors import ConfigError

Load = Callable[..., McpConfig]
SECRET = "s3cr3t-9f8e7d"


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Write one entry and load it with the given variables."""

    def write_and_load(entry: str, **environ: str) -> McpConfig:
        file = tmp_path / "mcp.jsonc"
        file.write_text(f'{{"mcpServers": {{"a": {{{entry}}}}}}}', encoding="utf-8")
        return load_mcp_config(file, environ)

    return write_and_load


def test_every_key_of_auth_reaches_the_configuration_with_its_variables_filled_in(load: Load) -> None:
    config = load(
        """url: "https://h/mcp", auth: {grant: "client_credentials", client_id: "{env:ID}", client_secret: "{env:KEY}",
        scope: "tools read", issuer: "https://login.h/{env:TENANT}", redirect_port: 8765}""",
        ID="me",
        KEY=SECRET,
        TENANT="t1",
    )
    (server,) = config.servers
    assert server.auth == OAuth(
        grant="client_credentials",
        client_id="me",
        client_secret=SECRET,
        scope="tools read",
        issuer="https://login.h/t1",
        redirect_port=8765,
    )
    assert server.misconfigured is None
    assert config.warnings == ()
    assert SECRET not in repr(config)


@pytest.mark.parametrize("auth", ['"oauth"', "{}", '{type: "oauth"}', '{grant: "authorization_code"}'])
def test_auth_without_a_grant_means_sign_in_by_a_user(load: Load, auth: str) -> None:
    (server,) = load(f'url: "https://h/mcp", auth: {auth}').servers
    assert server.auth == OAuth(grant="authorization_code")


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ('command: "x", auth: "oauth"', "auth does not go with the transport stdio"),
        ('url: "https://h/", auth: "some-token"', "auth must be 'oauth' or an object"),
        ('url: "https://h/", auth: {grant: "password"}', "auth.grant must be 'authorization_code' or"),
        ('url: "https://h/", auth: {client_id: ""}', "auth.client_id must not be empty"),
        ('url: "https://h/", auth: {grant: "client_credentials"}', "auth needs client_id and client_secret"),
        ('url: "https://h/", auth: {client_secret: "x"}', "auth.client_secret does not go without client_id"),
        ('url: "https://h/", headers: {authorization: "x"}, auth: "oauth"', "headers.authorization does not go"),
        ('url: "http://h/mcp", auth: "oauth"', "url must be https:// for a server with auth"),
        ('url: "https://h/", auth: {issuer: "http://h"}', "auth.issuer must be an https:// URL"),
        ('url: "https://h/", auth: {redirect_port: 0}', "auth.redirect_port must be at least 1"),
    ],
)
def test_a_wrong_value_of_auth_is_refused_by_name(load: Load, entry: str, problem: str) -> None:
    with pytest.raises(ConfigError, match="server 'a'") as refused:
        load(entry)
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ('url: "https://h/", auth: "{env:VALUE}"', "a-token"),
        ('url: "{env:VALUE}", auth: "oauth"', "http://h/mcp"),
        ('url: "https://h/", auth: {redirect_port: "{env:VALUE}"}', "many"),
    ],
)
def test_values_of_auth_from_variables_are_checked(load: Load, entry: str, value: str) -> None:
    (server,) = load(entry, VALUE=value).servers
    assert server.misconfigured
    assert value not in server.misconfigured


def test_a_server_on_this_machine_needs_no_https(load: Load) -> None:
    (server,) = load('url: "http://127.0.0.1:8000/mcp", auth: {issuer: "http://localhost:9000"}').servers
    assert server.auth == OAuth(issuer="http://localhost:9000")


def test_an_unknown_key_of_auth_is_ignored_with_a_warning(load: Load) -> None:
    config = load('url: "https://h/", auth: {clientid: "x"}')
    (warning,) = config.warnings
    assert "auth: unknown key 'clientid' is ignored (did you mean 'client_id'?)" in warning
