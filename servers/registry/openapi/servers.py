"""Find the base URL of an operation: its own servers, else its path's, else the document's."""

import re
from typing import Any
from urllib.parse import urljoin

from openapi_pydantic import Server

from toolweave.errors import OutboundRefused
from toolweave.outbound_urls import read_target
from toolweave.servers.registry.openapi.parts import read_server
from toolweave.servers.registry.openapi.references import Document, Unusable, shown

LONGEST_URL = 2_000
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def base_url(document: Document, levels: list[Any], document_url: str | None) -> str:
    """Give the URL of the first server of the first of the levels that has one, its variables filled by their defaults.

    Args:
        document: its steps are taken.
        levels: the `servers` of the operation, its path and the document, each None where there are none.
        document_url: what a relative URL is relative to.

    Raises:
        Unusable: there is none, or it is relative to an unknown place, or no http(s) URL.
    """
    servers = next((level for level in levels if level), [{"url": "/"}])
    if not isinstance(servers, list):
        raise Unusable("its servers are no list")
    url = _filled(read_server(document, servers[0]))
    if document_url is None and not _SCHEME.match(url):
        raise Unusable(f"its server '{shown(url)}' is relative to nothing known; give the base_url of the API")
    try:
        url = url if _SCHEME.match(url) else _absolute(url, document_url or "")
        read_target(url)
    except (OutboundRefused, ValueError) as error:
        raise Unusable(f"its server {shown(url)} cannot be called: {error}") from None
    return url


def _absolute(url: str, document_url: str) -> str:
    # A URL that begins with // names its host, also where that is empty.
    return document_url.partition("//")[0] + url if url.startswith("//") else urljoin(document_url, url)


def _filled(server: Server) -> str:
    url = server.url.strip()
    for name, variable in (server.variables or {}).items():
        url = url.replace(f"{{{name}}}", variable.default)
        if len(url) > LONGEST_URL:
            raise Unusable("the URL of its server is too long")
    return url
