"""Keep tokens in encrypted files, one for each server and URL."""

import os
import re
from pathlib import Path

from toolweave.errors import TokenStoreError
from toolweave.private_files import make_folder, opened_folder, write_file
from toolweave.sealing import Seal
from toolweave.servers.connections.oauth.vault import GrantKey

LARGEST_FILE = 1_000_000


class SealedFiles:
    """A vault of files that are replaced atomically: a process killed at any moment leaves the old text or the new.

    Args:
        folder: made, for its owner only, when first written to.
        key: see `Seal`.
    """

    def __init__(self, folder: Path, key: str | None = None) -> None:
        self._folder = folder
        self._seal = Seal(folder, key)

    def read(self, key: GrantKey) -> str | None:
        """See `Vault.read`."""
        path = self._path(key)
        try:
            with path.open("rb") as file:
                sealed = file.read(LARGEST_FILE)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise TokenStoreError(f"{path}: {error.strerror}") from error
        return self._seal.open(sealed)

    def write(self, key: GrantKey, text: str) -> None:
        """See `Vault.write`; two writers of one key must exclude each other (`hold`)."""
        path = self._path(key)
        draft = path.with_suffix(".new")
        try:
            make_folder(self._folder)
            write_file(draft, self._seal.close(text))
            draft.replace(path)
            with opened_folder(self._folder) as folder:
                os.fsync(folder)
        except OSError as error:
            raise TokenStoreError(f"{path}: {error.strerror}") from error

    def delete(self, key: GrantKey) -> bool:
        """See `Vault.delete`."""
        own = re.compile(rf"{re.escape(key.server)}-[0-9a-f]{{12}}\.(?:tokens|new)")
        try:
            found = [path for path in self._folder.glob("*") if own.fullmatch(path.name)]
            for path in found:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise TokenStoreError(f"{self._folder}: {error.strerror}") from error
        return bool(found)

    def _path(self, key: GrantKey) -> Path:
        return self._folder / f"{key.label}.tokens"
