"""Every code block of README.md and docs/ is executed or checked; a block without a row in the table fails.

Blocks in `text` are output and diagrams. Programs that execute the examples write `docs/tools` and `docs/tour`.
"""

import asyncio
import base64
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import pytest
import sqlalchemy as sa
from langgraph_sdk import get_client, get_sync_client
from langgraph_sdk.client import SyncLangGraphClient
from scripts.demo_library import serving_library

from tests.cli.command import serving
from tests.doc_blocks.checks import (
    Check,
    Surroundings,
    elsewhere,
    ini,
    javascript,
    langgraph_file,
    mcp_client,
    mcp_file,
    parsed,
    python,
    shell,
    sql,
)
from tests.fixtures.app_server import OURS, wait_for_servers
from tests.fixtures.doc_pages import DOCS, ROOT, all_blocks
from tests.fixtures.openai_wire import WireCall, WireTurn, openai_wire
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.web_pages import web_pages
from toolweave import build_agent_loop
from toolweave.runtime.webhooks import webhook_headers

LOCAL = "http://127.0.0.1:2024"
TOKEN = "a-token-for-the-core-tools"
QUICKSTARTS = elsewhere("tests/packaging/test_quickstarts.py")
CALLERS = elsewhere("tests/test_callers_page.py")
SCRIPT_WRITER = elsewhere("tests/test_script_writer_page.py")
WORKFLOW = elsewhere("tests/test_workflow_page.py")
INDEX = "downloads from a package index; tests/external installs servers"

FILES_SERVER = """
from fastmcp import FastMCP

server = FastMCP("files")


@server.tool(annotations={"readOnlyHint": True})
def read_file(path: str) -> str:
    return f"content of {path}"


@server.tool
def write_file(path: str, content: str) -> str:
    return f"{content} written to {path}"


server.run(show_banner=False)
"""

TABLE: dict[str, tuple[Check, ...]] = {
    "README.md": (elsewhere("tests/test_readme.py"), *(QUICKSTARTS,) * 5),
    "docs/ag-ui.md": (javascript(expect="I found"), shell(expect="RUN_FINISHED")),
    "docs/callers.md": (CALLERS,) * 4,
    "docs/concepts.md": (python("answer == 'HELLO'"),),
    "docs/core-tools.md": (mcp_file, mcp_client, mcp_client, mcp_client),
    "docs/embedding.md": (elsewhere("tests/graphs/test_embedding.py"),),
    "docs/external-servers.md": (parsed(INDEX), parsed(INDEX)),
    "docs/human-in-the-loop.md": (
        mcp_file,
        python(
            "request['action_request'] == {'action': 'files_write_file', 'args': {'path': 'a', 'content': 'b'}}"
            " and 'b written to a' in str(client.threads.get_state(thread_id))"
        ),
        python("graph.invoke({'messages': 'Hello'})['status']"),
    ),
    "docs/install.md": (
        elsewhere("tests/test_readme.py"),
        QUICKSTARTS,
        parsed("no container engine; tests/packaging/test_deployment.py runs the commands of the Dockerfile"),
    ),
    "docs/langgraph-json.md": (
        langgraph_file,
        python("(await assign(context)) == {'priority': -3, 'fairness_group': 'blue'}"),
    ),
    "docs/oauth.md": (mcp_file, parsed("a person signs in with a browser; tests/cli signs in at an OAuth server")),
    "docs/observability.md": (elsewhere("tests/api/test_traces.py"),) * 4,
    "docs/openai.md": (
        shell(expect="chat.completion", leave_out="toolweave dev"),
        *(elsewhere("tests/test_openai_page.py"),) * 3,
    ),
    "docs/postgresql.md": (shell(expect="PostgreSQL"), shell(expect="ok"), sql, sql),
    "docs/scaling.md": (
        parsed("its servers do not end; tests/distributed runs them"),
        sql,
        ini,
        shell(),
        sql,
        shell(),
        shell(expect="ok"),
    ),
    "docs/script-writer.md": (
        shell(expect="Slide:", leave_out="--mcp-config"),
        SCRIPT_WRITER,
        python("run['status'] == 'success'"),
        shell(expect="narrations"),
        SCRIPT_WRITER,
        SCRIPT_WRITER,
    ),
    "docs/studio.md": (parsed("its server does not end; tests/clients/test_studio.py opens the page"),),
    "docs/tool-plane.md": (
        shell(expect="content of a"),
        mcp_file,
        elsewhere("tests/test_tool_plane_pages.py"),
        python("loop"),
    ),
    "docs/webhooks.md": (
        python("json.loads(site.posted.get(timeout=60))['status'] == 'success'"),
        python("is_ours(secret, headers, b'{}') and not is_ours(secret, headers, b'[]')"),
        langgraph_file,
    ),
    "docs/workflow.md": (shell(expect='"selected_tool":"Lend a book"'), WORKFLOW, WORKFLOW),
}


def serve(here: Surroundings, env: Mapping[str, str] = MappingProxyType({}), langgraph_json: Path = OURS) -> None:
    """Serve a langgraph.json, by default ours, with the offline model unless `env` says otherwise."""
    options = ("--config", str(langgraph_json), "--data-dir", str(here.folder / "served"))
    env = {"TOOLWEAVE_OUTBOUND_ALLOW": "127.0.0.1", **env}
    url = here.stack.enter_context(serving(*options, cwd=here.folder, env=env)).url
    wait_for_servers(url)
    here.replaced[LOCAL] = url
    here.env["TOOLWEAVE_API_URL"] = url


def with_files_server(here: Surroundings, turns: list[WireTurn]) -> dict[str, str]:
    """Write the files of an MCP server whose writing tool needs approval; return variables for it and a model."""
    here.write("files.py", FILES_SERVER)
    entry = {"command": "{env:TOOLWEAVE_PYTHON}", "args": ["files.py"], "cwd": ".", "approve": ["write_*"]}
    for name in ("mcp.jsonc", "mcp.json"):
        here.write(name, json.dumps({"mcpServers": {"files": entry}}))
    model = here.stack.enter_context(openai_wire(turns))
    return {
        "TOOLWEAVE_MCP_CONFIG": str(here.folder / "mcp.jsonc"),
        "OPENAI_BASE_URL": model.base_url,
        "OPENAI_API_KEY": "key",
        "TOOLWEAVE_MODEL": "m",
    }


def core_tools(here: Surroundings) -> None:
    serve(here, {"TOOLWEAVE_CORE_TOKEN": TOKEN})
    here.replaced |= {
        "/path/to/toolweave/.venv/bin/python": sys.executable,
        "/path/to/toolweave/.toolweave": str(here.folder / "core"),
        "/path/to/project": str(here.folder),
        "what TOOLWEAVE_CORE_TOKEN says": TOKEN,
        "${input:core-token}": TOKEN,
    }


def human_in_the_loop(here: Surroundings) -> None:
    write = WireCall("files_write_file", '{"path": "a", "content": "b"}')
    env = with_files_server(here, [WireTurn(calls=(write,)), *[WireTurn(text="Done.")] * 2])
    serve(here, env)
    client = get_sync_client(url=here.replaced[LOCAL])
    thread_id = client.threads.create()["thread_id"]
    here.scope |= {"client": client, "thread_id": thread_id, "tools": [], "model": "offline"}
    here.scope["build_agent_loop"] = build_agent_loop


def langgraph_json(here: Surroundings) -> None:
    here.scope["context"] = SimpleNamespace(permissions=["premium"], user={"org_id": "blue"})


def on_postgresql(here: Surroundings) -> None:
    """Give a database with the tables of the pages, a user for it, and PostgreSQL's programs."""
    server: PostgresServer = here.request.getfixturevalue("postgres")
    # Called in reverse order: after the databases, in which the roles have rights.
    here.stack.callback(server.execute, "DROP ROLE IF EXISTS toolweave, toolweave_reader")
    database = here.stack.enter_context(server.fresh_database())
    name = sa.make_url(database).database
    restored = f"{name}_restored"
    here.stack.callback(server.execute, f"DROP DATABASE IF EXISTS {restored} WITH (FORCE)")
    url = database.replace("postgresql+psycopg", "postgresql")
    here.env |= {
        "TEST_DATABASE": database,
        "TOOLWEAVE_DATABASE_URL": url,
        "URL": url,
        "TOOLWEAVE_PORT": "0",
        "PGHOST": "127.0.0.1",
        "PGPORT": str(server.port),
        "PGUSER": "postgres",
        "PATH": f"{server.programs}:{os.environ['PATH']}",
    }
    here.replaced |= {
        "postgresql://toolweave:password@db.internal:5432/toolweave": url,
        "DATABASE shop": f"DATABASE {name}",
        "postgresql://…/toolweave_restored": url.replace(str(name), restored),
        "toolweave_restored": restored,
    }


def postgresql(here: Surroundings) -> None:
    on_postgresql(here)
    with serving("--config", str(OURS), cwd=here.folder):
        """Make a data folder to copy."""
    sql("CREATE TABLE orders (id int); CREATE TABLE customers (id int, name text)", here)


def scaling(here: Surroundings) -> None:
    on_postgresql(here)
    shell()("toolweave db upgrade", here)


def script_writer(here: Surroundings) -> None:
    serve(here)
    site = here.stack.enter_context(web_pages())
    here.replaced["https://example.org/article"] = site.page("notes.md")
    here.env["TOOLWEAVE_OUTBOUND_ALLOW"] = "127.0.0.1"


def tool_plane(here: Surroundings) -> None:
    here.env |= with_files_server(here, [WireTurn(text="Nothing.")] * 2)
    environment: pytest.MonkeyPatch = here.request.getfixturevalue("monkeypatch")
    environment.chdir(here.folder)
    for name, value in here.env.items():
        environment.setenv(name, value)


def webhooks(here: Surroundings) -> None:
    document = json.loads(OURS.read_text(encoding="utf-8")) | {"webhooks": {"url": {"require_https": False}}}
    serve(here, langgraph_json=here.write("served.json", json.dumps(document)))
    site = here.stack.enter_context(web_pages())
    here.replaced["https://example.org/hook"] = f"{site.url}/hook"
    with get_sync_client(url=here.replaced[LOCAL]) as synchronous:
        here.scope["thread_id"] = synchronous.threads.create()["thread_id"]
    client = get_client(url=here.replaced[LOCAL])
    here.stack.callback(lambda: here.runner.run(client.aclose()))
    secret, body = base64.b64encode(b"k" * 24).decode(), b"{}"
    headers = webhook_headers([b"k" * 24], "msg_1", int(time.time()), body)
    here.scope |= {"client": client, "json": json, "site": site, "secret": f"whsec_{secret}", "headers": headers}


def workflow(here: Surroundings) -> None:
    serve(here)
    here.replaced["https://api.example.org"] = here.stack.enter_context(serving_library())


SURROUNDINGS: dict[str, Callable[[Surroundings], None]] = {
    "docs/ag-ui.md": serve,
    "docs/core-tools.md": core_tools,
    "docs/human-in-the-loop.md": human_in_the_loop,
    "docs/langgraph-json.md": langgraph_json,
    "docs/openai.md": serve,
    "docs/postgresql.md": postgresql,
    "docs/scaling.md": scaling,
    "docs/script-writer.md": script_writer,
    "docs/tool-plane.md": tool_plane,
    "docs/webhooks.md": webhooks,
    "docs/workflow.md": workflow,
}


SLOW = ("ag-ui", "core-tools", "openai", "postgresql", "scaling", "script-writer", "webhooks", "workflow")
NAMES = [pytest.param(name, marks=[pytest.mark.slow] if Path(name).stem in SLOW else []) for name in sorted(TABLE)]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.mark.filterwarnings("ignore:The Priority API is in beta")
@pytest.mark.parametrize("name", NAMES)
def test_the_code_blocks_of_a_page_are_true(
    name: str, tmp_path: Path, stack: ExitStack, request: pytest.FixtureRequest
) -> None:
    here = Surroundings(tmp_path, name, request, stack, stack.enter_context(asyncio.Runner()))
    if name in SURROUNDINGS:
        SURROUNDINGS[name](here)
    blocks = [block for language, block in all_blocks(ROOT / name) if language != "text"]
    for check, block in zip(TABLE[name], blocks, strict=True):
        check(block, here)
    # Examples leave their client open.
    for client in here.scope.values():
        if isinstance(client, SyncLangGraphClient):
            client.close()


def test_every_page_with_code_blocks_is_in_the_table_and_each_block_names_its_language() -> None:
    pages = [ROOT / "README.md", *DOCS.glob("*.md"), *DOCS.glob("reference/*.md"), *DOCS.glob("decisions/*.md")]
    languages = {str(page.relative_to(ROOT)): [language for language, _ in all_blocks(page)] for page in pages}
    assert all(all(each) for each in languages.values()), "write ```text for output"
    assert {page for page, found in languages.items() if set(found) - {"text"}} == set(TABLE)
