"""Make tools of OpenAPI documents, fetched under the outbound policy: /tools/import/openapi (W-01, W-09)."""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, Self

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from toolweave.api.errors import json_response
from toolweave.api.langgraph_client import require_known_caller
from toolweave.api.request_bodies import strict_json
from toolweave.api.routes.tools import REFUSALS, Registry, Variables
from toolweave.api.tool_requests import StoredTools, run_in_import_thread, store_tools
from toolweave.config.outbound_allow import AllowedTarget
from toolweave.config.settings import Settings
from toolweave.errors import OutboundFailed
from toolweave.json_values import MAX_VALUES, has_more_values, too_many_values
from toolweave.outbound import OutboundLimits, OutboundPolicy, OutboundRequest, open_outbound_client
from toolweave.runtime.codec import loads
from toolweave.servers.registry.openapi.document import MAX_DOCUMENT_BYTES
from toolweave.servers.registry.openapi.importing import ImportOptions, import_openapi
from toolweave.servers.registry.repository import OnConflict
from toolweave.tool_config import ApiAuth

ACCEPT = "application/json, application/yaml;q=0.9, */*;q=0.5"


Document = bytes | str | Mapping[str, Any]


async def fetch_document(url: str, allow: tuple[AllowedTarget, ...]) -> tuple[bytes, str]:
    """Fetch a document; gives it as it came, and the URL that it came from in the end.

    Raises:
        OutboundRefused: the policy does not let a request go there.
        OutboundFailed: there is no usable answer, or none with status 200.
    """
    policy = OutboundPolicy(allow=allow, limits=OutboundLimits(response_bytes=MAX_DOCUMENT_BYTES))
    async with open_outbound_client(policy) as client:
        answer = await client.send(OutboundRequest("GET", url, (("Accept", ACCEPT),)))
    if answer.status != 200:
        raise OutboundFailed(f"The document's URL answers with status {answer.status}.", reason="transfer")
    return answer.body, answer.url


# Descriptions of large APIs are read on a thread.
MOST_VALUES = 2 * MAX_VALUES
router = APIRouter(prefix="/tools", tags=["tools"], dependencies=[Depends(require_known_caller)], responses=REFUSALS)
Text = Annotated[str, Field(min_length=1, max_length=500)]


class ImportChoices(BaseModel):
    """What to import and how; beside a document in the body they stand in the query."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    base_url: Annotated[str, Field(min_length=1, max_length=2_000)] | None = Field(
        default=None, description="Where the API is, instead of the document's servers."
    )
    prefix: str = Field(
        default="",
        pattern=r"^(?:[A-Za-z0-9][A-Za-z0-9_-]{0,39})?$",
        description="What every tool_id begins with, such as shop_.",
    )
    tags: list[Text] = Field(default_factory=list, max_length=100, description="Only operations with one of these.")
    operations: list[Text] = Field(
        default_factory=list, max_length=500, description="Only these: globs over operation ids or METHOD /path."
    )
    on_conflict: OnConflict = Field(default="error", description="What becomes of tools whose ids are taken.")


class OpenApiImport(ImportChoices):
    """Where the document is, and how its tools show who asks if not as it says."""

    document: dict[str, Any] | str | None = Field(default=None, description="The document, or its text.")
    url: Annotated[str, Field(min_length=1, max_length=8_192)] | None = Field(
        default=None, description="Where the document is fetched."
    )
    auth: ApiAuth | None = Field(default=None, description="Instead of what the document's security schemes say.")

    @model_validator(mode="after")
    def _one_document(self) -> Self:
        if (self.document is None) == (self.url is None):
            raise ValueError("give either document or url")
        return self


def _envelope_schema() -> dict[str, Any]:
    schema = OpenApiImport.model_json_schema(ref_template="#/components/schemas/{model}")
    # They are among the document's own already.
    return {name: part for name, part in schema.items() if name != "$defs"}


BODIES: dict[str, Any] = {
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
    openapi_extra=BODIES,
    responses={409: {}, 502: {}},
)
async def import_document(
    request: Request, choices: Annotated[ImportChoices, Query()], registry: Registry, variables: Variables
) -> Response:
    """Make a tool of each operation of an OpenAPI document, and store them; those that cannot be are named.

    The body is the document as JSON or YAML, or an object with `document` or `url` and the options. A URL is fetched
    under the outbound policy (W-09). Tools hold no credentials but refer to variables, named in their `auth`.
    """
    wanted, document, url = await _wanted(await request.body(), choices, request.app.state.settings)
    text = document.encode("utf-8", "replace") if isinstance(document, str) else document
    # One that came parsed was counted in its body.
    if isinstance(text, bytes) and await has_more_values(text, MOST_VALUES):
        raise HTTPException(413, too_many_values(MOST_VALUES))
    options = ImportOptions(
        base_url=wanted.base_url,
        document_url=url,
        prefix=wanted.prefix,
        tags=tuple(wanted.tags),
        operations=tuple(wanted.operations),
        auth=wanted.auth,
    )
    made = await run_in_import_thread(import_openapi, document, options)
    answer = await store_tools(registry, made.tools, variables, wanted.on_conflict, usable_only=True)
    told = {**answer, "skipped": [*made.skipped, *answer["skipped"]], "warnings": made.warnings}
    return json_response(told, 201)


async def _wanted(
    body: bytes, choices: ImportChoices, settings: Settings
) -> tuple[OpenApiImport, Document, str | None]:
    given = await asyncio.to_thread(_envelope, body)
    chosen = choices.model_dump(exclude_unset=True)
    if given is None:
        return OpenApiImport(document="", **chosen), body, None
    try:
        wanted = OpenApiImport.model_validate({**chosen, **given})
    except ValidationError as error:
        found = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
        raise RequestValidationError(found) from None
    if wanted.url is not None:
        return wanted, *await fetch_document(wanted.url, settings.outbound_allow)
    return wanted, wanted.document or "", None


def _envelope(body: bytes) -> dict[str, Any] | None:
    """Read the object that says where the document is; None when the body is the document."""
    try:
        value = loads(body)
    except ValueError:
        return None
    if not isinstance(value, dict) or not {"document", "url"} & value.keys() or {"openapi", "swagger"} & value.keys():
        return None
    found: dict[str, Any] = strict_json(body)
    return found
