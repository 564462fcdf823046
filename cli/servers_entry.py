"""Make an entry of mcp.jsonc from the options of `toolweave servers add`."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from toolweave.config.mcp_entry import check_server
from toolweave.config.variables import holds_reference
from toolweave.errors import ConfigError
from toolweave.redact import names_a_secret, names_a_secret_header

SOURCE = "servers add"


@dataclass(frozen=True, slots=True)
class Given:
    """What was given on the command line; without `url` and `command` a ready-made server is meant."""

    url: str | None
    command: Sequence[str]
    transport: str | None
    headers: Sequence[str]
    env: Sequence[str]
    oauth: bool

    def entry(self, name: str) -> dict[str, Any] | None:
        """Make the entry; None when a ready-made one is meant.

        Raises:
            ConfigError: the options contradict each other, or the entry would not be one; says which and what to do.
        """
        if not self.url and not self.command:
            for option, value in (("--header", self.headers), ("--env", self.env), ("--transport", self.transport)):
                if value:
                    raise _wrong(f"{option} goes with --url or a command.")
            if self.oauth:
                raise _wrong("--oauth goes with --url.")
            return None
        if self.url and self.command:
            raise _wrong("--url and a command exclude each other.")
        if (self.headers or self.oauth) and not self.url:
            raise _wrong("--header and --oauth go with --url; a program gets its secrets by --env.")
        if self.env and not self.command:
            raise _wrong("--env goes with a command; a remote server gets its secrets by --header.")
        entry = {key: value for key, value in self._values().items() if value}
        check_server(name, entry, lambda _: SOURCE)
        return entry

    def _values(self) -> dict[str, Any]:
        common = {"transport": self.transport}
        if self.url:
            headers = dict(_pair("--header", text, "=:") for text in self.headers)
            return {"url": self.url, **common, "headers": headers, "auth": "oauth" if self.oauth else None}
        command, *args = self.command
        if os.sep in command and not holds_reference(command):
            # The file is in another folder than the one that the person is in.
            command = str(Path(command).expanduser().absolute())
        return {"command": command, **common, "args": args, "env": dict(_pair("--env", text, "=") for text in self.env)}

    def literal_secrets(self, entry: dict[str, Any]) -> Iterator[str]:
        """Name what looks like a secret that is written out; no value."""
        for name, value in entry.get("headers", {}).items():
            if names_a_secret_header(name) and not _refers(value):
                yield f"the header {name}"
        for name, value in entry.get("env", {}).items():
            if names_a_secret(name) and not _refers(value):
                yield name
        if urlsplit(entry.get("url", "")).password:
            yield "the password in the URL"


def _refers(value: str) -> bool:
    return holds_reference(value) or "{user:" in value or "{configurable:" in value


def _pair(option: str, text: str, separators: str) -> tuple[str, str]:
    """Take NAME=VALUE apart; a header may be written as NAME: VALUE, too."""
    first = min((at for at in map(text.find, separators) if at > 0), default=None)
    if first is None:
        raise _wrong(f"{option} takes NAME=VALUE.")
    return text[:first].strip(), text[first + 1 :].strip() if option == "--header" else text[first + 1 :]


def _wrong(message: str) -> ConfigError:
    return ConfigError(message, source=SOURCE, fix="See toolweave servers add --help.")
