"""A raw stdio MCP server, standard library only, that fetches one page for everybody and writes down what it is asked.

    python recording_fetcher.py NAME RECORD PAGE

It appends `NAME started` (and `with its key` where the environment has READING_KEY), `NAME initialize`, `NAME
tools/call …` and `NAME ended` to the file RECORD; its tool `NAME_read` answers with the text of the file PAGE.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    name, record, page = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])

    def note(what: str) -> None:
        with record.open("a", encoding="utf-8") as file:
            file.write(f"{name} {what}\n")

    note("started" + (" with its key" if os.environ.get("READING_KEY") else ""))
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["method"] in ("initialize", "tools/call"):
            note(" ".join([asked["method"], asked["params"].get("arguments", {}).get("url", "")]).strip())
        if "id" in asked:
            answer = {"jsonrpc": "2.0", "id": asked["id"], "result": result(name, asked, page)}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
    note("ended")


def result(name: str, asked: dict[str, Any], page: Path) -> dict[str, Any]:
    if asked["method"] == "initialize":
        return {
            "protocolVersion": asked["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": name, "version": "1"},
        }
    if asked["method"] == "tools/list":
        schema = {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]}
        tool = {"name": f"{name}_read", "description": "Read the page at a URL as markdown.", "inputSchema": schema}
        return {"tools": [tool]}
    if asked["method"] == "tools/call":
        return {"content": [{"type": "text", "text": page.read_text(encoding="utf-8")}]}
    return {}


if __name__ == "__main__":
    main()
