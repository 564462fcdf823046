"""The `http` section of langgraph.json: the application beside the API, what is served, and to which browsers."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, AliasChoices, Field

from toolweave.config.sections import ImportTarget, Section


def _compiled(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"must be a regular expression ({error.msg})") from None
    return value


def _prefix(value: str) -> str:
    value = value.rstrip("/")
    if value and (not value.startswith("/") or any(mark in value for mark in "?#{} ")):
        raise ValueError("must be a path that begins with /, such as /api")
    return value


class CorsRules(Section):
    """Which pages of other origins may use the server, beside those that always may."""

    allow_origins: tuple[str, ...] = ()
    allow_origin_regex: Annotated[str, AfterValidator(_compiled)] | None = None
    allow_methods: tuple[str, ...] | None = None
    allow_headers: tuple[str, ...] | None = None
    allow_credentials: bool = False
    expose_headers: tuple[str, ...] = ()
    max_age: int = Field(default=600, ge=0)


class HeaderRules(Section):
    """Which request headers are taken, by patterns with `*`; what is excluded stays out."""

    includes: tuple[str, ...] | None = Field(default=None, validation_alias=AliasChoices("includes", "include"))
    excludes: tuple[str, ...] | None = Field(default=None, validation_alias=AliasChoices("excludes", "exclude"))


class HttpEntry(Section):
    """The `http` section: `app` is the target of a user's own ASGI application, `mount_prefix` is "" or "/path"."""

    app: ImportTarget | None = None
    disable_assistants: bool = False
    disable_threads: bool = False
    disable_runs: bool = False
    disable_store: bool = False
    disable_mcp: bool = False
    disable_a2a: bool = False
    disable_meta: bool = False
    disable_ui: bool = False
    disable_webhooks: bool = False
    cors: CorsRules | None = None
    configurable_headers: HeaderRules | None = None
    logging_headers: HeaderRules | None = None
    middleware_order: Literal["auth_first", "middleware_first"] = "middleware_first"
    enable_custom_route_auth: bool = False
    mount_prefix: Annotated[str, AfterValidator(_prefix)] = ""
