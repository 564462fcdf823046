"""Drive the real Agent Chat UI against this server in headless Chromium, and print which of its functions work.

FOLDER is a built checkout of the user interface. Node and Chromium are needed; this builds what was tested:

    git clone https://github.com/langchain-ai/agent-chat-ui FOLDER
    cd FOLDER
    git checkout fdc87e65307581b02898d33c62b3f285e56bd85b
    npx pnpm@10.5.1 install --frozen-lockfile
    npx next build --no-lint

The build loads a font from Google. Where that is impossible, give it another style sheet:

    echo 'module.exports = {"https://fonts.googleapis.com/css2?family=Inter:wght@100..900&display=swap":
      "@font-face { font-family: Inter; src: local(Arial); }"};' > fonts.cjs
    NEXT_FONT_GOOGLE_MOCKED_RESPONSES=$PWD/fonts.cjs npx next build --no-lint

`--requests FILE` writes the requests of the user interface, a JSON line each: tests/clients/replays replays them.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import orjson

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.fixtures.app_server import AppProcess, wait_for_servers
from tests.fixtures.mcp_server import free_port
from tests.fixtures.node_packages import node_with_packages

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "tests" / "clients" / "js"
LANGGRAPH_JSON = ROOT / "tests" / "clients" / "app" / "agent_chat_ui.json"
BOUND_S = 60


@contextmanager
def serve_ui(node: str, folder: Path) -> Iterator[str]:
    """Serve the built user interface until the block ends; give its URL."""
    port = free_port()
    url = f"http://localhost:{port}"
    command = (node, "node_modules/next/dist/bin/next", "start", "--port", str(port))
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + BOUND_S
            while not answers(url):
                assert process.poll() is None, "the user interface has ended"
                assert time.monotonic() < deadline, "the user interface did not start in time"
                time.sleep(0.2)
            yield url
        finally:
            process.terminate()


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=BOUND_S).is_success
    except httpx.TransportError:
        return False


def main(folder: Path, requests: Path | None) -> int:
    """Print a line for each scenario; return 1 if one has failed."""
    node = node_with_packages(SCRIPTS)
    with tempfile.TemporaryDirectory() as name:
        data = Path(name)
        environment = {"PYTHONPATH": str(ROOT), "TOOLWEAVE_MODEL": "offline"}
        with AppProcess(LANGGRAPH_JSON, data, environment) as server, serve_ui(node, folder) as ui:
            wait_for_servers(server.url)
            log = requests or data / "requests.jsonl"
            command = (node, "agent_chat_ui.mjs", server.url, ui, str(log.absolute()))
            done = subprocess.run(command, cwd=SCRIPTS, check=True, stdout=subprocess.PIPE)
    reports = [orjson.loads(line) for line in done.stdout.splitlines()]
    for report in reports:
        print("failed:" if "error" in report else "passed:", report["scenario"])
        print(report.get("error", ""), end="\n" if "error" in report else "")
    return 1 if not reports or any("error" in report for report in reports) else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a built checkout of langchain-ai/agent-chat-ui")
    parser.add_argument("--requests", type=Path, metavar="FILE", help="append the requests of the user interface")
    given = parser.parse_args()
    sys.exit(main(given.folder, given.requests))
