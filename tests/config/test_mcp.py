"""The keys of mcp.jsonc, and the errors of a wrong file."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from toolweave.config.mcp import McpConfig, McpServerConfig, load_mcp_config, read_servers
from toolweave.errors import ConfigError, MissingVariable

Load = Callable[..., McpConfig]

pytestmark = pytest.mark.requirement("A-06")


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Write a text as mcp.jsonc and load it with the given variables."""

    def write_and_load(text: str, *, strict: bool = False, **environ: str) -> McpConfig:
        file = tmp_path / "mcp.jsonc"
        file.write_text(text, encoding="utf-8")
        return load_mcp_config(file, environ, strict=strict)

    return write_and_load


def only(config: McpConfig) -> McpServerConfig:
    (server,) = config.servers
    return server


def test_every_key_of_an_entry_reaches_the_configuration(load: Load, tmp_path: Path) -> None:
    config = load(
        """{ "mcpServers": { "git": {
            "type": "stdio", "command": "uvx", "args": ["mcp-server-git", "{env:REPO}"], "env": {"PORT": 8080},
            "cwd": "/srv", "enabled": true, "tools": {"include": ["git_*"], "exclude": ["git_push"]},
            "prefix": "g_", "timeout_s": 60, "max_concurrency": 4, "approve": ["git_commit"], "elicit": true } } }""",
        REPO="/repo",
    )
    assert config.warnings == ()
    assert config.path == tmp_path / "mcp.jsonc"
    assert only(config) == McpServerConfig(
        name="git",
        transport="stdio",
        command="uvx",
        args=("mcp-server-git", "/repo"),
        env={"PORT": "8080"},
        cwd="/srv",
        include=("git_*",),
        exclude=("git_push",),
        prefix="g_",
        timeout_s=60.0,
        max_concurrency=4,
        approve=("git_commit",),
        elicit=True,
    )


def test_keys_that_are_left_out_have_the_documented_defaults(load: Load) -> None:
    server = only(load('{servers: {a: {url: "https://mcp.example/mcp"}}}'))
    assert server == McpServerConfig(name="a", transport="http", url="https://mcp.example/mcp")
    assert (server.timeout_s, server.prefix, server.enabled, server.misconfigured) == (5.0, None, True, None)


@pytest.mark.parametrize(
    ("entry", "transport"),
    [
        ('command: "x"', "stdio"),
        ('url: "http://h/mcp"', "http"),
        ('url: "http://h/sse"', "sse"),
        ('url: "http://h/sse/?key=1"', "sse"),
        ('url: "http://h/sse", type: "http"', "http"),
        ('url: "http://h/mcp", transport: "streamable_http"', "http"),
        ('url: "http://h/mcp", type: "streamable-http"', "http"),
        ('url: "http://h/mcp", type: "sse", transport: "sse"', "sse"),
        ('url: "{env:SSE_URL}"', "sse"),
    ],
)
def test_the_transport_is_named_or_inferred(load: Load, entry: str, transport: str) -> None:
    assert only(load(f"{{servers: {{a: {{{entry}}}}}}}", SSE_URL="http://h/sse")).transport == transport


def test_servers_keep_the_order_of_the_file_which_may_have_none(load: Load) -> None:
    config = load('{servers: {z: {command: "x"}, a: {command: "x"}, m: {command: "x"}}}')
    assert [server.name for server in config.servers] == ["z", "a", "m"]
    assert load('{"mcpServers": {}}').servers == ()


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("[]", 1, "must be an object"),
        ("\n{}", 2, "has neither mcpServers nor servers"),
        (
            "\n{command: 'x'}",
            2,
            'neither mcpServers nor servers. Keep the servers under one key: {"mcpServers": {"name"',
        ),
        ('{servers: {},\n"mcpServers": {}}', 1, "has both mcpServers and servers"),
        ("{\nservers: []}", 2, "servers must be an object"),
        ("{servers: {\n'a/b': {command: 'x'}}}", 2, "'a/b' is not a name for a server"),
        ("{servers: {\n'a\\n': {command: 'x'}}}", 2, "is not a name for a server"),
        ("{servers: {\na: {}}}", 2, "server 'a' needs a command (a program to start) or a url"),
        ("{servers: {a: {\ncommand: ''}}}", 2, "server 'a': command must not be empty"),
        ("{servers: {a: {command: 'x',\nargs: '-y'}}}", 2, "server 'a': args must be a list"),
        ("{servers: {a: {command: 'x', env: {\nA: null}}}}", 2, "server 'a': env.A must be a string"),
        ("{servers: {a: {command: 'x', env: {\n'A=B': '1'}}}}", 2, "env.A=B is not a name for an environment variable"),
        ("{servers: {a: {command: 'x',\nargs: ['\\0']}}}", 2, "args[0] must not contain a NUL character"),
        ("{servers: {a: {command: 'x',\nargs: ['\\ud800']}}}", 2, "args[0] must be valid Unicode text"),
        *(
            (f"{{servers: {{a: {{command: 'x',\nargs: ['{text}']}}}}}}", 2, "args[0] contains a reference that is not")
            for text in ("{env:MY-VAR}", "{env:A", "{env:}", "{env:A:b}", "${env:A:-{env:B}}", "${input:a")
        ),
        ("{servers: {a: {command: 'x',\ntype: 'pipe'}}}", 2, "type must be 'stdio', 'http', 'streamable_http'"),
        ("{servers: {a: {command: 'x',\ntimeout_s: 0}}}", 2, "timeout_s must be greater than 0"),
        ("{servers: {a: {command: 'x',\nmax_concurrency: 1.5}}}", 2, "max_concurrency must be a whole number"),
        ("{servers: {a: {command: 'x',\nenabled: 'perhaps'}}}", 2, "enabled must be true or false"),
        ("{servers: {a: {command: 'x',\nprefix: 'a b'}}}", 2, "prefix must match"),
        ("{servers: {a: {url: 'http://h', headers: {\n'A B': '1'}}}}", 2, "A B is not a name for an HTTP header"),
        ("{servers: {a: {url: 'http://h', headers: {\nA: '1\\r\\nB: 2'}}}}", 2, "A must not contain a line break"),
        ("{servers: {a: {\nurl: 'ftp://h'}}}", 2, "url must be an http:// or https:// URL"),
        ("{servers: {a: {\nurl: 'http://h', type: 'stdio'}}}", 2, "does not go with the transport stdio"),
        ("{servers: {a: {command: 'x',\nurl: 'http://h'}}}", 2, "goes with a command only for a server that"),
        ("{servers: {a: {command: 'x', type: 'http',\ntransport: 'sse'}}}", 2, "differs from type"),
        ("{servers: {a: {command: 'x', enabled: true,\ndisabled: false}}}", 2, "means the same as enabled"),
        ("{servers: {a: {command: 'x',\nspawn: true}}}", 2, "spawn needs both a command to start and the url"),
        ("{servers: {a: {command: 'x'},\na: {command: 'y'}}}", 2, "the key 'a' is repeated"),
        ("{servers: {a: {enabled: false,\ntimeout_s: 'x'}}}", 2, "timeout_s must be a number"),
    ],
)
def test_a_broken_schema_fails_the_load_with_file_line_and_fix(
    load: Load, tmp_path: Path, text: str, line: int, problem: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        load(text)
    assert raised.value.source == f"{tmp_path / 'mcp.jsonc'}:{line}"
    assert problem in str(raised.value)
    assert raised.value.fix


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.jsonc: the file does not exist\. Create it or correct the path\."):
        load_mcp_config(tmp_path / "absent.jsonc", {})


def test_an_unset_variable_makes_only_its_server_misconfigured(load: Load) -> None:
    text = '{servers: {a: {command: "x", env: {K: "{env:KEY}"}}, b: {command: "x", args: ["{env:B:-1}"]}}}'
    first, second = load(text).servers
    assert first.misconfigured == (
        "environment variable KEY is not set: set it, or give a default with {env:KEY:-default}."
    )
    assert first.enabled
    assert (second.misconfigured, second.args) == (None, ("1",))
    assert load(text, KEY="k").servers[0].env == {"K": "k"}


@pytest.mark.parametrize("off", ["enabled: false", "disabled: true", 'enabled: "{env:OFF:-false}"'])
def test_a_disabled_server_is_not_resolved(load: Load, off: str) -> None:
    server = only(load(f'{{servers: {{a: {{command: "x", args: ["{{env:ABSENT}}"], {off}}}}}}}', strict=True))
    assert not server.enabled
    assert server.misconfigured is None
    assert server.args == ("{env:ABSENT}",)


def test_a_server_can_be_switched_by_a_variable(load: Load) -> None:
    text = '{servers: {a: {command: "x", enabled: "{env:ON:-false}"}}}'
    assert not only(load(text)).enabled
    assert only(load(text, ON="true")).enabled
    assert only(load(text, ON="perhaps")).misconfigured == (
        "with its variables filled in, enabled must be true or false."
    )
    unset = only(load('{servers: {a: {command: "x", enabled: "{env:ON}"}}}'))
    assert (unset.enabled, unset.misconfigured is None) == (True, False)


@pytest.mark.parametrize(
    ("entry", "value", "problem"),
    [
        ('url: "{env:V}"', "not-a-url", "url must be an http:// or https:// URL."),
        ('url: "http://h", headers: {A: "{env:V}"}', "a\nb", "headers.A must not contain a line break."),
        ('command: "x", timeout_s: "{env:V}"', "soon", "timeout_s must be a number."),
        ('command: "x", approve: "{env:V}"', "*", "approve must be a list."),
    ],
)
def test_a_variable_of_the_wrong_form_makes_only_its_server_misconfigured(
    load: Load, entry: str, value: str, problem: str
) -> None:
    text = f'{{servers: {{a: {{{entry}}}, b: {{command: "x"}}}}}}'
    first, second = load(text, V=value).servers
    assert first.misconfigured == f"with its variables filled in, {problem}"
    assert second.misconfigured is None
    with pytest.raises(ConfigError, match=r"mcp\.jsonc:1: server 'a': with its variables filled in"):
        load(text, strict=True, V=value)


def test_numbers_and_switches_may_come_from_variables(load: Load) -> None:
    text = '{servers: {a: {command: "x", timeout_s: "{env:T:-2.5}", max_concurrency: "{env:C:-3}", elicit: "{env:E}"}}}'
    server = only(load(text, E="true"))
    assert (server.timeout_s, server.max_concurrency, server.elicit) == (2.5, 3, True)


def test_references_in_keys_that_nothing_reads_do_no_harm(load: Load) -> None:
    server = only(load('{servers: {a: {command: "x", note: "${input:x} {env:ABSENT} {env:"}}}'))
    assert server.misconfigured is None


def test_strict_names_every_missing_variable_of_all_servers(load: Load) -> None:
    text = """{servers: {a: {command: "{env:ONE}", args: ["{env:TWO}"]}, b: {url: "{env:THREE}"},
                         c: {command: "{env:FOUR}", enabled: false}}}"""
    with pytest.raises(MissingVariable, match=r"ONE, TWO, THREE") as raised:
        load(text, strict=True)
    assert raised.value.names == ("ONE", "TWO", "THREE")
    with pytest.raises(MissingVariable, match="THREE") as raised:
        load(text, strict=True, ONE="1", TWO="2")
    assert raised.value.names == ("THREE",)


@pytest.mark.parametrize("reference", ["${input:key}", "${workspaceFolder}"])
def test_strict_refuses_a_reference_that_only_an_editor_can_resolve(load: Load, reference: str) -> None:
    with pytest.raises(ConfigError, match=rf"server 'a': {re.escape(reference)} is known to editors only"):
        load(f'{{servers: {{a: {{command: "x", args: ["{reference}"]}}}}}}', strict=True)


def test_each_form_of_reference_is_resolved_once_and_other_text_stays(load: Load) -> None:
    references = ["{env:A}", "${env:A}", "x{env:A}{env:B}y", "{env:NO:-d}", "{env:EMPTY:-http://h:1/}", "{env:NO:-}"]
    args = json.dumps([*references, "$A ${A} {A} %A%"])
    server = only(load(f'{{servers: {{a: {{command: "x", args: {args}}}}}}}', A="1", B="{env:A}", EMPTY=""))
    assert server.args == ("1", "1", "x1{env:A}y", "d", "http://h:1/", "", "$A ${A} {A} %A%")
    assert server.misconfigured is None


def test_unknown_keys_are_warned_of_with_line_and_nearest_name(load: Load, tmp_path: Path) -> None:
    config = load(
        """{
        "version": 1,
        "servers": { "a": {
            "command": "x",
            "timeout": 3,
            "tools": { "includes": [] },
            "breaker": { "failure": 5 },
            "headers": { "A": "b" },
        }, "b": { "url": "http://h/", "args": ["y"] } } }"""
    )
    file = tmp_path / "mcp.jsonc"
    assert config.warnings == (
        f"{file}:2: unknown key 'version' is ignored",
        f"{file}:5: server 'a': unknown key 'timeout' is ignored (did you mean 'timeout_s'?)",
        f"{file}:6: server 'a': tools: unknown key 'includes' is ignored (did you mean 'include'?)",
        f"{file}:7: server 'a': breaker: unknown key 'failure' is ignored (did you mean 'failures'?)",
        f"{file}:8: server 'a': headers is ignored by this transport",
        f"{file}:9: server 'b': args is ignored by this transport",
    )
    assert only(load('{servers: {a: {command: "x", timeout: 3}}}')).timeout_s == 5.0


def test_relative_paths_start_at_the_folder_of_the_file(load: Load, tmp_path: Path) -> None:
    bare, beside, inside = load(
        """{servers: {
        bare: {command: "npx", cwd: "work"},
        beside: {command: "./server.py"},
        inside: {command: "bin/server", cwd: "{env:WORK}"}}}""",
        WORK="work",
    ).servers
    assert (bare.command, bare.cwd) == ("npx", str(tmp_path / "work"))
    assert (beside.command, beside.cwd) == (str(tmp_path / "server.py"), None)
    assert (inside.command, inside.cwd) == (str(tmp_path / "work/bin/server"), str(tmp_path / "work"))


def test_programs_get_the_variables_of_certificates_and_proxies_unless_their_entry_sets_them(load: Load) -> None:
    passed = {"SSL_CERT_FILE": "/ca.pem", "https_proxy": "http://me:secret@proxy:3128", "NO_PROXY": "localhost"}
    entries = '{servers: {a: {command: "x", env: {NO_PROXY: "*"}}, b: {url: "https://mcp.example"}}}'
    program, remote = load(entries, **passed, HTTP_PROXY="", GITHUB_TOKEN="t").servers
    assert program.env == {**passed, "NO_PROXY": "*"}
    assert program.secret_values == (passed["https_proxy"],)
    assert remote.env == {}


@pytest.mark.requirement("T-08")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_a_server_we_start_has_a_command_and_a_loopback_url(load: Load, host: str) -> None:
    entry = 'command: "x", args: ["--port", "1"], spawn: true, url: "http://%s:9000/mcp"'
    server = only(load("{servers: {a: {" + entry % host + "}}}"))
    assert (server.spawn, server.command, server.transport) == (True, "x", "http")
    with pytest.raises(ConfigError, match=r"url must be on 127\.0\.0\.1 for a server that Toolweave starts"):
        load("{servers: {a: {" + entry % "mcp.example" + "}}}")


SEARCH = McpServerConfig(name="search", transport="http", url="https://example.com/mcp")
ENTRIES = {"search": {"url": "https://example.com/mcp", "transport": "streamable_http"}}


@pytest.mark.requirement("U-05")
@pytest.mark.parametrize(
    "source",
    [
        ENTRIES,
        {"mcpServers": ENTRIES},
        {"servers": ENTRIES},
        {"any": SEARCH},
        [SEARCH],
        McpConfig(servers=(SEARCH,), path=Path("x")),
    ],
    ids=repr,
)
def test_embedders_name_servers_in_each_of_these_forms(source: object) -> None:
    assert read_servers(source) == (SEARCH,)


@pytest.mark.requirement("U-05")
def test_embedders_name_a_file_by_its_path_and_read_its_errors(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": ENTRIES}), encoding="utf-8")
    assert read_servers(file) == read_servers(str(file)) == (SEARCH,)
    with pytest.raises(ConfigError, match="nowhere"):
        read_servers(tmp_path / "nowhere.json")
    with pytest.raises(MissingVariable, match="NO_SUCH_TOKEN"):
        read_servers({"x": {"url": "https://example.com", "headers": {"Authorization": "{env:NO_SUCH_TOKEN}"}}})
    with pytest.raises(ConfigError, match="needs a command"):
        read_servers({"x": {}})
    assert read_servers([]) is None
    assert read_servers(["tool"]) is None
