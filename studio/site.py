"""Serve the built files of the studio at /studio (S-11)."""

from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.staticfiles import StaticFiles

STUDIO_PATHS = ("/studio", "/studio/{file:path}")
FILES = Path(__file__).parent / "dist"
# xyflow and rjsf set style attributes. Images of messages are data or blobs; nothing comes from another host.
PAGE_POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; frame-src 'self'; object-src 'none'; base-uri 'self'; form-action 'self'; "
    "frame-ancestors 'self'"
)
# The page of an MCP App is in a frame inside this one. Both have origins of their own and reach the studio by messages
# only. The inner frame inherits the policy, and `frame-src` keeps it from leaving with data in its address.
SANDBOX_POLICY = (
    "sandbox allow-scripts allow-forms; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:; media-src data: blob:; frame-src 'none'; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'self'"
)
HEADERS = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
# The names of these files contain a hash of their content.
IMMUTABLE = {"cache-control": "public, max-age=31536000, immutable"}


def studio_routes() -> list[BaseRoute]:
    """Return the routes of the page. Paths that name no file get the page itself, which reads the path."""
    files = StaticFiles(directory=FILES)

    async def redirect(request: Request) -> Response:
        return RedirectResponse(f"{request.scope.get('root_path', '')}/studio/")

    async def file(request: Request) -> Response:
        name: str = request.path_params["file"]
        if name in {"", "index.html"}:
            return _page(request)
        try:
            response = await files.get_response(name, request.scope)
        except HTTPException as error:
            if error.status_code == 404 and not name.startswith("assets/"):
                return _page(request)
            raise
        response.headers.update(HEADERS | (IMMUTABLE if name.startswith("assets/") else {"cache-control": "no-cache"}))
        if name == "sandbox.html":
            response.headers.update({"content-security-policy": SANDBOX_POLICY, "x-dns-prefetch-control": "off"})
        return response

    compression = [Middleware(GZipMiddleware, minimum_size=1024)]
    first, rest = STUDIO_PATHS
    return [Route(first, redirect), Route(rest, file, middleware=compression)]


def _page(request: Request) -> Response:
    """Return index.html; relative addresses in it start at the studio, also behind a prefix."""
    base = f'<base href="{request.scope.get("root_path", "")}/studio/" />'
    text = (FILES / "index.html").read_text(encoding="utf-8").replace('<base href="/studio/" />', base)
    return HTMLResponse(text, headers={**HEADERS, "content-security-policy": PAGE_POLICY, "cache-control": "no-cache"})
