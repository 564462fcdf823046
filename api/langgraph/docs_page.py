"""Show the OpenAPI document as one plain HTML page that needs no network and no script."""

from html import escape

from toolweave.runtime.models import JsonObject

STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "h2{margin-top:2rem;border-bottom:1px solid #ddd}details{margin:.3rem 0}summary{cursor:pointer}"
    "code{background:#f3f3f3;padding:.1rem .3rem;border-radius:3px}.method{display:inline-block;width:4.5rem}"
    "td{padding:.1rem 1rem .1rem 0;vertical-align:top}"
)


def docs_page(document: JsonObject) -> str:
    """Render a document: operations by tag, with their parameters, body fields and answers."""
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    by_tag: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            tag = (operation.get("tags") or ["Application"])[0]
            by_tag.setdefault(tag, []).append(_operation(method, path, operation, document))
    sections = "".join(f"<h2>{escape(tag)}</h2>{''.join(items)}" for tag, items in by_tag.items())
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
        f'</head><body><h1>{title}</h1><p>Machine-readable: <a href="openapi.json">openapi.json</a></p>{sections}'
        "</body></html>"
    )


def _operation(method: str, path: str, operation: JsonObject, document: JsonObject) -> str:
    rows = [_row(item["name"], item.get("in", ""), item.get("schema", {})) for item in operation.get("parameters", ())]
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    body = _resolved(content.get("schema", {}), document)
    required = body.get("required", ())
    rows += [
        _row(f"{name} *" if name in required else name, "body", schema)
        for name, schema in body.get("properties", {}).items()
    ]
    answers = ", ".join(f"{status} {answer['description']}" for status, answer in operation["responses"].items())
    return (
        f'<details><summary><code class="method">{escape(method.upper())}</code> <code>{escape(path)}</code> '
        f"{escape(operation.get('summary', ''))}</summary><p>{escape(body.get('description', ''))}</p>"
        f"<table>{''.join(rows)}</table><p>{escape(answers)}</p></details>"
    )


def _row(name: str, where: str, schema: JsonObject) -> str:
    return f"<tr><td><code>{escape(name)}</code></td><td>{escape(where)}</td><td>{escape(_kind(schema))}</td></tr>"


def _kind(schema: JsonObject) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return " | ".join(str(choice) for choice in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_kind(part) for part in schema["anyOf"])
    kind = schema.get("type", "any")
    name = " or ".join(kind) if isinstance(kind, list) else str(kind)
    return f"{name} of {_kind(schema['items'])}" if "items" in schema else name


def _resolved(schema: JsonObject, document: JsonObject) -> JsonObject:
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    found: JsonObject = document["components"]["schemas"].get(name, schema)
    return found
