"""The `auth` section of langgraph.json: who may use the server."""

from typing import Any

from pydantic import Field

from toolweave.config.sections import ImportTarget, Section


class AuthCache(Section):
    """Remember who a caller is: one answer per combination of the headers `cache_keys`."""

    cache_keys: tuple[str, ...] = Field(min_length=1)
    ttl_seconds: float = Field(default=60, gt=0, allow_inf_nan=False)
    max_size: int = Field(default=1000, ge=1)


class AuthOpenApi(Section):
    """What openapi.json says of the authentication; each member has the form the OpenAPI specification gives it."""

    securitySchemes: dict[str, dict[str, Any]] = Field(default_factory=dict)  # noqa: N815 - the file's spelling
    security: tuple[dict[str, list[str]], ...] = ()
    paths: dict[str, dict[str, list[dict[str, list[str]]]]] = Field(default_factory=dict)


class AuthEntry(Section):
    """The `auth` section: `path` is the target of a `langgraph_sdk.Auth`."""

    path: ImportTarget
    disable_studio_auth: bool = False
    openapi: AuthOpenApi | None = None
    cache: AuthCache | None = None
