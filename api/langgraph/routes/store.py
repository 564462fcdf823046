"""Endpoints of the long-term store, which graphs see as `runtime.store` (langgraph_api.md section 2.6)."""

from collections.abc import Sequence

from langgraph.store.base import NOT_PROVIDED, Item, SearchItem
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from toolweave.api.langgraph.answers import empty_answer, json_answer
from toolweave.api.langgraph.components import body_schema
from toolweave.api.langgraph.endpoint import Endpoint, Handler, Query
from toolweave.api.langgraph.json_schema import BOOLEAN, STRING
from toolweave.api.langgraph.requests import query_flag, read_body
from toolweave.api.langgraph.served import served
from toolweave.api.langgraph.wire import timestamp
from toolweave.errors import BadRequest, RequestError
from toolweave.runtime.models import JsonObject
from toolweave.runtime.persistence.store import SqliteStore
from toolweave.runtime.persistence.store_filter import check_filter
from toolweave.runtime.persistence.store_items import is_kept_for_a_thread

PUT = body_schema("StorePutRequest")
DELETE = body_schema("StoreDeleteRequest")
SEARCH = body_schema("StoreSearchRequest")
NAMESPACES = body_schema("StoreNamespacesRequest")
# LangGraph keeps this root to itself.
RESERVED_ROOT = "langgraph"


class BadLabelError(RequestError):
    """A namespace has a label that is empty or cannot be told from two labels; answered as plain text."""


async def put(request: Request) -> Response:
    """Store an item."""
    body = await read_body(request, PUT)
    namespace = labels(body.fields["namespace"])
    if not namespace:
        raise BadRequest("Namespace cannot be empty.")
    if namespace[0] == RESERVED_ROOT:
        raise BadRequest(f'Root label for namespace cannot be "{RESERVED_ROOT}". Got: {namespace}')
    _refuse_kept(namespace)
    await _store(request).aput(
        namespace, body.fields["key"], body.fields["value"], body.get("index"), ttl=body.get("ttl", NOT_PROVIDED)
    )
    return empty_answer(204, body.headers())


async def get(request: Request) -> Response:
    """Give an item, or null."""
    namespace = labels(request.query_params.get("namespace", "").split("."))
    key = request.query_params.get("key")
    if not key:
        return json_answer({"error": "Key is required"}, status=400)
    refresh = query_flag(request, "refresh_ttl") if "refresh_ttl" in request.query_params else None
    item = await _store(request).aget(namespace, key, refresh_ttl=refresh)
    return json_answer(None if item is None else item_json(item))


async def delete(request: Request) -> Response:
    """Delete an item, if it is there."""
    body = await read_body(request, DELETE)
    namespace = labels(body.get("namespace", ()))
    _refuse_kept(namespace)
    await _store(request).adelete(namespace, body.fields["key"])
    return empty_answer(204, body.headers())


async def search(request: Request) -> Response:
    """Find items below a namespace."""
    body = await read_body(request, SEARCH)
    prefix, wanted = labels(body.get("namespace_prefix", ())), body.get("filter")
    try:
        check_filter(wanted)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    found = await _store(request).asearch(
        prefix,
        filter=wanted,
        # Zero counts as not given.
        limit=body.get("limit") or 10,
        offset=body.get("offset", 0),
        query=body.get("query"),
        refresh_ttl=body.get("refresh_ttl"),
    )
    items = [{**item_json(item), "score": item.score} for item in found]
    return json_answer({"items": items}, headers=body.headers())


async def namespaces(request: Request) -> Response:
    """List namespaces that have items."""
    body = await read_body(request, NAMESPACES)
    prefix, suffix = labels(body.get("prefix", ())), labels(body.get("suffix", ()))
    found = await _store(request).alist_namespaces(
        prefix=prefix or None,
        suffix=suffix or None,
        max_depth=body.get("max_depth"),
        limit=body.get("limit", 100),
        offset=body.get("offset", 0),
    )
    return json_answer({"namespaces": found}, headers=body.headers())


def _store(request: Request) -> SqliteStore:
    return served(request).persistence.store.without_kept_results()


def _refuse_kept(namespace: tuple[str, ...]) -> None:
    if is_kept_for_a_thread(namespace):
        raise BadRequest("What is kept there belongs to a thread, and goes with it.")


def labels(given: Sequence[str]) -> tuple[str, ...]:
    """Give a namespace. Raises BadLabelError for a label that is empty or has a period or a NUL."""
    for label in given:
        if not label or "." in label or "\0" in label:
            raise BadLabelError(f"Namespace label '{label[:200]}' must be a non-empty string without periods")
    return tuple(given)


def item_json(item: Item | SearchItem) -> JsonObject:
    """Give an item's JSON form (section 4)."""
    return {
        "namespace": item.namespace,
        "key": item.key,
        "value": item.value,
        "created_at": timestamp(item.created_at),
        "updated_at": timestamp(item.updated_at),
    }


def _refusing_bad_labels(handler: Handler) -> Handler:
    """Answer BadLabelError: the one error of the API that is no JSON and names no type (section 3)."""

    async def answer(request: Request) -> ASGIApp:
        try:
            return await handler(request)
        except BadLabelError as error:
            return Response(str(error), 422)

    return answer


_TAG = "Store"
_ITEM = "/store/items"
_GET_QUERY = (Query("namespace", STRING), Query("key", STRING), Query("refresh_ttl", BOOLEAN))

ENDPOINTS = (
    Endpoint(
        "PUT", _ITEM, _refusing_bad_labels(put), "Store an item", _TAG, "StorePutRequest", status=204, errors=(400, 422)
    ),
    Endpoint(
        "GET",
        _ITEM,
        _refusing_bad_labels(get),
        "Get an item",
        _TAG,
        answer="StoreItem",
        errors=(400, 422),
        query=_GET_QUERY,
        error_answers={400: "PlainError"},
    ),
    Endpoint("DELETE", _ITEM, _refusing_bad_labels(delete), "Delete an item", _TAG, "StoreDeleteRequest", status=204),
    Endpoint(
        "POST",
        f"{_ITEM}/search",
        _refusing_bad_labels(search),
        "Search items",
        _TAG,
        "StoreSearchRequest",
        "StoreSearchResponse",
        errors=(400, 422),
    ),
    Endpoint(
        "POST",
        "/store/namespaces",
        _refusing_bad_labels(namespaces),
        "List namespaces",
        _TAG,
        "StoreNamespacesRequest",
        "StoreNamespaces",
    ),
)
