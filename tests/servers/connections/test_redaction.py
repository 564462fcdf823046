import json
from pathlib import Path
from urllib.parse import quote

import pytest
from mcp.types import JSONRPCMessage
from pydantic import ValidationError

from toolweave.config.mcp import McpServerConfig, load_mcp_config
from toolweave.config.mcp_entry import OAuth
from toolweave.config.settings import Settings
from toolweave.servers.connections.redaction import MAX_ADDED_SECRETS, MAX_LINE_CHARS, Redaction, describe_error

SERVER = McpServerConfig(
    name="s",
    transport="http",
    url="https://user:pass-word@host/mcp?token=query-secret",
    headers={"Authorization": "Bearer header-secret"},
    env={"KEY": "env-secret", "FLAG": "1"},
)


def test_configured_values_do_not_appear() -> None:
    signed = McpServerConfig(name="s", transport="http", url="http://h/", auth=OAuth(client_secret="client-secret-1"))
    assert Redaction(signed).sanitize("refused client-secret-1") == "refused ***"
    text = Redaction(SERVER).sanitize("env-secret header-secret pass-word ?token=query-secret flag 1")
    assert text == "*** *** *** ?*** flag 1"
    assert "secret" not in repr(SERVER) + repr(signed)


def test_the_password_of_the_one_database_does_not_appear() -> None:
    url = "postgresql://user:pass%2Fword@host/all"
    core = McpServerConfig(name="core", transport="stdio", settings=Settings(database_url=url))
    todo = McpServerConfig(name="todo", transport="stdio", env={"TOOLWEAVE_TODO_DATABASE_URL": url})
    for server in (core, todo):
        assert Redaction(server).sanitize("refused pass%2Fword and pass/word") == "refused *** and ***"


@pytest.mark.requirement("A-06")
@pytest.mark.parametrize(
    "entry",
    [
        '"command": "run", "args": ["--key={env:TOKEN}"]',
        '"command": "/opt/${env:TOKEN}/run"',
        '"command": "run", "cwd": "{env:TOKEN:-here}"',
        '"url": "http://127.0.0.1:9/{env:TOKEN}/mcp"',
    ],
)
def test_a_variable_does_not_appear_whichever_key_contains_it(tmp_path: Path, entry: str) -> None:
    file = tmp_path / "mcp.jsonc"
    file.write_text(f'{{"mcpServers": {{"s": {{{entry}}}}}}}', encoding="utf-8")
    [server] = load_mcp_config(file, {"TOKEN": "token-secret", "OTHER": "other-text"}).servers
    assert Redaction(server).sanitize("token-secret other-text") == "*** other-text"
    assert "token-secret" not in repr(server)


def test_a_variable_that_names_a_folder_stays_readable_and_other_variables_do_not(tmp_path: Path) -> None:
    absent, secret, long = tmp_path / "absent" / "folder", "/x1Bmore+of/it+Fw==", "ey" * 2_000
    server = McpServerConfig(name="s", transport="stdio", secret_values=(str(tmp_path), str(absent), secret, long))
    assert Redaction(server).sanitize(f"{tmp_path}/x was not found") == f"{tmp_path}/x was not found"
    assert Redaction(server).sanitize(f"cannot read {absent}") == f"cannot read {absent}"
    assert Redaction(server).sanitize(f"refused {secret} and {long}") == "refused *** and ***"


def test_a_message_of_the_wrong_form_is_described_without_quoting_it() -> None:
    with pytest.raises(ValidationError) as raised:
        JSONRPCMessage.model_validate({"jsonrpc": "2.0", "token": "token-secret"})
    assert describe_error(raised.value) == "it is not a valid JSONRPCMessage"


def test_an_added_secret_is_hidden_in_each_encoding() -> None:
    redaction = Redaction(SERVER)
    secret = 'tök"en/1234'
    assert secret in redaction.hide_secrets(f"a {secret}")
    redaction.add(secret)
    in_json, in_ascii, in_url = json.dumps(secret, ensure_ascii=False), json.dumps(secret), quote(secret, safe="")
    assert redaction.hide_secrets(f"{secret} {in_json} {in_ascii} {in_url}") == '*** "***" "***" ***'
    assert redaction.redact({"note": f"with {secret}", secret: 1}) == {"note": "with ***", "***": 1}


def test_only_the_newest_added_secrets_are_hidden_and_none_that_is_too_short() -> None:
    redaction = Redaction(SERVER)
    redaction.add("abc")
    for number in range(MAX_ADDED_SECRETS + 1):
        redaction.add(f"learned-{number:04}")
        redaction.add("used-all-the-time")
    assert redaction.hide_secrets("abc learned-0000 learned-0200 used-all-the-time") == "abc learned-0000 *** ***"
    assert redaction.hide_secrets("env-secret") == "***"


def test_a_text_for_the_log_is_one_short_line_without_anything_of_the_form_of_a_secret() -> None:
    redaction = Redaction(SERVER)
    line = redaction.sanitize("refused: Bearer abcdef123456 at https://ann:pw@h/")
    assert line == "refused: Bearer *** at https://***@h/"
    assert redaction.sanitize("a\n\x1b[1m\tb\x00") == "a [1m b"
    assert len(redaction.sanitize("x" * 20_000_000)) == MAX_LINE_CHARS + 1


KEY = "k3y-of-the-operator"
KEYED = McpServerConfig(
    name="s",
    transport="http",
    url="https://ann:pass%2Fword-of-ann@host/mcp?api_key=query-credential&region=europe-west-4",
    headers={"Authorization": "Bearer header-credential", "X-Tenant": "the-whole-company"},
    env={"SEARCH_KEY": KEY, "MODE": "production-mode", "DATABASE_URL": "postgresql://u:database-pw-1@db/x"},
    secret_values=("a-tenant-of-many-words", "drawn-by-lot-7f3a9c21"),
)


def test_a_response_loses_credentials_and_no_other_configured_value() -> None:
    redaction = Redaction(KEYED)
    redaction.add("learned-token")
    credentials = [KEY, "header-credential", "query-credential", "pass%2Fword-of-ann", "pass/word-of-ann"]
    credentials += ["database-pw-1", "learned-token", "drawn-by-lot-7f3a9c21"]
    for credential in credentials:
        hidden = redaction.redact_credentials({f"a {credential}": [credential, 1, None]})
        assert hidden == {"a ***": ["***", 1, None]}, credential
    plain = "the-whole-company production-mode europe-west-4 a-tenant-of-many-words"
    assert redaction.redact_credentials(plain) == plain
