"""Stand in for the HTTP APIs behind Firecrawl and Supabase, and for a web site; keep a record of what was asked.

with stub_apis() as apis:
    apis.url, apis.asked
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PROJECT: dict[str, Any] = {
    "id": "abcdefghijklmnopqrst",
    "ref": "abcdefghijklmnopqrst",
    "organization_id": "org-1",
    "organization_slug": "org-1",
    "name": "Shop",
    "region": "eu-central-1",
    "created_at": "2026-01-01T00:00:00Z",
    "status": "ACTIVE_HEALTHY",
    "database": {"host": "db.example.org", "version": "17", "postgres_engine": "17", "release_channel": "ga"},
}
PAGE = """# Opening hours

We are open from nine to five. On Sundays we sleep, and whoever rings the bell then wakes the dog."""
SITE = """<!doctype html><html><head><title>Shop</title></head>
<body><article><h2>Opening hours</h2><p>We are open from nine to five.</p></article></body></html>"""
ROWS = [{"id": 1, "name": "apples"}, {"id": 2, "name": "pears"}]


@dataclass(frozen=True)
class Asked:
    """One request: how, for what, as whom and with what."""

    method: str
    path: str
    authorization: str | None
    body: Any


@dataclass
class StubApis:
    """Where the stub is, and what it was asked in order."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)

    def answer(self, asked: Asked) -> tuple[int, Any]:
        """Answer as the APIs do, as far as the tests use them."""
        self.asked.append(asked)
        path = asked.path.partition("?")[0]
        if (asked.method, path) == ("POST", "/v2/scrape"):
            metadata = {"title": "Opening hours", "sourceURL": asked.body["url"], "statusCode": 200}
            return 200, {"success": True, "data": {"markdown": PAGE, "metadata": metadata}}
        if (asked.method, path) == ("GET", "/page"):
            return 200, SITE
        if (asked.method, path) == ("GET", "/v1/projects"):
            return 200, [PROJECT]
        if asked.method == "POST" and path.startswith(f"/v1/projects/{PROJECT['ref']}/database/query"):
            return self._rows(asked.body["query"])
        return 404, {"message": f"the stub knows no {asked.method} {path}"}

    def _rows(self, query: str) -> tuple[int, Any]:
        if "no_such_table" in query:
            return 400, {"message": 'relation "no_such_table" does not exist'}
        return 201, ROWS


def _handler(apis: StubApis) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: Any) -> None:
            status, content = apis.answer(Asked(self.command, self.path, self.headers["Authorization"], body))
            is_page = isinstance(content, str)
            text = (content if is_page else json.dumps(content)).encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/html" if is_page else "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Stay quiet."""

    return Handler


@contextmanager
def stub_apis() -> Iterator[StubApis]:
    """Serve the stub on a free port of this machine until the block ends."""
    apis = StubApis()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(apis)) as server:
        apis.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield apis
        finally:
            server.shutdown()
            thread.join()
