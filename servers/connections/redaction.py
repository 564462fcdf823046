"""Hide the secrets of an MCP server in logs, errors and results."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import BaseModel, ValidationError

from toolweave.config.mcp import McpServerConfig
from toolweave.redact import KnownSecrets, encoded_forms, is_secret_name, redact, redact_text, sort_longest_first

Model = TypeVar("Model", bound=BaseModel)

MIN_SECRET_LENGTH = 6
MIN_CREDENTIAL_LENGTH = 12
MIN_RANDOM_LENGTH = 20
MIN_LINE_LENGTH = 12
MAX_LINE_CHARS = 600
MAX_ADDED_SECRETS = 200


class Redaction:
    """Replace one server's secrets wherever they appear in a text.

    The secrets are the env values and header values of its entry, the credentials in its URL, the variables filled into
    the entry (A-06), the database passwords of a server in this process, and the newest 200 secrets that were added
    later, such as tokens and callers' headers. `sanitize` and `redact` also hide text that looks like a secret and
    values under a name for a secret.

    Logs hide all of these: there, hiding too much is better than too little. `redact_credentials` and `redact_message`
    are for server content that models and people read. They hide credentials only, so that a result does not lose the
    name of a tenant or a region.
    """

    def __init__(self, config: McpServerConfig) -> None:
        candidates = [*_credentials(config), *config.env.values(), *config.headers.values()]
        candidates += [urlsplit(config.url or "").query, *(text.partition(" ")[2] for text in config.headers.values())]
        # A variable with a path, such as a folder or an interpreter, is no secret, and errors name that path.
        candidates += [value for value in config.secret_values if not _is_path(value)]
        self._configured = {form for text in candidates for form in _secret_forms(text)}
        self._own_credentials = {form for text in _credentials(config) for form in _secret_forms(text)}
        self._added: dict[str, None] = {}
        self._rebuild()

    def add(self, secret: str) -> None:
        """Hide this secret from now on, unless it is so short that ordinary text may contain it."""
        if secret in self._added or len(secret) < MIN_SECRET_LENGTH:
            return
        self._added[secret] = None
        if len(self._added) > MAX_ADDED_SECRETS:
            del self._added[next(iter(self._added))]
        self._rebuild()

    def hide_secrets(self, text: str) -> str:
        """Return `text` with all known secrets replaced."""
        return self._secrets.hide(text)

    def redact_credentials(self, value: Any) -> Any:
        """Return JSON values with the server's credentials replaced."""
        return self._credentials.hide_in_json(value)

    def redact_message(self, message: Model) -> Model:
        """Return a message from the server with its credentials replaced.

        Raises:
            ValidationError: the message is invalid after the replacement.
        """
        if not self._credentials.forms:
            return message
        text = message.model_dump_json(by_alias=True)
        if not self._credentials.occur_in(text):
            return message
        return type(message).model_validate_json(self._credentials.hide(text))

    def sanitize(self, text: str) -> str:
        """Return `text` on one line, without secrets and control characters, cut to `MAX_LINE_CHARS`."""
        text = redact_text(text, self.hide_secrets)
        text = " ".join("".join(char if char.isprintable() else " " for char in text).split())
        return text if len(text) <= MAX_LINE_CHARS else f"{text[:MAX_LINE_CHARS]}…"

    def redact(self, value: Any) -> Any:
        """Return `value` as JSON values of limited size without secrets; see `toolweave.redact`."""
        return redact(value, self.hide_secrets)

    def _rebuild(self) -> None:
        added = {form for text in self._added for form in _secret_forms(text)}
        self._secrets = KnownSecrets(sort_longest_first(self._configured | added, MIN_SECRET_LENGTH))
        self._credentials = KnownSecrets(sort_longest_first(self._own_credentials | added, MIN_CREDENTIAL_LENGTH))


def describe_error(error: BaseException) -> str:
    """Return an error's type and text, without pydantic's text: it quotes parts of secrets, which no filter finds."""
    if isinstance(error, ValidationError):
        return f"it is not a valid {error.title}"
    return f"{type(error).__name__}: {error}".rstrip(": ")


def _credentials(config: McpServerConfig) -> Iterator[str]:
    """Yield the values of an entry that are certainly secrets, by their names or because they look random."""
    url = urlsplit(config.url or "")
    named = [*config.env.items(), *config.headers.items(), *parse_qsl(url.query)]
    for name, value in named:
        if is_secret_name(name) or name.lower().endswith("key"):
            yield from (value, value.partition(" ")[2])
    for address in (config.url or "", *config.env.values(), *_database_urls(config)):
        yield from _passwords(address)
    yield (config.auth and config.auth.client_secret) or ""
    yield from (value for value in config.secret_values if _is_random(value) and not _is_path(value))


def _database_urls(config: McpServerConfig) -> list[str]:
    """Return the database URLs of a server that runs in this process."""
    settings = config.settings
    if settings is None:
        return []
    urls = (
        settings.query_database_url,
        settings.todo_database_url,
        settings.database_url,
        settings.database_direct_url,
    )
    return [url for url in urls if url]


def _passwords(address: str) -> Iterator[str]:
    try:
        password = urlsplit(address).password or ""
    except ValueError:
        return  # not a URL
    yield from (password, unquote(password))


def _is_random(text: str) -> bool:
    kinds = (any(map(str.isalpha, text)), any(map(str.isdigit, text)))
    return len(text) >= MIN_RANDOM_LENGTH and all(kinds) and not any(map(str.isspace, text)) and "://" not in text


def _is_path(text: str) -> bool:
    """Return whether a text is a path, also of a missing file: the error then names it."""
    path = Path(text)
    top_folder = path.parents[-2:-1] if path.is_absolute() else ()
    try:
        return path.exists() or any(folder.exists() for folder in top_folder)
    except OSError:
        return False  # longer than any path, such as a token


def _secret_forms(secret: str) -> list[str]:
    """Return a secret in its usual encodings and, if it has several lines, each long line: logs split it."""
    lines = [line for line in map(str.strip, secret.splitlines()) if len(line) >= MIN_LINE_LENGTH]
    return [*encoded_forms(secret), *lines]
