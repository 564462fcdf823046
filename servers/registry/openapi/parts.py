"""Read the parts of an OpenAPI document that are no schemas, each on its own.

The models are openapi-pydantic's, those of 3.1: for these parts they take whatever 3.0 allows, too. They are applied to
one part at a time, and never to schemas: a mistake is then one operation's, `true` stays a schema and 10 stays an
integer. `fastmcp.utilities.openapi` validates a document as a whole, gives all of it up for one external reference, and
loads a web server when it is imported.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from openapi_pydantic import Operation, Parameter, SecurityScheme, Server
from pydantic import BaseModel, ValidationError

from toolweave.servers.registry.openapi.references import Document, Unusable, shown

Model = TypeVar("Model", bound=BaseModel)
_STEPS_OF_MODEL = 20
_STEPS_OF_FIELD = 10
_LONGEST_TITLE = 1_000
_READ_ELSEWHERE = frozenset(
    (
        *("schema", "content", "example", "examples", "parameters", "requestBody", "responses", "callbacks"),
        *("externalDocs", "servers", "security", "tags"),
    )
)


def read_parameter(document: Document, raw: dict[str, Any]) -> Parameter:
    """Read a parameter without its schema; raises Unusable."""
    return _read(document, Parameter, raw, f"its parameter '{shown(raw.get('name', ''))}'")


def read_operation(document: Document, raw: dict[str, Any]) -> Operation:
    """Read an operation without parameters, body and responses; raises Unusable."""
    return _read(document, Operation, raw, "it")


def read_server(document: Document, raw: Any) -> Server:
    """Read a server; raises Unusable."""
    if not isinstance(raw, dict):
        raise Unusable("its server is no object")
    return _read(document, Server, raw, "its server")


def read_scheme(document: Document, raw: Any) -> SecurityScheme:
    """Read a security scheme; raises Unusable."""
    return _read(document, SecurityScheme, document.follow(raw), "its security scheme")


def read_title(document: Document) -> str:
    """Give the title of a document, or "api" where it has none."""
    info = document.content.get("info")
    title = info.get("title") if isinstance(info, dict) else None
    return title[:_LONGEST_TITLE] if isinstance(title, str) and title[:_LONGEST_TITLE].strip() else "api"


def _read(document: Document, model: type[Model], raw: Mapping[str, Any], what: str) -> Model:
    document.look_through(raw)
    read_here = (name for name in raw if not (name in _READ_ELSEWHERE or name.startswith("x-")))
    own = {name: raw[name] for name in read_here}
    document.steps.take(_STEPS_OF_MODEL)
    document.look_into(own, _STEPS_OF_FIELD)
    try:
        return model.model_validate(own)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        raise Unusable(
            f"{what} is not what the OpenAPI specification wants: {shown(place)}: {first['msg'][:200]}"
        ) from None
