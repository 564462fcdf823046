"""Get, keep and renew the tokens for remote MCP servers that ask for OAuth."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from toolweave.config.settings import Settings
from toolweave.encryption import OAUTH_FOLDER


@dataclass(frozen=True, slots=True)
class TokenLocation:
    """Where tokens are kept: the OS keyring, or encrypted files in `folder`; "auto" takes the keyring if there is one.

    `key` encrypts the files; without one a key file is made beside them.
    """

    folder: Path
    store: Literal["auto", "keyring", "file"] = "auto"
    key: str | None = field(default=None, repr=False)


def token_location(settings: Settings) -> TokenLocation:
    """Name the place that the settings say: `oauth` in the data folder."""
    key = settings.token_key.get_secret_value() if settings.token_key else None
    return TokenLocation(settings.data_dir.absolute() / OAUTH_FOLDER, settings.token_store, key)
