"""Open the vault that the settings ask for, and hold a server's tokens for one process at a time."""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from loguru import logger

from toolweave.errors import TokenStoreError
from toolweave.private_files import FILE_MODE, make_folder
from toolweave.servers.connections.oauth.keyring_vault import KeyringVault, os_keyring
from toolweave.servers.connections.oauth.place import TokenPlace
from toolweave.servers.connections.oauth.sealed_files import SealedFiles
from toolweave.servers.connections.oauth.vault import GrantKey, Vault

LOCK_POLL_S = 0.05
LOCK_PATIENCE_S = 40.0


def open_vault(place: TokenPlace) -> Vault:
    """Open the keyring or the files; blocks, as a keyring may ask its daemon.

    Raises:
        TokenStoreError: a keyring is wanted and there is none.
    """
    backend = None if place.store == "file" else os_keyring()
    if backend is not None:
        return KeyringVault(backend, place.folder)
    if place.store == "keyring":
        raise TokenStoreError(
            "TOOLWEAVE_TOKEN_STORE is keyring, and this machine has none that can be used. Set it to file or auto."
        )
    logger.debug("tokens are kept in encrypted files in {}", place.folder)
    return SealedFiles(place.folder, place.key)


@asynccontextmanager
async def hold(place: TokenPlace, key: GrantKey, *, patience_s: float = LOCK_PATIENCE_S) -> AsyncIterator[None]:
    """Exclude every other process, and every other task, from changing the tokens of `key`.

    A refresh token works once where servers rotate them: whoever uses it must be the only one, and keep the next.

    Raises:
        TokenStoreError: the folder cannot be written to, or somebody else does not let go.
    """
    path = place.folder / f"{key.label}.lock"
    try:
        make_folder(place.folder)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    except OSError as error:
        raise TokenStoreError(f"{path}: {error.strerror}") from error
    try:
        await _take(descriptor, patience_s)
        yield
    finally:
        os.close(descriptor)


async def _take(descriptor: int, patience_s: float) -> None:
    try:
        async with asyncio.timeout(patience_s):
            while not _try(descriptor):  # noqa: ASYNC110 - another process gives no signal
                await asyncio.sleep(LOCK_POLL_S)
    except TimeoutError:
        raise TokenStoreError("another process has held the stored tokens for too long") from None


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
