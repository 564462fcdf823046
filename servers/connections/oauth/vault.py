"""Keep one secret text for each server and URL; a token never goes to another URL than it was given for."""

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
    """Whose tokens: a server's name and the URL it had when they were given."""

    server: str
    url: str

    @property
    def label(self) -> str:
        """Name the key where the URL, which may hold credentials, must not be read."""
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
    """A vault in a keyring; each data folder has its own entries, as it has its own lock.

    Args:
        backend: the keyring.
        folder: the folder that stands for this installation.
    """

    def __init__(self, backend: KeyringBackend, folder: Path) -> None:
        self._backend = backend
        self._service = f"{KEYRING_SERVICE}-{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"

    def read(self, key: GrantKey) -> str | None:
        """Return the text, None if there is none; blocks, as `write` and `delete` do.

        Raises:
            TokenStoreError: there is one that cannot be read.
        """
        with _translate_errors("the keyring cannot be used"):
            return self._backend.get_password(self._service, key.label)

    def write(self, key: GrantKey, text: str) -> None:
        """Replace the text, wholly or not at all.

        Raises:
            TokenStoreError: it cannot be kept.
        """
        with _translate_errors("the keyring cannot be used"):
            self._backend.set_password(self._service, key.label, text)

    def delete(self, key: GrantKey) -> bool:
        """Forget the text and say whether there was one; a keyring cannot list what else it has for the server.

        Raises:
            TokenStoreError: it is still there.
        """
        with _translate_errors("the keyring cannot be used"), suppress(PasswordDeleteError):
            if self._backend.get_password(self._service, key.label) is not None:
                self._backend.delete_password(self._service, key.label)
                return True
        return False


def find_os_keyring() -> KeyringBackend | None:
    """Find a keyring that keeps things safely and answers; None where there is none, as on most servers."""
    try:
        backend = keyring.get_keyring()
    except (KeyringError, RuntimeError, ImportError, AttributeError):  # what PYTHON_KEYRING_BACKEND names is no keyring
        return None
    return backend if is_usable(backend) else None


def is_usable(backend: KeyringBackend) -> bool:
    """Return whether a keyring is a real one (the stand-ins for none have a low priority) and can be reached."""
    try:
        if backend.priority < 1:
            return False
        backend.get_password(KEYRING_SERVICE, PROBE_NAME)
    except (KeyringError, RuntimeError):
        return False
    return True


class FileVault:
    """A vault of files that are replaced atomically: a process killed at any moment leaves the old text or the new.

    Args:
        folder: made, for its owner only, when first written to.
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
        """Replace the text, wholly or not at all; two writers of one key must exclude each other (`hold`)."""
        path = self._path(key)
        with _translate_errors(path):
            make_folder(self._folder)
            replace_file(path, self._cipher.encrypt(text), draft=path.with_suffix(".new"))

    def delete(self, key: GrantKey) -> bool:
        """Forget the text, and those of the same server under other URLs; say whether there was one."""
        own = re.compile(rf"{re.escape(key.server)}-[0-9a-f]{{12}}\.(?:tokens|new)")
        with _translate_errors(self._folder):
            found = [path for path in self._folder.glob("*") if own.fullmatch(path.name)]
            for path in found:
                path.unlink(missing_ok=True)
        return bool(found)

    def _path(self, key: GrantKey) -> Path:
        return self._folder / f"{key.label}.tokens"


Vault = KeyringVault | FileVault


def open_vault(location: TokenLocation) -> Vault:
    """Open the keyring or the files; blocks, as a keyring may ask its daemon.

    Raises:
        TokenStoreError: a keyring is wanted and there is none.
    """
    backend = None if location.store == "file" else find_os_keyring()
    if backend is not None:
        return KeyringVault(backend, location.folder)
    if location.store == "keyring":
        raise TokenStoreError(
            "TOOLWEAVE_TOKEN_STORE is keyring, and this machine has none that can be used. Set it to file or auto."
        )
    logger.debug("tokens are kept in encrypted files in {}", location.folder)
    return FileVault(location.folder, location.key)


@asynccontextmanager
async def lock_grant(location: TokenLocation, key: GrantKey, *, timeout_s: float = LOCK_WAIT_S) -> AsyncIterator[None]:
    """Exclude every other process, and every other task, from changing the tokens of `key`.

    A refresh token works once where servers rotate them: its user must be the only one, and store the next.

    Raises:
        TokenStoreError: the folder cannot be written to, or another process does not release the lock.
    """
    path = location.folder / f"{key.label}.lock"
    with _translate_errors(path):
        make_folder(location.folder)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        try:
            async with asyncio.timeout(timeout_s):
                while not try_lock(descriptor):  # noqa: ASYNC110 - another process gives no signal
                    await asyncio.sleep(LOCK_POLL_INTERVAL_S)
        except TimeoutError:
            raise TokenStoreError("another process has held the stored tokens for too long") from None
        yield
    finally:
        os.close(descriptor)
