"""Choose how a tool shows who asks, from the security requirements of its operation (W-08).

Documents hold no credentials; a tool refers to environment variables named after the document's title and the scheme:
`{env:TOOL_<TITLE>_<SCHEME>}`. The title is the author's choice: an operator who has several APIs binds each variable to
its host (`TOOLWEAVE_TOOL_ENV`).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from openapi_pydantic import SecurityScheme
from pydantic import ValidationError

from toolweave.servers.registry.openapi.parts import read_scheme, read_title
from toolweave.servers.registry.openapi.references import Document, Unusable, shown
from toolweave.tool_config import MOST_HEADERS, ApiAuth

MOST_ALTERNATIVES = 50
LONGEST_SLUG = 40
LONGEST_NAME = 1_000
_TOO_MANY = "it wants more credentials at once than a tool sends"
_WORD_BEGINS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NOT_IN_VARIABLES = re.compile(r"[^A-Z0-9]+")

Kind = Literal["header", "query", "bearer", "basic"]
Warn = Callable[[str], None]


@dataclass(frozen=True)
class Shown:
    """How one scheme is fulfilled: with what kind of credential, under which name, from which variable."""

    kind: Kind
    name: str
    variable: str

    @property
    def value(self) -> str:
        """Give the reference to the credential."""
        return f"{{env:{self.variable}}}"

    def as_auth(self) -> ApiAuth:
        """Give the credential as a tool's `auth`; raises Unusable for a name that cannot be one."""
        if self.kind in ("bearer", "basic"):
            return ApiAuth(type="bearer" if self.kind == "bearer" else "basic", value=self.value)
        location: Literal["header", "query"] = "query" if self.kind == "query" else "header"
        try:
            return ApiAuth(type="api_key", location=location, name=self.name, value=self.value)
        except ValidationError as error:
            raise Unusable(f"the API key '{shown(self.name)}' cannot be sent: {error.errors()[0]['msg']}") from None

    def as_header(self) -> tuple[str, str]:
        """Give the credential as a header beside the `auth`."""
        return ("Authorization", f"Bearer {self.value}") if self.kind == "bearer" else (self.name, self.value)


@dataclass(frozen=True)
class Security:
    """What an operation sends to show who asks."""

    auth: ApiAuth = field(default_factory=ApiAuth)
    headers: dict[str, str] = field(default_factory=dict)


def security_of(document: Document, requirements: Any, warn: Warn) -> Security:
    """Choose the first of the alternatives that can be fulfilled.

    Of schemes that belong together one becomes the `auth`; the others become headers.

    Raises:
        Unusable: none can be fulfilled.
    """
    if not requirements:
        return Security()
    if not isinstance(requirements, list):
        raise Unusable("its security requirements are no list")
    reasons = []
    for alternative in requirements[:MOST_ALTERNATIVES]:
        try:
            return _fulfilled(document, alternative, warn)
        except Unusable as error:
            reasons.append(str(error))
    raise Unusable(f"none of its security requirements can be fulfilled: {'; '.join(dict.fromkeys(reasons))}"[:400])


def slug(text: str, otherwise: str) -> str:
    """Write a text as a part of a variable's name."""
    return (
        _NOT_IN_VARIABLES.sub("_", _WORD_BEGINS.sub("_", text[:LONGEST_NAME]).upper())
        .strip("_")[:LONGEST_SLUG]
        .rstrip("_")
        or otherwise
    )


def _fulfilled(document: Document, alternative: Any, warn: Warn) -> Security:
    if not isinstance(alternative, dict):
        raise Unusable("a security requirement is no object")
    if len(alternative) > MOST_HEADERS:
        raise Unusable(_TOO_MANY)
    schemes = [_shown(document, name, warn) for name in alternative]
    # Only the auth can go to the query or be encoded as "basic" wants it.
    schemes.sort(key=lambda one: one.kind not in ("query", "basic"))
    if not schemes:
        return Security()
    if any(one.kind in ("query", "basic") for one in schemes[1:]):
        raise Unusable(_TOO_MANY)
    headers = dict(one.as_header() for one in schemes[1:])
    taken = [name.lower() for name in headers] + [_header(schemes[0])]
    if len(set(taken)) < len(schemes):
        raise Unusable("it wants two credentials in the same header")
    return Security(schemes[0].as_auth(), headers)


def _header(one: Shown) -> str:
    return "authorization" if one.kind in ("bearer", "basic") else one.name.lower() if one.kind == "header" else "?"


def _shown(document: Document, name: str, warn: Warn) -> Shown:
    components = document.content.get("components")
    declared = components.get("securitySchemes") if isinstance(components, dict) else None
    if not isinstance(declared, dict) or name not in declared:
        raise Unusable(f"the security scheme {shown(name)} is not in the document")
    scheme = read_scheme(document, declared[name])
    variable = f"TOOL_{slug(read_title(document), 'API')}_{slug(name, 'KEY')}"
    kind = _kind(scheme, name)
    if scheme.type in ("oauth2", "openIdConnect"):
        warn(f"the scheme {shown(name)} is {scheme.type}: put a token for it into {variable}; none is asked for")
    return Shown(kind, scheme.name or "", variable)


def _kind(scheme: SecurityScheme, name: str) -> Kind:
    form = (scheme.type, (scheme.security_scheme_in or scheme.scheme or "").lower())
    match form:
        case ("apiKey", "header") if scheme.name:
            return "header"
        case ("apiKey", "query") if scheme.name:
            return "query"
        case ("http", "bearer") | ("oauth2", _) | ("openIdConnect", _):
            return "bearer"
        case ("http", "basic"):
            return "basic"
    raise Unusable(
        f"the security scheme {shown(name)} ({shown(' '.join(filter(None, form)))}) is of a kind that is not sent"
    )
