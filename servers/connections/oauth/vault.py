"""Keep one secret text for each server and URL; a token never goes to another URL than it was given for."""

import hashlib
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class GrantKey:
    """Whose tokens: a server's name and the URL it had when they were given."""

    server: str
    url: str

    @property
    def label(self) -> str:
        """Name the key where the URL, which may hold credentials, must not be read."""
        both = f"{self.server} {self.url}"
        digest = hashlib.sha256(both.encode()).hexdigest()
        return f"{self.server}-{digest[:12]}"


class Vault(Protocol):
    """Where texts are kept, in whatever way; its methods block and belong on a thread."""

    def read(self, key: GrantKey) -> str | None:
        """Give the text, None if there is none.

        Raises:
            TokenStoreError: there is one that cannot be read.
        """

    def write(self, key: GrantKey, text: str) -> None:
        """Replace the text, wholly or not at all.

        Raises:
            TokenStoreError: it cannot be kept.
        """

    def delete(self, key: GrantKey) -> bool:
        """Forget the text, and what was kept for the same server under other URLs where that can be found.

        Returns whether there was one.

        Raises:
            TokenStoreError: it is still there.
        """
