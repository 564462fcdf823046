"""Headers of remote servers may depend on who calls; nothing else in mcp.jsonc may."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolweave.config.mcp import McpServerConfig, load_mcp_config
from toolweave.config.variables import CallerField, HeaderTemplate, parse_template
from toolweave.errors import ConfigError

Load = Callable[..., McpServerConfig]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load the one entry of an mcp.jsonc file, which begins on its second line."""

    def write_and_load(entry: str, **environ: str) -> McpServerConfig:
        file = tmp_path / "mcp.jsonc"
        file.write_text(f'{{"mcpServers": {{"github":\n{entry}\n}}}}', encoding="utf-8")
        (server,) = load_mcp_config(file, environ).servers
        return server

    return write_and_load


def remote(headers: str) -> str:
    return f'{{"url": "https://mcp.example/mcp", "headers": {headers}}}'


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("{user:token}", (CallerField("user", "token"),)),
        ("Bearer {user:github.token}!", ("Bearer ", CallerField("user", "github.token"), "!")),
        ("{configurable:x-tenant}", (CallerField("configurable", "x-tenant"),)),
        ("{user:token:-none}", (CallerField("user", "token", "none"),)),
        ("{user:token:-}", (CallerField("user", "token", ""),)),
        ("{user:token:-{env:SERVICE}}", (CallerField("user", "token", "s3rvice"),)),
        ("{user:token:-x${env:SERVICE}y}", (CallerField("user", "token", "xs3rvicey"),)),
        ("{env:SERVICE} {user:token}", ("s3rvice ", CallerField("user", "token"))),
    ],
)
def test_each_form_of_template_is_understood(text: str, parts: tuple[str | CallerField, ...]) -> None:
    assert parse_template(text, {"SERVICE": "s3rvice"}) == HeaderTemplate(parts)


@given(st.text(min_size=1).filter(lambda text: not set(text) & set("\r\n\0")))
def test_the_value_of_a_variable_is_never_read_as_a_template(value: str) -> None:
    text = "{env:A}{user:b:-{env:A}}"
    assert parse_template(text, {"A": value}) == HeaderTemplate((value, CallerField("user", "b", value)))
    assert parse_template("{env:A}", {"A": "{user:b}"}) is None


def test_headers_with_templates_are_separate_from_those_that_are_always_sent(load: Load) -> None:
    headers = '{"Authorization": "Bearer {user:token:-{env:SERVICE}}", "X-Team": "{env:TEAM}"}'
    server = load(remote(headers), SERVICE="s3rvice-token", TEAM="blue")
    assert server.misconfigured is None
    assert server.headers == {"X-Team": "blue"}
    field = CallerField("user", "token", "s3rvice-token")
    assert server.caller_headers == {"Authorization": HeaderTemplate(("Bearer ", field))}
    assert server.caller_headers["Authorization"].needs_caller is False
    assert "s3rvice-token" in server.secret_values
    assert "s3rvice-token" not in repr(server) + repr(server.caller_headers)


def test_a_default_without_its_variable_makes_the_server_misconfigured(load: Load) -> None:
    server = load(remote('{"Authorization": "{user:token:-{env:SERVICE}}"}'))
    assert server.misconfigured is not None
    assert "SERVICE is not set" in server.misconfigured


def test_a_variable_with_a_line_break_is_not_sent_inside_a_template(load: Load) -> None:
    server = load(remote('{"Authorization": "{user:token:-{env:SERVICE}}"}'), SERVICE="a\r\nX-Admin: yes")
    assert server.misconfigured == (
        "with its variables filled in, headers.Authorization must not contain a line break."
    )


@pytest.mark.parametrize(
    "text", ["{user:}", "{user:a..b}", "{user:a", "{configurable:x-tenant:default}", "{user:a:-{user:b}}"]
)
def test_a_malformed_template_is_refused_with_file_and_line(load: Load, text: str) -> None:
    with pytest.raises(ConfigError, match=r"mcp\.jsonc:2: server 'github': headers\.X contains a template") as caught:
        load(remote(f'{{"X": "{text}"}}'))
    assert "{user:field:-default}" in str(caught.value)


def test_a_default_that_holds_a_malformed_variable_is_refused(load: Load) -> None:
    with pytest.raises(ConfigError, match=r"\{env:NAME:-default}"):
        load(remote('{"X": "{user:a:-{env:MY-VAR}}"}'))


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        ('{"command": "x", "env": {"TOKEN": "{user:a}"}}', "env.TOKEN"),
        ('{"command": "x", "args": ["--for", "{configurable:a}"]}', r"args\[1\]"),
        ('{"command": "{user:a}"}', "command"),
        ('{"url": "https://h/{user:tenant}/mcp"}', "url"),
        ('{"url": "{env:URL}", "prefix": "p", "env": {"A": "{user:a:-b}"}}', "env.A"),
    ],
)
def test_a_template_anywhere_else_is_refused_by_name(load: Load, entry: str, path: str) -> None:
    with pytest.raises(ConfigError, match=rf"mcp\.jsonc:2: server 'github': {path} contains a caller template"):
        load(entry, URL="https://h/mcp")


def test_a_server_that_we_start_and_reach_by_url_may_have_templates(load: Load) -> None:
    headers = '"headers": {"X": "{user:a}"}'
    server = load(f'{{"type": "http", "command": "x", "url": "http://127.0.0.1:1/mcp", "spawn": true, {headers}}}')
    assert list(server.caller_headers) == ["X"]
