"""Fill in the headers of a remote server that depend on who calls (T-03).

Their values are secrets: they go into requests and nowhere else.
"""

from collections.abc import Mapping
from typing import Any

from toolweave.config.header_templates import CallerField, HeaderTemplate
from toolweave.config.mcp import McpServerConfig
from toolweave.redact import names_a_secret
from toolweave.servers.connections.wording import unknown_caller, unsendable_header

AUTH_USER = "langgraph_auth_user"
"""The key of a run's `configurable` for what the application's auth handler returned; only the server sets it."""

AUTH_USER_ID = "langgraph_auth_user_id"
LONGEST_VALUE = 16_384

Headers = dict[str, str]


def headers_without_caller(config: McpServerConfig) -> Headers:
    """Return the headers that a session for nobody in particular is opened with: those that need a caller are left out.

    Raises:
        CallRefused: a value cannot be sent in a header.
    """
    known = {name: template for name, template in config.caller_headers.items() if not template.needs_caller}
    return _filled(config, known, {}, tool=None)


def headers_of(config: McpServerConfig, configurable: Mapping[str, Any], tool: str | None = None) -> Headers:
    """Return the headers with which a server is called for whom `configurable` is about.

    A header whose value comes out empty is left out.

    Raises:
        CallRefused: something has no value for this caller and no default, or one that cannot be sent in a header.
    """
    fields = [part for template in config.caller_headers.values() for part in template.parts]
    missing = [
        part
        for part in fields
        if isinstance(part, CallerField) and part.default is None and _value(part, configurable) is None
    ]
    if missing:
        of_user = [part.path for part in missing if part.source == "user"]
        of_request = [part.path for part in missing if part.source == "configurable"]
        raise unknown_caller(config.name, tool, of_user, of_request)
    return _filled(config, config.caller_headers, configurable, tool)


def caller_secrets(config: McpServerConfig, configurable: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the values that `headers_of` takes from the caller."""
    fields = [part for template in config.caller_headers.values() for part in template.parts]
    values = (_value(part, configurable) for part in fields if isinstance(part, CallerField))
    return tuple(value for value in values if value is not None)


def caller_credentials(config: McpServerConfig, configurable: Mapping[str, Any]) -> tuple[str, ...]:
    """Return those of them that are secrets for certain: the names of their fields say so."""
    fields = [part for template in config.caller_headers.values() for part in template.parts]
    named = [part for part in fields if isinstance(part, CallerField) and names_a_secret(part.path)]
    return tuple(value for part in named if (value := _value(part, configurable)) is not None)


def identity_of(configurable: Mapping[str, Any]) -> str | None:
    """Return who is signed in, as the server found out; without an auth handler, the `user_id` the caller gives."""
    known = configurable.get(AUTH_USER_ID) or _member(configurable.get(AUTH_USER), "identity")
    return str(known or configurable.get("user_id") or "") or None


def _filled(
    config: McpServerConfig, templates: Mapping[str, HeaderTemplate], configurable: Mapping[str, Any], tool: str | None
) -> Headers:
    headers = dict(config.headers)
    for name, template in templates.items():
        text = "".join(
            part if isinstance(part, str) else _value(part, configurable) or part.default or ""
            for part in template.parts
        )
        # Line breaks would make headers of their own; blanks around a value are no part of it (RFC 9110, 5.5).
        value = text.strip(" \t")
        if len(value) > LONGEST_VALUE or any(not _is_sendable(character) for character in value):
            raise unsendable_header(config.name, tool, name)
        if value:
            headers[name] = value
    return headers


def _is_sendable(character: str) -> bool:
    code = ord(character)
    return 32 <= code < 127 or 160 <= code < 256


def _value(field: CallerField, configurable: Mapping[str, Any]) -> str | None:
    holder: Any = configurable.get(AUTH_USER) if field.source == "user" else configurable
    found = _member(holder, field.path)
    if found is None:
        found = holder
        for step in field.path.split("."):
            found = _member(found, step)
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        return None
    return str(found) or None


def _member(holder: Any, name: str) -> Any:
    """Read a member of a mapping, or of a user object, which has items or attributes."""
    if isinstance(holder, Mapping):
        return holder.get(name)
    try:
        return holder[name]
    except (KeyError, TypeError, IndexError, AttributeError):
        return None if name.startswith("_") else getattr(holder, name, None)
