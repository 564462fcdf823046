"""Call the server as a page in a browser does: only as far as its CORS answers allow."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

SIMPLE_METHODS = ("GET", "HEAD", "POST")
SIMPLE_TYPES = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data")
# The headers that a request may have, and a page may read of a response, without permission.
SIMPLE_HEADERS = frozenset({"accept", "accept-language", "content-language", "content-type"})
READABLE_HEADERS = frozenset({"cache-control", "content-type", "content-length", "expires", "last-modified", "pragma"})


@dataclass(frozen=True, slots=True)
class Answer:
    """What the page gets to see."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def body(self) -> Any:
        """Give the body, read as JSON."""
        return json.loads(self.text)

    @property
    def events(self) -> list[tuple[str, Any, str | None]]:
        """Give the events of a stream: name, data and id."""
        found = []
        for frame in self.text.replace("\r\n", "\n").split("\n\n"):
            fields = dict(line.split(": ", 1) for line in frame.splitlines() if line and not line.startswith(":"))
            if "event" in fields:
                found.append((fields["event"], json.loads(fields["data"]), fields.get("id")))
        return found


class Page:
    """A page of another origin; `public` when it comes from the internet and the server is on this machine."""

    def __init__(self, http: httpx.AsyncClient, origin: str, *, public: bool = False) -> None:
        self._http = http
        self._origin = origin
        self._public = public

    async def json(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send a body as application/json, as the SDK does, or none."""
        return await self.fetch(method, path, body, {"content-type": "application/json"} if body else {}, headers)

    async def plain(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send a body without its type, as text/plain; a request without a body needs no preflight."""
        return await self.fetch(
            method, path, body, {"content-type": "text/plain;charset=UTF-8"} if body else {}, headers
        )

    async def fetch(
        self, method: str, path: str, body: Any, content_type: Mapping[str, str], headers: Mapping[str, str]
    ) -> Answer:
        """Ask for permission where a browser would, send the request, and show what the page may see."""
        sent = {**content_type, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if self._public or self._needs_permission(method, sent):
            await self._ask(method, path, sent)
        content = json.dumps(body, separators=(",", ":")) if body is not None else None
        answer = await self._http.request(method, path, content=content, headers={**sent, "origin": self._origin})
        assert answer.headers["access-control-allow-origin"] in ("*", self._origin)
        exposed = {name.strip().lower() for name in answer.headers["access-control-expose-headers"].split(",")}
        readable = {name: value for name, value in answer.headers.items() if name in exposed | READABLE_HEADERS}
        return Answer(answer.status_code, readable, answer.text)

    def _needs_permission(self, method: str, headers: Mapping[str, str]) -> bool:
        simple_type = headers.get("content-type", SIMPLE_TYPES[0]).partition(";")[0] in SIMPLE_TYPES
        return method not in SIMPLE_METHODS or not simple_type or not headers.keys() <= SIMPLE_HEADERS

    async def _ask(self, method: str, path: str, headers: Mapping[str, str]) -> None:
        requested = {"origin": self._origin, "access-control-request-method": method}
        if headers:
            requested["access-control-request-headers"] = ",".join(sorted(headers))
        if self._public:
            requested["access-control-request-private-network"] = "true"
        answer = await self._http.options(path, headers=requested)
        assert answer.is_success, f"{method} {path}: the preflight was refused: {answer.status_code} {answer.text}"
        assert answer.headers["access-control-allow-origin"] in ("*", self._origin)
        assert method in {word.strip() for word in answer.headers["access-control-allow-methods"].split(",")}
        allowed = {word.strip().lower() for word in answer.headers.get("access-control-allow-headers", "").split(",")}
        assert headers.keys() <= allowed
        if self._public:
            assert answer.headers["access-control-allow-private-network"] == "true"
