"""Resolve what an operation's configuration says an API is to be shown, at the last moment (W-08).

What is resolved here goes into the one request that is being sent, and nowhere else.
"""

from base64 import b64encode
from dataclasses import dataclass, field

from toolweave.config.tool_variables import ToolVariables
from toolweave.errors import ConfigError
from toolweave.outbound_urls import read_target
from toolweave.tool_config import ApiAuth, ToolConfig


@dataclass(frozen=True, slots=True)
class Credentials:
    """Headers and query parameters that show who asks, and every text that must not be seen in what comes back."""

    headers: dict[str, str] = field(repr=False)
    query: dict[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)


def credentials_of(tool: ToolConfig, variables: ToolVariables) -> Credentials:
    """Fill in a tool's references to variables; the values may go to its own host only.

    Raises:
        ConfigError: a variable may not be used for this host or is not set, or a value cannot be sent. The text names
            the variable or the place, never a value.
    """
    authority = read_target(tool.api.base_url).authority
    headers = {name: variables.resolve(tool.api.headers[name], authority) for name in sorted(tool.secret_headers)}
    secrets = [part for text in headers.values() for part in (text, text.partition(" ")[2])]
    secrets += [value for name in headers for value in variables.filled_in(tool.api.headers[name])]
    query: dict[str, str] = {}
    auth = tool.api.auth
    if auth.type != "none" and auth.value is not None:
        value = variables.resolve(auth.value, authority)
        if auth.type == "api_key" and auth.location == "query":
            query[auth.name or ""] = value
            secrets.append(value)
        else:
            name, shown, own = _header(auth, value)
            headers = {given: text for given, text in headers.items() if given.lower() != name.lower()} | {name: shown}
            secrets += own
        secrets += variables.filled_in(auth.value) if auth.type != "basic" else ()
    _require_sendable(headers)
    return Credentials(headers, query, tuple(dict.fromkeys(secret for secret in secrets if secret.strip())))


def _header(auth: ApiAuth, value: str) -> tuple[str, str, list[str]]:
    """Give the header's name and value, and what of it is secret."""
    if auth.type == "api_key":
        return auth.name or "", value, [value]
    if auth.type == "bearer":
        return "Authorization", f"Bearer {value}", [value]
    name, colon, password = value.partition(":")
    if not colon:
        raise ConfigError("The value of basic auth is not of the form name:password.")
    encoded = b64encode(value.encode("utf-8", "surrogateescape")).decode()
    # Some APIs take a key as the name, and no password.
    return "Authorization", f"Basic {encoded}", [encoded, value, password or name]


def _require_sendable(headers: dict[str, str]) -> None:
    for name, text in headers.items():
        if not text.isascii() or not text.isprintable():
            raise ConfigError(
                f"What is configured for the header {name} holds a character that headers cannot carry, "
                "such as the line break at the end of a file."
            )
