"""Encrypt texts with the user's key, or with a generated key in a file (Fernet).

This encrypts the tokens for remote servers and the credentials of runs and crons.
"""

import base64
import hashlib
import json
import os
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken

from toolweave.errors import TokenStoreError
from toolweave.files import make_folder, write_file

# The folder in the data folder with the key file and the tokens for remote servers.
OAUTH_FOLDER = "oauth"
KEY_FILE = "key"
KEY_VARIABLE = "TOOLWEAVE_TOKEN_KEY"
SALT_BYTES = 16
# One derivation takes 32 MiB and about 100 ms, so guessing keys is expensive; it runs once per salt in a process.
SCRYPT_N, SCRYPT_R, SCRYPT_P = 2**15, 8, 1
SCRYPT_MEMORY = 64 * 2**20


class TextCipher:
    """Encrypts and decrypts texts; without the key they can neither be read nor changed.

    Args:
        folder: where the key file is created if `key` is None.
        key: any text; scrypt derives the encryption key from it with a random salt, which is stored with the text.
    """

    def __init__(self, folder: Path, key: str | None) -> None:
        self._folder = folder
        self._key = key
        self._derived: dict[bytes, Fernet] = {}

    def encrypt(self, text: str) -> bytes:
        """Encrypt a text.

        Raises:
            TokenStoreError: the key file cannot be read or created.
        """
        if self._key is None:
            return json.dumps({"key": "file", "data": self._file_fernet().encrypt(text.encode()).decode()}).encode()
        salt = next(iter(tuple(self._derived)), None) or os.urandom(SALT_BYTES)
        encrypted = self._derived_fernet(salt).encrypt(text.encode()).decode()
        return json.dumps({"key": "scrypt", "salt": base64.b64encode(salt).decode(), "data": encrypted}).encode()

    def decrypt(self, encrypted: bytes) -> str:
        """Decrypt a text; texts that were encrypted with the key file stay readable after a key is set.

        Raises:
            TokenStoreError: the text is damaged, or was encrypted with another key.
        """
        kind, salt, data = _parse_encrypted(encrypted)
        if kind == "scrypt" and self._key is None:
            raise TokenStoreError(f"the stored tokens were encrypted with {KEY_VARIABLE}, which is not set")
        try:
            fernet = self._derived_fernet(salt) if kind == "scrypt" else self._file_fernet()
            return fernet.decrypt(data).decode()
        except (InvalidToken, ValueError):
            reason = f"{KEY_VARIABLE} has changed" if kind == "scrypt" else f"the file {KEY_FILE} has changed"
            raise TokenStoreError(f"the stored tokens cannot be decrypted: they are damaged, or {reason}") from None

    def is_slow(self, encrypted: bytes) -> bool:
        """Return whether `decrypt` must derive a key first, which takes about 100 ms, once per salt."""
        kind, salt, _ = _parse_encrypted(encrypted)
        return kind == "scrypt" and self._key is not None and salt not in self._derived

    def _derived_fernet(self, salt: bytes) -> Fernet:
        if salt not in self._derived:
            key = (self._key or "").encode()
            raw = hashlib.scrypt(key, salt=salt, n=SCRYPT_N, r=SCRYPT_R, p=SCRYPT_P, maxmem=SCRYPT_MEMORY, dklen=32)
            self._derived[salt] = Fernet(base64.urlsafe_b64encode(raw))
        return self._derived[salt]

    def _file_fernet(self) -> Fernet:
        path = self._folder / KEY_FILE
        try:
            if not path.exists():
                _make_key_file(path)
            return Fernet(path.read_bytes())
        except OSError as error:
            raise TokenStoreError(f"{path}: {error.strerror}") from error
        except ValueError:
            raise TokenStoreError(f"{path} is damaged: delete it and sign in again") from None


def _parse_encrypted(encrypted: bytes) -> tuple[str, bytes, str]:
    """Return the kind of key, the key's salt, and the encrypted data."""
    try:
        document = json.loads(encrypted)
        salt = base64.b64decode(document["salt"], validate=True) if document["key"] == "scrypt" else b""
        return document["key"], salt, str(document["data"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise TokenStoreError("the stored tokens are damaged") from None


def data_folder_cipher(data_dir: Path, key: str | None) -> TextCipher:
    """Return the cipher of a data folder."""
    return TextCipher(data_dir.absolute() / OAUTH_FOLDER, key)


def _make_key_file(path: Path) -> None:
    """Create the key file atomically; processes that create it at the same time use the same key."""
    make_folder(path.parent)
    draft = path.with_name(f"{KEY_FILE}.{os.getpid()}.{os.urandom(4).hex()}")
    write_file(draft, Fernet.generate_key())
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
