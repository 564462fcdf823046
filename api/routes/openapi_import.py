"""Import tools from OpenAPI documents, fetched under the outbound policy: /tools/import/openapi (W-01, W-09)."""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, Self

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from toolweave.api.errors import json_response
from toolweave.api.langgraph_client import require_known_caller
from toolweave.api.request_bodies import strict_json
from toolweave.api.routes.tools import (
    ERROR_RESPONSES,
    Registry,
    StoredTools,
    Variables,
    run_in_import_thread,
    store_tools,
)
from toolweave.config.outbound_allow import AllowedTarget
from toolweave.config.settings import Settings
from toolweave.errors import OutboundFailed
from toolweave.json_values import MAX_VALUES, has_more_values, too_many_values_text
from toolweave.outbound import OutboundLimits, OutboundPolicy, OutboundRequest, open_outbound_client
from toolweave.runtime.codec import loads
from toolweave.servers.registry.openapi.document import MAX_DOCUMENT_BYTES
from toolweave.servers.registry.openapi.importing import ImportOptions, import_openapi, readable_tools
from toolweave.servers.registry.repository import OnConflict
from toolweave.tool_config import ApiAuth

ACCEPT = "application/json, application/yaml;q=0.9, */*;q=0.5"


Document = bytes | str | Mapping[str, Any]


async def fetch_document(url: str, allow: tuple[AllowedTarget, ...]) -> tuple[bytes, str]:
    """Fetch a document; return its bytes and the URL after redirects.

    Raises:
        OutboundRefused: the policy forbids the request.
        OutboundFailed: there is no usable response, or its status is not 200.
    """
    policy = OutboundPolicy(allow=allow, limits=OutboundLimits(max_response_bytes=MAX_DOCUMENT_BYTES))
    async with open_outbound_client(policy) as client:
        response = await client.send(OutboundRequest("GET", url, (("Accept", ACCEPT),)))
    if response.status != 200:
        raise OutboundFailed(f"The document's URL answers with status {response.status}.", reason="transfer")
    return response.body, response.url


# Documents of large APIs are parsed in a thread.
MAX_DOCUMENT_VALUES = 2 * MAX_VALUES
router = APIRouter(
    prefix="/tools", tags=["tools"], dependencies=[Depends(require_known_caller)], responses=ERROR_RESPONSES
)
Filter = Annotated[str, Field(min_length=1, max_length=500)]


class ImportParams(BaseModel):
    """The options of an import. If the body is the document itself, they are query parameters."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    base_url: Annotated[str, Field(min_length=1, max_length=2_000)] | None = Field(
        default=None, description="Base URL of the API, instead of the document's servers."
    )
    prefix: str = Field(
        default="",
        pattern=r"^(?:[A-Za-z0-9][A-Za-z0-9_-]{0,39})?$",
        description="Prefix of every tool_id, such as shop_.",
    )
    tags: list[Filter] = Field(default_factory=list, max_length=100, description="Only operations with one of these.")
    operations: list[Filter] = Field(
        default_factory=list, max_length=500, description="Only what these globs match: operation ids or METHOD /path."
    )
    on_conflict: OnConflict = Field(default="error", description="What to do with tools whose ids exist.")


class OpenApiImport(ImportParams):
    """The document or its URL, and the credentials of its tools if they differ from the document's."""

    document: dict[str, Any] | str | None = Field(default=None, description="The document, or its text.")
    url: Annotated[str, Field(min_length=1, max_length=8_192)] | None = Field(
        default=None, description="URL from which the document is fetched."
    )
    auth: ApiAuth | None = Field(default=None, description="Instead of the document's security schemes.")

    @model_validator(mode="after")
    def _check_alternatives(self) -> Self:
        if (self.document is None) == (self.url is None):
            raise ValueError("give either document or url")
        return self


def _envelope_schema() -> dict[str, Any]:
    schema = OpenApiImport.model_json_schema(ref_template="#/components/schemas/{model}")
    # The OpenAPI document has these definitions among its own.
    return {name: part for name, part in schema.items() if name != "$defs"}


REQUEST_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "An OpenAPI 3 document, or an object with `document` or `url` and the options.",
        "content": {
            "application/json": {"schema": {"anyOf": [_envelope_schema(), {"type": "object"}]}},
            "application/yaml": {"schema": {"type": "string"}},
        },
    }
}


@router.post(
    "/import/openapi",
    status_code=201,
    response_model=StoredTools,
    openapi_extra=REQUEST_BODY,
    responses={409: {}, 502: {}},
)
async def import_document(
    request: Request, query: Annotated[ImportParams, Query()], registry: Registry, variables: Variables
) -> Response:
    """Store each operation of an OpenAPI document as a tool; the response names those that are skipped.

    The body is the document as JSON or YAML, or an object with `document` or `url` and the options. A URL is fetched
    under the outbound policy (W-09). Tools contain no credentials: their `auth` names variables.
    """
    parsed, document, url = await _read_request(await request.body(), query, request.app.state.settings)
    text = document.encode("utf-8", "replace") if isinstance(document, str) else document
    # The values of a parsed document were counted in the body.
    if isinstance(text, bytes) and await has_more_values(text, MAX_DOCUMENT_VALUES):
        raise HTTPException(413, too_many_values_text(MAX_DOCUMENT_VALUES))
    options = ImportOptions(
        base_url=parsed.base_url,
        document_url=url,
        prefix=parsed.prefix,
        tags=tuple(parsed.tags),
        operations=tuple(parsed.operations),
        auth=parsed.auth,
    )
    imported = await run_in_import_thread(import_openapi, document, options)
    registered = await registry.find([*imported.function_ids, *imported.function_ids.values()])
    tools = readable_tools(imported, registered)
    answer = await store_tools(registry, tools, variables, parsed.on_conflict, usable_only=True)
    result = {**answer, "skipped": [*imported.skipped, *answer["skipped"]], "warnings": imported.warnings}
    return json_response(result, 201)


async def _read_request(
    body: bytes, query: ImportParams, settings: Settings
) -> tuple[OpenApiImport, Document, str | None]:
    envelope = await asyncio.to_thread(_parse_envelope, body)
    options = query.model_dump(exclude_unset=True)
    if envelope is None:
        return OpenApiImport(document="", **options), body, None
    try:
        parsed = OpenApiImport.model_validate({**options, **envelope})
    except ValidationError as error:
        errors = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
        raise RequestValidationError(errors) from None
    if parsed.url is not None:
        return parsed, *await fetch_document(parsed.url, settings.outbound_allow)
    return parsed, parsed.document or "", None


def _parse_envelope(body: bytes) -> dict[str, Any] | None:
    """Parse the object around the document; return None if the body is the document."""
    try:
        value = loads(body)
    except ValueError:
        return None
    if not isinstance(value, dict) or not {"document", "url"} & value.keys() or {"openapi", "swagger"} & value.keys():
        return None
    envelope: dict[str, Any] = strict_json(body)
    return envelope
