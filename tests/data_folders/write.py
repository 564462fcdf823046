"""Write a data folder with the version that is installed: `python -m tests.data_folders.write NAME`.

The folder is packed into NAME.zip beside this file, with what a server leaves that is killed in the middle of a run.
Later versions open it and go on (test_data_folders.py). A written folder is never written again: it is what users have.
"""

import shutil
import sqlite3
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import httpx
from langgraph_sdk import get_sync_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from tests.fixtures.app_server import AppProcess
from toolweave.servers.connections.oauth.grant import Grant
from toolweave.servers.connections.oauth.opening import open_vault
from toolweave.servers.connections.oauth.place import TokenPlace
from toolweave.servers.connections.oauth.vault import GrantKey

BOUND_S = 30
# Delayed runs wait until the server is killed, and are due when a later version opens the folder.
DELAY_S = 60
HERE = Path(__file__).parent
APP = HERE / "app"
ENVIRONMENT = {"TOOLWEAVE_MCP_CONFIG": str(APP / "mcp.jsonc"), "TOOLWEAVE_TOKEN_STORE": "file"}
RUNNING = "10000000-0000-4000-8000-000000000001"
PENDING = "10000000-0000-4000-8000-000000000002"
INTERRUPTED = "10000000-0000-4000-8000-000000000003"
OF_CRON = "10000000-0000-4000-8000-000000000004"
WITH_TOKEN = "10000000-0000-4000-8000-000000000005"
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


def wait_for_todo_server(http: httpx.Client) -> None:
    """Wait until its tools are there; each look is a request of its own."""
    deadline = time.monotonic() + BOUND_S
    while http.get("/health").json()["servers"]["todo"]["state"] == "connecting":
        assert time.monotonic() < deadline, "the todo server did not start in time"


def fill(url: str) -> None:
    """Use every part of the API that stores something."""
    sdk = get_sync_client(url=url)
    for thread_id in (RUNNING, PENDING, INTERRUPTED, OF_CRON, WITH_TOKEN):
        sdk.threads.create(thread_id=thread_id, metadata={"kind": "fixture"})
    sdk.runs.wait(INTERRUPTED, "ask", input=logged("asked"))
    sdk.runs.create(PENDING, "held", input=logged("delayed"), after_seconds=DELAY_S)
    sdk.runs.create(WITH_TOKEN, "token", input=logged("begun"), after_seconds=DELAY_S, headers=TOKEN)
    sdk.crons.create_for_thread(OF_CRON, "held", schedule="0 0 1 1 *", input=logged("cron"))
    sdk.store.put_item(["notes", "personal"], key="milk", value={"text": "Buy milk", "n": 1})
    assistant = sdk.assistants.create("ask", name="Asks twice", metadata={"kind": "fixture"})
    sdk.assistants.update(assistant["assistant_id"], name="Asks once")
    with httpx.Client(base_url=url, timeout=30) as http:
        http.post("/tools", json=TOOL).raise_for_status()
        wait_for_todo_server(http)
        answer = http.post("/chat/stream", json={"message": "Add a task to buy milk"}).text
        assert "Created the todo" in answer, answer
    for part in sdk.runs.stream(RUNNING, "held", input=logged("given"), stream_mode="updates", stream_resumable=True):
        if part.event == "updates":
            break


def sign_in(data_dir: Path) -> None:
    """Store tokens of a remote server as `toolweave servers login` does."""
    client = OAuthClientInformationFull(client_id="toolweave", redirect_uris=["http://127.0.0.1/callback"])
    grant = Grant(tokens=OAuthToken(access_token="fixture-token", token_type="Bearer"), client=client)
    vault = open_vault(TokenPlace(data_dir / "oauth", "file"))
    vault.write(GrantKey("remote", "https://mcp.example.com/mcp"), grant.written())


def pack(data_dir: Path, target: Path) -> None:
    """Pack the folder; what stands in write-ahead logs goes into the databases first, to keep it small."""
    for database in data_dir.glob("*.db"):
        connection = sqlite3.connect(database)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("VACUUM")
        connection.close()
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
        fill(process.url)
    finally:
        process.kill()
    sign_in(data_dir)
    pack(data_dir, HERE / f"{name}.zip")
    shutil.rmtree(data_dir.parent)


if __name__ == "__main__":
    main(sys.argv[1])
