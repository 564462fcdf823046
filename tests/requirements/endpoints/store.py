"""Behaviours of the store's endpoints (langgraph_api.md section 2.6)."""

BAD_LABEL = "422 for a label that is not one, as plain text"
BAD_BODY = "422 for a body that is malformed"

BEHAVIOURS: dict[str, tuple[str, ...]] = {
    "PUT /store/items": (
        "204 stores or replaces an item",
        "204 embeds the requested fields",
        "204 with a time to live",
        "400 for no namespace and for LangGraph's own",
        BAD_LABEL,
        BAD_BODY,
    ),
    "GET /store/items": (
        "200 gives an item, null when there is none",
        "200 refreshes the time to live unless refresh_ttl is false",
        "400 without a key",
        BAD_LABEL,
    ),
    "DELETE /store/items": ("204 whether the item was there or not", BAD_LABEL, BAD_BODY),
    "POST /store/items/search": (
        "200 finds by namespace, filter and page; all without a prefix",
        "200 finds by meaning where an embedding is configured",
        "400 for an operator that does not exist",
        BAD_LABEL,
        BAD_BODY,
    ),
    "POST /store/namespaces": ("200 lists by beginning, end, depth and page", BAD_LABEL, BAD_BODY),
}
