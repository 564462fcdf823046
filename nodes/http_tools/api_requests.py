"""Write a request as it goes over the wire: query and body encoded, credentials and our own headers added."""

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from toolweave import __version__
from toolweave.errors import OutboundRefused
from toolweave.nodes.http_tools.credentials import Credentials
from toolweave.nodes.http_tools.specs import HTTPRequestSpec
from toolweave.outbound import OutboundRequest
from toolweave.outbound_urls import read_target
from toolweave.redact import HIDDEN, names_a_secret

LONGEST_SHOWN_URL = 300
OUR_HEADERS = {"Accept": "application/json, */*", "User-Agent": f"Toolweave/{__version__}"}


def outbound_request(spec: HTTPRequestSpec, credentials: Credentials) -> OutboundRequest:
    """Encode a request. What is configured as a credential takes the place of whatever else has its name.

    Raises:
        ValueError: the body has no JSON form.
    """
    content = b"" if spec.body is None else json_bytes(spec.body)
    headers = {**OUR_HEADERS, **({"Content-Type": "application/json"} if content else {})}
    for more in (spec.headers, credentials.headers):
        taken = {name.lower() for name in more}
        headers = {name: text for name, text in headers.items() if name.lower() not in taken} | dict(more)
    query = {name: value for name, value in spec.query.items() if name not in credentials.query}
    url = with_query(spec.url, {**query, **credentials.query})
    return OutboundRequest(spec.method, url, tuple(headers.items()), content)


def json_bytes(value: Any) -> bytes:
    """Write compact JSON; raises ValueError for NaN, infinities and what JSON has no type for."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, RecursionError):
        raise ValueError("the body has no JSON form") from None


def with_query(url: str, query: Mapping[str, Any]) -> str:
    """Put a query behind a URL; lists repeat their name, None is left out."""
    pairs = [(name, text) for name, value in query.items() for text in _texts(value)]
    if not pairs:
        return url
    encoded = urlencode(pairs, quote_via=quote, safe="*", errors="replace")
    return f"{url}{'&' if '?' in url else '?'}{encoded}"


def shown_url(spec: HTTPRequestSpec) -> str:
    """Give the request's URL for people: without what stands under the name of a secret in its query, and not long."""
    try:
        plain = read_target(spec.url).url.partition("?")[0]
    except OutboundRefused:
        return "(a URL that cannot be used)"
    url = with_query(plain, {name: HIDDEN if names_a_secret(name) else value for name, value in spec.query.items()})
    return url if len(url) <= LONGEST_SHOWN_URL else f"{url[:LONGEST_SHOWN_URL]}…"


def _texts(value: Any) -> Iterator[str]:
    for part in value if isinstance(value, list | tuple) else [value]:
        if part is not None:
            yield part if isinstance(part, str) else json_bytes(part).decode()
