"""Write a data folder with the version that is installed: `python -m tests.data_folders.write NAME`.

The folder is packed into NAME.zip beside this file, with what a server leaves that is killed in the middle of a run.
Later versions open it and go on (test_data_folders.py). A written folder is never written again: it is what users have.
"""

import asyncio
import json
import shutil
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import httpx
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from tests.api.langgraph.protocol.listening import ended, start
from tests.api.routes.human import ASKING
from tests.fixtures.app_server import AppProcess
from tests.fixtures.web_pages import Answer, WebPages, web_pages
from toolweave.servers.connections.oauth import TokenLocation
from toolweave.servers.connections.oauth.exchange import Grant
from toolweave.servers.connections.oauth.vault import GrantKey, open_vault

BOUND_S = 30
# Delayed runs wait until the server is killed, and are due when a later version opens the folder.
DELAY_S = 60
HERE = Path(__file__).parent
APP = HERE / "app"
ENVIRONMENT = {
    "ASKING_SERVER": str(ASKING),
    "TOOLWEAVE_MCP_CONFIG": str(APP / "mcp.jsonc"),
    "TOOLWEAVE_MODEL": "offline",
    "TOOLWEAVE_OUTBOUND_ALLOW": "127.0.0.1",
    "TOOLWEAVE_TOKEN_STORE": "file",
}
RUNNING = "10000000-0000-4000-8000-000000000001"
PENDING = "10000000-0000-4000-8000-000000000002"
INTERRUPTED = "10000000-0000-4000-8000-000000000003"
OF_CRON = "10000000-0000-4000-8000-000000000004"
WITH_TOKEN = "10000000-0000-4000-8000-000000000005"
APPROVAL = "10000000-0000-4000-8000-000000000006"
QUESTION = "10000000-0000-4000-8000-000000000007"
WORKFLOW = "10000000-0000-4000-8000-000000000008"
SCRIPT = "10000000-0000-4000-8000-000000000009"
ROLLED_BACK = "10000000-0000-4000-8000-000000000010"
ADDED = "10000000-0000-4000-8000-000000000011"
THREADS = (
    *(RUNNING, PENDING, INTERRUPTED, OF_CRON, WITH_TOKEN),
    *(APPROVAL, QUESTION, WORKFLOW, SCRIPT, ROLLED_BACK, ADDED),
)
REMOTE = GrantKey("remote", "https://mcp.example.com/mcp")
PAGE = "german.html"
SUNNY = {"city": "Paris", "sky": "clear"}
WEATHER: dict[str, Any] = {"user_instructions": "Read the weather in Paris", "tool_ids": ["weather"]}
# No server listens here, so that the webhook waits to be sent again.
NOBODY = "http://127.0.0.1:9/hook"
CANCEL = "UPDATE runs SET cancel = 'rollback' WHERE status = 'running' AND thread_id = ?"
TOKEN = {"x-upstream-token": "token-of-the-caller"}
TOOL: dict[str, Any] = {
    "tool_id": "weather",
    "name": "Weather",
    "description": "Read the weather of a city",
    "api": {"base_url": "https://weather.example.com", "path": "/v1/{city}", "method": "GET"},
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def logged(marker: str) -> Any:
    return {"log": [marker]}


def serve_weather(site: WebPages) -> None:
    """Answer the requests of the tool."""
    site.answers["/v1/Paris"] = Answer(json.dumps(SUNNY).encode(), {"content-type": "application/json"})


def wait_for_servers(http: httpx.Client) -> None:
    """Wait until their tools are there; each look is a request of its own."""
    deadline = time.monotonic() + BOUND_S
    while "connecting" in str(http.get("/health").json()["servers"]):
        assert time.monotonic() < deadline, "the MCP servers did not start in time"


def chat(http: httpx.Client, **body: Any) -> str:
    """Give the answer to one turn."""
    return http.post("/chat/stream", json=body).raise_for_status().text


def said(text: str) -> Any:
    return {"messages": [{"role": "user", "content": text}]}


def fill(url: str, site: WebPages) -> None:
    """Use every part of the API that stores something."""
    sdk = get_sync_client(url=url)
    for thread_id in THREADS:
        sdk.threads.create(thread_id=thread_id, metadata={"kind": "fixture"})
    sdk.runs.wait(INTERRUPTED, "ask", input=logged("asked"), webhook=NOBODY)
    sdk.runs.create(PENDING, "held", input=logged("delayed"), after_seconds=DELAY_S)
    sdk.runs.create(WITH_TOKEN, "token", input=logged("begun"), after_seconds=DELAY_S, headers=TOKEN)
    sdk.crons.create_for_thread(OF_CRON, "held", schedule="0 0 1 1 *", input=logged("cron"))
    sdk.store.put_item(["notes", "personal"], key="milk", value={"text": "Buy milk", "n": 1})
    assistant = sdk.assistants.create("ask", name="Asks twice", metadata={"kind": "fixture"})
    sdk.assistants.update(assistant["assistant_id"], name="Asks once")
    with httpx.Client(base_url=url, timeout=30) as http:
        http.post("/tools", json=TOOL | {"api": TOOL["api"] | {"base_url": site.url}}).raise_for_status()
        wait_for_servers(http)
        chat(http, message="Add a task to buy milk", thread_id=ADDED)
        answer = chat(http, resume="approve", thread_id=ADDED)
        assert "Created the todo" in answer, answer
    fill_product_graphs(sdk, site)
    asyncio.run(ask_for_approval(url))
    sdk.runs.wait(ROLLED_BACK, "ask_held", input=logged("asked"))
    leave_under_way(sdk, ROLLED_BACK, "ask_held", command={"resume": "yes"})
    leave_under_way(sdk, RUNNING, "held", input=logged("given"), stream_resumable=True)


def fill_product_graphs(sdk: SyncLangGraphClient, site: WebPages) -> None:
    """Leave threads that wait for an answer, that have ended, and that stopped in front of a node."""
    sdk.runs.wait(QUESTION, "agent_loop", input=said("Greet the user by name"))
    answer: Any = sdk.runs.wait(WORKFLOW, "workflow", input=WEATHER)
    assert answer["output"] == SUNNY, answer
    sdk.runs.wait(WORKFLOW, "workflow", input=WEATHER | {"format_response": True}, interrupt_before=["format"])
    sdk.runs.wait(SCRIPT, "script_writer", input={"url": site.page(PAGE)}, interrupt_before=["write"])


async def ask_for_approval(url: str) -> None:
    """Start the run by the newer protocol, so that the thread's events are stored."""
    async with httpx.AsyncClient(base_url=url, timeout=BOUND_S) as http:
        await ended(http, APPROVAL, await start(http, APPROVAL, "todo_agent", said("Add a task to buy tea")))


def leave_under_way(sdk: SyncLangGraphClient, thread_id: str, graph: str, **request: Any) -> None:
    """Start a run and return when its first node has ended."""
    for part in sdk.runs.stream(thread_id, graph, stream_mode="updates", **request):
        if part.event == "updates":
            break


def sign_in(data_dir: Path) -> None:
    """Store tokens of a remote server as `toolweave servers login` does."""
    client = OAuthClientInformationFull(client_id="toolweave", redirect_uris=["http://127.0.0.1/callback"])
    tokens = OAuthToken(access_token="fixture-token", refresh_token="fixture-renewal", expires_in=3600)
    grant = Grant(tokens=tokens, client=client, expires_at=time.time() + 3600)
    open_vault(TokenLocation(data_dir / "oauth", "file")).write(REMOTE, grant.to_json())


def change(database: Path, statement: str, *values: str) -> None:
    """Execute a statement on a database that no server has open."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(statement, values)


def pack(data_dir: Path, target: Path) -> None:
    """Pack the folder; what stands in write-ahead logs goes into the databases first, to keep it small."""
    for database in data_dir.glob("*.db"):
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("VACUUM")
    with ZipFile(target, "w", ZIP_DEFLATED) as packed:
        for path in sorted(data_dir.rglob("*")):
            if path.is_file() and "logs" not in path.parts:
                packed.write(path, path.relative_to(data_dir))


def main(name: str) -> None:
    """Write one folder."""
    data_dir = Path(tempfile.mkdtemp()) / "data"
    process = AppProcess(APP / "langgraph.json", data_dir, {**ENVIRONMENT, "HOLD": "yes"})
    process.start()
    try:
        with web_pages() as site:
            serve_weather(site)
            fill(process.url, site)
        process.wait_for_log("will be sent again")
    finally:
        process.kill()
    # The server was killed before it could end a run that a client had cancelled.
    change(data_dir / "app.db", CANCEL, ROLLED_BACK)
    sign_in(data_dir)
    pack(data_dir, HERE / f"{name}.zip")
    shutil.rmtree(data_dir.parent)


if __name__ == "__main__":
    main(sys.argv[1])
