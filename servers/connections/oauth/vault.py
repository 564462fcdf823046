"""Store one secret text per server and URL; a token is never sent to another URL than the one it was issued for."""

import asyncio
import hashlib
import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import keyring
from keyring.backend import KeyringBackend
from keyring.errors import KeyringError, PasswordDeleteError
from loguru import logger

from toolweave.encryption import TextCipher
from toolweave.errors import TokenStoreError
from toolweave.files import FILE_MODE, make_folder, replace_file, try_lock
from toolweave.servers.connections.oauth import TokenLocation

KEYRING_SERVICE = "toolweave"
PROBE_NAME = "probe"
MAX_FILE_BYTES = 1_000_000
LOCK_POLL_INTERVAL_S = 0.05
LOCK_WAIT_S = 40.0


@dataclass(frozen=True, slots=True)
class GrantKey:
    """The key of stored tokens: a server's name and the URL that the tokens were issued for."""

    server: str
    url: str

    @property
    def storage_name(self) -> str:
        """Return the key as text without the URL, which may contain credentials."""
        both = f"{self.server} {self.url}"
        digest = hashlib.sha256(both.encode()).hexdigest()
        return f"{self.server}-{digest[:12]}"


@contextmanager
def _translate_errors(subject: object) -> Iterator[None]:
    try:
        yield
    except KeyringError as error:
        raise TokenStoreError(f"{subject} ({type(error).__name__})") from error
    except OSError as error:
        raise TokenStoreError(f"{subject}: {error.strerror}") from error


class KeyringVault:
    """A vault in a keyring; each data folder has its own entries and its own lock.

    Args:
        backend: the keyring.
        folder: the folder that identifies this installation.
    """

    def __init__(self, backend: KeyringBackend, folder: Path) -> None:
        self._backend = backend
        self._service = f"{KEYRING_SERVICE}-{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"

    def read(self, key: GrantKey) -> str | None:
        """Return the text, None if there is none; blocks, like `write` and `delete`.

        Raises:
            TokenStoreError: the text cannot be read.
        """
        with _translate_errors("the keyring cannot be used"):
            return self._backend.get_password(self._service, key.storage_name)

    def write(self, key: GrantKey, text: str) -> None:
        """Replace the text atomically.

        Raises:
            TokenStoreError: the text cannot be stored.
        """
        with _translate_errors("the keyring cannot be used"):
            self._backend.set_password(self._service, key.storage_name, text)

    def delete(self, key: GrantKey) -> bool:
        """Delete the text and return whether there was one; a keyring cannot list the server's other entries.

        Raises:
            TokenStoreError: the text could not be deleted.
        """
        with _translate_errors("the keyring cannot be used"), suppress(PasswordDeleteError):
            if self._backend.get_password(self._service, key.storage_name) is not None:
                self._backend.delete_password(self._service, key.storage_name)
                return True
        return False


def find_os_keyring() -> KeyringBackend | None:
    """Return the system's keyring, None if there is no secure and responding one, as on most servers."""
    try:
        backend = keyring.get_keyring()
    except (KeyringError, RuntimeError, ImportError, AttributeError):  # PYTHON_KEYRING_BACKEND names no keyring
        return None
    return backend if is_usable(backend) else None


def is_usable(backend: KeyringBackend) -> bool:
    """Return whether a keyring is a real one (placeholder backends have a low priority) and responds."""
    try:
        if backend.priority < 1:
            return False
        backend.get_password(KEYRING_SERVICE, PROBE_NAME)
    except (KeyringError, RuntimeError):
        return False
    return True


class FileVault:
    """A vault of encrypted files that are replaced atomically: after a crash there is the old text or the new one.

    Args:
        folder: created at the first write, for its owner only.
        key: see `TextCipher`.
    """

    def __init__(self, folder: Path, key: str | None = None) -> None:
        self._folder = folder
        self._cipher = TextCipher(folder, key)

    def read(self, key: GrantKey) -> str | None:
        """Return the text, None if there is none; see `KeyringVault.read`."""
        path = self._path(key)
        with _translate_errors(path):
            try:
                with path.open("rb") as file:
                    encrypted = file.read(MAX_FILE_BYTES)
            except FileNotFoundError:
                return None
        return self._cipher.decrypt(encrypted)

    def write(self, key: GrantKey, text: str) -> None:
        """Replace the text atomically; the caller holds the key's lock (`lock_grant`)."""
        path = self._path(key)
        with _translate_errors(path):
            make_folder(self._folder)
            replace_file(path, self._cipher.encrypt(text), draft=path.with_suffix(".new"))

    def delete(self, key: GrantKey) -> bool:
        """Delete the texts of the server, including those for other URLs; return whether there was one."""
        own = re.compile(rf"{re.escape(key.server)}-[0-9a-f]{{12}}\.(?:tokens|new)")
        with _translate_errors(self._folder):
            found = [path for path in self._folder.glob("*") if own.fullmatch(path.name)]
            for path in found:
                path.unlink(missing_ok=True)
        return bool(found)

    def _path(self, key: GrantKey) -> Path:
        return self._folder / f"{key.storage_name}.tokens"


Vault = KeyringVault | FileVault


def open_vault(location: TokenLocation) -> Vault:
    """Open the keyring or the files; blocks, because a keyring may call its daemon.

    Raises:
        TokenStoreError: the settings require a keyring and there is none.
    """
    backend = None if location.store == "file" else find_os_keyring()
    if backend is not None:
        return KeyringVault(backend, location.folder)
    if location.store == "keyring":
        raise TokenStoreError(
            "TOOLWEAVE_TOKEN_STORE is keyring, and this machine has no usable keyring. Set it to file or auto."
        )
    logger.debug("tokens are stored in encrypted files in {}", location.folder)
    return FileVault(location.folder, location.key)


@asynccontextmanager
async def lock_grant(location: TokenLocation, key: GrantKey, *, timeout_s: float = LOCK_WAIT_S) -> AsyncIterator[None]:
    """Lock the tokens of `key` against changes by other processes and tasks.

    Servers that rotate refresh tokens accept each one once, so one user at a time uses it and stores the next one.

    Raises:
        TokenStoreError: the folder is not writable, or another process does not release the lock.
    """
    path = location.folder / f"{key.storage_name}.lock"
    with _translate_errors(path):
        make_folder(location.folder)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        try:
            async with asyncio.timeout(timeout_s):
                while not try_lock(descriptor):  # noqa: ASYNC110 - another process gives no signal
                    await asyncio.sleep(LOCK_POLL_INTERVAL_S)
        except TimeoutError:
            raise TokenStoreError("another process has locked the stored tokens for too long") from None
        yield
    finally:
        os.close(descriptor)
