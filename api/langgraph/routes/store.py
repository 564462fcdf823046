"""Endpoints of the long-term store, which graphs see as `runtime.store` (langgraph_api.md section 2.6)."""

from collections.abc import Sequence

from langgraph.store.base import NOT_PROVIDED
from starlette.requests import Request
from starlette.responses import Response

from toolweave.api.langgraph.answers import json_answer
from toolweave.api.langgraph.auth import rules
from toolweave.api.langgraph.endpoints import Endpoints
from toolweave.api.langgraph.json_schema import BOOLEAN, STRING
from toolweave.api.langgraph.requests import Body, QueryParam
from toolweave.api.langgraph.serialization import row_json
from toolweave.api.langgraph.services import get_services
from toolweave.errors import BadRequest, RequestError
from toolweave.runtime.persistence.store import LongTermStore
from toolweave.runtime.persistence.store_filter import check_item_filter
from toolweave.runtime.persistence.store_items import is_tool_results

# LangGraph reserves this root label.
RESERVED_ROOT = "langgraph"
ITEM_FIELDS = ("namespace", "key", "value", "created_at", "updated_at")

endpoints = Endpoints("Store", "disable_store")
_REFRESH = QueryParam("refresh_ttl", BOOLEAN)
_GET_QUERY = (QueryParam("namespace", STRING), QueryParam("key", STRING), _REFRESH)


class BadLabelError(RequestError):
    """A namespace label is empty or contains a separator; the response is plain text."""


@endpoints("PUT /store/items", rules.put_item, "StorePutRequest", status=204, errors=(400, 422))
async def put_item(request: Request, body: Body) -> Response:
    """Store an item."""
    namespace = check_namespace(body.fields["namespace"])
    if not namespace:
        raise BadRequest("Namespace cannot be empty.")
    if namespace[0] == RESERVED_ROOT:
        raise BadRequest(f'Root label for namespace cannot be "{RESERVED_ROOT}". Got: {namespace}')
    _refuse_tool_results(namespace)
    await _store(request).aput(
        namespace, body.fields["key"], body.fields["value"], body.get("index"), ttl=body.get("ttl", NOT_PROVIDED)
    )
    return Response(None, 204)


@endpoints(
    "GET /store/items",
    rules.get_item,
    answer="StoreItem",
    errors=(400, 422),
    query=_GET_QUERY,
    error_answers={400: "PlainError"},
)
async def get_item(request: Request) -> Response:
    """Get an item.

    Null if there is none.
    """
    namespace = check_namespace(request.query_params.get("namespace", "").split("."))
    key = request.query_params.get("key")
    if not key:
        return json_answer({"error": "Key is required"}, status=400)
    item = await _store(request).aget(namespace, key, refresh_ttl=_REFRESH.read(request))
    return json_answer(None if item is None else row_json(item, *ITEM_FIELDS))


@endpoints("DELETE /store/items", rules.delete_item, "StoreDeleteRequest", status=204)
async def delete_item(request: Request, body: Body) -> Response:
    """Delete an item.

    Nothing happens if there is none.
    """
    namespace = check_namespace(body.get("namespace", ()))
    _refuse_tool_results(namespace)
    await _store(request).adelete(namespace, body.fields["key"])
    return Response(None, 204)


@endpoints(
    "POST /store/items/search", rules.search_items, "StoreSearchRequest", "StoreSearchResponse", errors=(400, 422)
)
async def search_items(request: Request, body: Body) -> Response:
    """Search items.

    Return those below a namespace.
    """
    prefix, item_filter = check_namespace(body.get("namespace_prefix", ())), body.get("filter")
    try:
        check_item_filter(item_filter)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    found = await _store(request).asearch(
        prefix,
        filter=item_filter,
        # Zero means the default.
        limit=body.get("limit") or 10,
        offset=body.get("offset", 0),
        query=body.get("query"),
        refresh_ttl=body.get("refresh_ttl"),
    )
    items = [{**row_json(item, *ITEM_FIELDS), "score": item.score} for item in found]
    return json_answer({"items": items})


@endpoints("POST /store/namespaces", rules.list_namespaces, "StoreNamespacesRequest", "StoreNamespaces")
async def list_namespaces(request: Request, body: Body) -> Response:
    """List namespaces.

    Only those that have items.
    """
    prefix, suffix = check_namespace(body.get("prefix", ())), check_namespace(body.get("suffix", ()))
    found = await _store(request).alist_namespaces(
        prefix=prefix or None,
        suffix=suffix or None,
        max_depth=body.get("max_depth"),
        limit=body.get("limit", 100),
        offset=body.get("offset", 0),
    )
    return json_answer({"namespaces": found})


def _store(request: Request) -> LongTermStore:
    return get_services(request).persistence.store.without_tool_results()


def _refuse_tool_results(namespace: tuple[str, ...]) -> None:
    if is_tool_results(namespace):
        raise BadRequest("This namespace holds tool results of a thread and is deleted with it.")


def check_namespace(labels: Sequence[str]) -> tuple[str, ...]:
    """Return the labels as a namespace. Raises BadLabelError for a label that is empty or has a period or a NUL."""
    for label in labels:
        if not label or "." in label or "\0" in label:
            raise BadLabelError(f"Namespace label '{label[:200]}' must be a non-empty string without periods")
    return tuple(labels)


async def bad_label_response(_request: Request, error: Exception) -> Response:
    """Return the response to BadLabelError, the only error without JSON and without a content type (section 3)."""
    return Response(str(error), 422)
