"""Stand in for the HTTP APIs behind Firecrawl and Supabase, and for a web site; record the requests.

with stub_apis() as apis:
    apis.url, apis.requests
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.fixtures.serving import http_server

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
class ApiRequest:
    """One request to an API."""

    method: str
    path: str
    authorization: str | None
    body: Any


@dataclass
class StubApis:
    """The URL of the stub, and its requests in order."""

    url: str = ""
    requests: list[ApiRequest] = field(default_factory=list)

    def answer(self, request: ApiRequest) -> tuple[int, Any]:
        """Answer as the APIs do, as far as the tests use them."""
        self.requests.append(request)
        path = request.path.partition("?")[0]
        if (request.method, path) == ("POST", "/v2/scrape"):
            metadata = {"title": "Opening hours", "sourceURL": request.body["url"], "statusCode": 200}
            return 200, {"success": True, "data": {"markdown": PAGE, "metadata": metadata}}
        if (request.method, path) == ("GET", "/page"):
            return 200, SITE
        if (request.method, path) == ("GET", "/v1/projects"):
            return 200, [PROJECT]
        if request.method == "POST" and path.startswith(f"/v1/projects/{PROJECT['ref']}/database/query"):
            return self._rows(request.body["query"])
        return 404, {"message": f"the stub knows no {request.method} {path}"}

    def _rows(self, query: str) -> tuple[int, Any]:
        if "no_such_table" in query:
            return 400, {"message": 'relation "no_such_table" does not exist'}
        return 201, ROWS


class _Handler(BaseHTTPRequestHandler):
    apis: StubApis

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, body: Any) -> None:
        status, content = self.apis.answer(ApiRequest(self.command, self.path, self.headers["Authorization"], body))
        is_page = isinstance(content, str)
        text = (content if is_page else json.dumps(content)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if is_page else "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@contextmanager
def stub_apis() -> Iterator[StubApis]:
    """Serve the stub on a free port of this machine until the block ends."""
    with http_server(_Handler) as (port, handler):
        handler.apis = apis = StubApis(f"http://127.0.0.1:{port}")
        yield apis
