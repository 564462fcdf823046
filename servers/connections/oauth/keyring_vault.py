"""Keep tokens in the operating system's keyring."""

import hashlib
from pathlib import Path

import keyring
from keyring.backend import KeyringBackend
from keyring.errors import KeyringError, PasswordDeleteError

from toolweave.errors import TokenStoreError
from toolweave.servers.connections.oauth.vault import GrantKey

SERVICE = "toolweave"
PROBE = "probe"


class KeyringVault:
    """A vault in a keyring; each data folder has its own entries, as it has its own lock.

    Args:
        backend: the keyring.
        folder: the folder that stands for this installation.
    """

    def __init__(self, backend: KeyringBackend, folder: Path) -> None:
        self._backend = backend
        self._service = f"{SERVICE}-{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"

    def read(self, key: GrantKey) -> str | None:
        """See `Vault.read`."""
        try:
            return self._backend.get_password(self._service, key.label)
        except KeyringError as error:
            raise _unusable(error) from error

    def write(self, key: GrantKey, text: str) -> None:
        """See `Vault.write`."""
        try:
            self._backend.set_password(self._service, key.label, text)
        except KeyringError as error:
            raise _unusable(error) from error

    def delete(self, key: GrantKey) -> bool:
        """See `Vault.delete`; a keyring cannot list what it has, so only this URL's text goes."""
        try:
            if self._backend.get_password(self._service, key.label) is None:
                return False
            self._backend.delete_password(self._service, key.label)
        except PasswordDeleteError:
            return False
        except KeyringError as error:
            raise _unusable(error) from error
        return True


def os_keyring() -> KeyringBackend | None:
    """Find a keyring that keeps things safely and answers; None where there is none, as on most servers."""
    try:
        backend = keyring.get_keyring()
    except (KeyringError, RuntimeError, ImportError, AttributeError):  # what PYTHON_KEYRING_BACKEND names is no keyring
        return None
    return backend if usable(backend) else None


def usable(backend: KeyringBackend) -> bool:
    """Say whether a keyring is a real one (the stand-ins for none have a low priority) and can be reached."""
    try:
        if backend.priority < 1:
            return False
        backend.get_password(SERVICE, PROBE)
    except (KeyringError, RuntimeError):
        return False
    return True


def _unusable(error: KeyringError) -> TokenStoreError:
    return TokenStoreError(f"the keyring cannot be used ({type(error).__name__})")
