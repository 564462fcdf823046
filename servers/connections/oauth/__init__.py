"""Request, store and renew OAuth tokens for remote MCP servers."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from toolweave.config.settings import Settings
from toolweave.encryption import OAUTH_FOLDER


@dataclass(frozen=True, slots=True)
class TokenLocation:
    """Where tokens are stored: the OS keyring, or encrypted files in `folder`; "auto" uses the keyring if there is one.

    `key` encrypts the files; without it a key file is created beside them.
    """

    folder: Path
    store: Literal["auto", "keyring", "file"] = "auto"
    key: str | None = field(default=None, repr=False)


def token_location(settings: Settings) -> TokenLocation:
    """Return the token location from the settings: the folder `oauth` in the data folder."""
    key = settings.token_key.get_secret_value() if settings.token_key else None
    return TokenLocation(settings.data_dir.absolute() / OAUTH_FOLDER, settings.token_store, key)
