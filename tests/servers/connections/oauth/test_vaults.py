"""Tokens are stored in encrypted files that survive a kill, or in the keyring of the system."""

import asyncio
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import keyring
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keyring.backend import KeyringBackend
from keyring.backends.fail import Keyring as NoKeyring
from keyring.errors import KeyringLocked, PasswordDeleteError

from toolweave.config.settings import load_settings
from toolweave.errors import TokenStoreError
from toolweave.servers.connections.oauth import TokenLocation, token_location
from toolweave.servers.connections.oauth.vault import (
    FileVault,
    GrantKey,
    KeyringVault,
    is_usable,
    lock_grant,
    open_vault,
)

KEY = GrantKey("peer", "https://peer.example/mcp")
SECRET = "rt-very-secret-0123456789"


class MemoryKeyring(KeyringBackend):
    """A keyring like that of a desktop."""

    priority = 5

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.passwords: dict[tuple[str, str], str] = {}
        self.locked = False

    def get_password(self, service: str, username: str) -> str | None:
        if self.locked:
            raise KeyringLocked("it is locked")
        return self.passwords.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        if self.locked:
            raise KeyringLocked("it is locked")
        self.passwords[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if (service, username) not in self.passwords:
            raise PasswordDeleteError("no such password")
        del self.passwords[service, username]


@pytest.mark.parametrize("key", [None, "a passphrase of any length, ü"])
def test_tokens_are_encrypted_and_readable_by_their_owner_only(tmp_path: Path, key: str | None) -> None:
    folder = tmp_path / "data" / "oauth"
    FileVault(folder, key).write(KEY, SECRET)
    assert FileVault(folder, key).read(KEY) == SECRET
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = list(folder.iterdir())
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    content = b"".join(path.read_bytes() for path in files)
    assert SECRET.encode() not in content
    assert b"peer.example" not in content
    assert (key is None) == (folder / "key").exists()


def test_each_server_and_url_has_its_own_tokens_and_a_deletion_removes_those_of_all_urls(tmp_path: Path) -> None:
    files = FileVault(tmp_path)
    names = [("a", "https://h/"), ("a", "https://h/2"), ("a-b", "https://h/"), ("A", "x")]
    keys = [GrantKey(*name) for name in names]
    for number, key in enumerate(keys):
        files.write(key, str(number))
    assert [files.read(key) for key in keys] == ["0", "1", "2", "3"]
    assert files.delete(keys[1])
    assert [files.read(key) for key in keys] == [None, None, "2", "3"]
    assert not files.delete(keys[0])


@pytest.mark.parametrize(
    ("written_with", "read_with", "key_file", "problem"),
    [
        pytest.param("one", "other", None, "TOOLWEAVE_TOKEN_KEY has changed", id="another-key"),
        pytest.param("one", None, None, "encrypted with TOOLWEAVE_TOKEN_KEY, which is not set", id="no-key"),
        pytest.param(None, None, b"short", "key is damaged", id="a-damaged-key-file"),
        pytest.param(None, None, b"", "the file key has changed", id="a-missing-key-file"),
    ],
)
def test_tokens_that_the_key_does_not_decrypt_are_an_error_that_names_the_key(
    tmp_path: Path, written_with: str | None, read_with: str | None, key_file: bytes | None, problem: str
) -> None:
    FileVault(tmp_path, written_with).write(KEY, SECRET)
    if key_file is not None:
        (tmp_path / "key").unlink()
    if key_file:
        (tmp_path / "key").write_bytes(key_file)
    vault = FileVault(tmp_path, read_with)
    with pytest.raises(TokenStoreError, match=problem):
        vault.read(KEY)
    if not key_file:
        vault.write(KEY, "new")
        assert vault.read(KEY) == "new"


def test_a_key_that_is_set_later_decrypts_what_the_key_file_encrypted(tmp_path: Path) -> None:
    FileVault(tmp_path).write(KEY, SECRET)
    later = FileVault(tmp_path, "set later")
    assert later.read(KEY) == SECRET
    later.write(KEY, SECRET)
    (tmp_path / "key").unlink()
    assert FileVault(tmp_path, "set later").read(KEY) == SECRET


@given(where=st.floats(0, 0.999), bits=st.integers(1, 255), cut=st.booleans())
def test_a_damaged_file_is_an_error_or_gives_the_whole_text(
    tmp_path_factory: pytest.TempPathFactory, where: float, bits: int, cut: bool
) -> None:
    folder = tmp_path_factory.getbasetemp() / "damaged"
    files = FileVault(folder)
    files.write(KEY, SECRET)
    (path,) = folder.glob("*.tokens")
    content = bytearray(path.read_bytes())
    at = int(where * len(content))
    content[at] ^= bits
    path.write_bytes(content[:at] if cut else content)
    try:
        found = files.read(KEY)
    except TokenStoreError as error:
        found = str(error)
    assert found == SECRET or "damaged" in (found or "") or "which is not set" in (found or "")


async def test_a_file_in_the_place_of_the_folder_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "oauth").write_text("a file in the place of the folder", encoding="utf-8")
    files = FileVault(tmp_path / "oauth")
    with pytest.raises(TokenStoreError, match="oauth"):
        files.read(KEY)
    with pytest.raises(TokenStoreError, match="oauth"):
        files.write(KEY, SECRET)
    with pytest.raises(TokenStoreError):
        async with lock_grant(TokenLocation(tmp_path / "oauth", "file"), KEY):
            pytest.fail("the lock was acquired")


def test_the_vault_does_not_write_through_a_link_in_the_place_of_its_draft(tmp_path: Path) -> None:
    other = tmp_path / "another file"
    other.write_text("theirs", encoding="utf-8")
    folder = tmp_path / "tokens"
    vault = FileVault(folder, "key")
    vault.write(KEY, "first")
    (folder / f"{KEY.storage_name}.new").symlink_to(other)
    with pytest.raises(TokenStoreError):
        vault.write(KEY, "second")
    assert (other.read_text("utf-8"), vault.read(KEY)) == ("theirs", "first")


def test_threads_that_create_the_key_file_at_once_use_the_same_key(tmp_path: Path) -> None:
    def write(number: int) -> None:
        FileVault(tmp_path).write(GrantKey(str(number), "u"), SECRET)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(32)))
    assert {FileVault(tmp_path).read(GrantKey(str(number), "u")) for number in range(32)} == {SECRET}


WRITER = """
import sys
from pathlib import Path
from toolweave.servers.connections.oauth.vault import FileVault
from toolweave.servers.connections.oauth.vault import GrantKey
files, key = FileVault(Path(sys.argv[1])), GrantKey("peer", "https://peer.example/mcp")
print("begun", flush=True)
number = int(sys.argv[2])
while True:
    number += 1
    files.write(key, str(number) * 2000)
    print(number, flush=True)
"""


@pytest.mark.slow
def test_a_process_killed_while_it_writes_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    newest = 0
    for round_ in range(6):
        command = [sys.executable, "-c", WRITER, str(tmp_path), str(newest)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8") as writer:
            assert writer.stdout is not None
            for _ in range(round_ * 7 + 1):
                writer.stdout.readline()
            writer.send_signal(signal.SIGKILL)
            lines = writer.stdout.read().split()
        found = FileVault(tmp_path).read(KEY)
        if found is None:
            continue
        written = int(found[: len(found) // 2000])
        assert found == str(written) * 2000
        # Every write that the process reported is in the file.
        assert written >= max([newest, *(int(line) for line in lines if line.isdigit())])
        newest = written
    assert newest > 0


def test_a_keyring_separates_the_tokens_of_each_installation_and_url(tmp_path: Path) -> None:
    backend = MemoryKeyring()
    here, there = KeyringVault(backend, tmp_path / "a"), KeyringVault(backend, tmp_path / "b")
    here.write(KEY, SECRET)
    assert (here.read(KEY), there.read(KEY)) == (SECRET, None)
    assert here.read(GrantKey("peer", "https://other.example/")) is None
    assert not there.delete(KEY)
    assert here.delete(KEY)
    assert not here.delete(KEY)


def test_a_locked_keyring_is_not_usable_and_raises_our_error(tmp_path: Path) -> None:
    backend = MemoryKeyring()
    vault = KeyringVault(backend, tmp_path)
    vault.write(KEY, SECRET)
    assert is_usable(backend)
    backend.locked = True
    assert not is_usable(backend)
    for attempt in (lambda: vault.read(KEY), lambda: vault.write(KEY, SECRET), lambda: vault.delete(KEY)):
        with pytest.raises(TokenStoreError, match="KeyringLocked"):
            attempt()


@pytest.mark.parametrize(
    ("store", "backend", "expected"),
    [
        ("auto", NoKeyring, FileVault),
        ("keyring", NoKeyring, None),
        ("auto", MemoryKeyring, KeyringVault),
        ("file", MemoryKeyring, FileVault),
    ],
)
def test_the_setting_selects_the_vault_and_auto_selects_a_keyring_if_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str, backend: type[KeyringBackend], expected: type | None
) -> None:
    monkeypatch.setattr(keyring, "get_keyring", backend)
    given = {"TOOLWEAVE_DATA_DIR": str(tmp_path), "TOOLWEAVE_TOKEN_STORE": store, "TOOLWEAVE_TOKEN_KEY": SECRET}
    place = token_location(load_settings(given))
    assert (place.folder, place.store, place.key) == (tmp_path / "oauth", store, SECRET)
    assert SECRET not in repr(place)
    if expected is None:
        with pytest.raises(TokenStoreError, match="TOOLWEAVE_TOKEN_STORE is keyring, and this machine has no"):
            open_vault(place)
    else:
        assert type(open_vault(place)) is expected


async def test_one_task_at_a_time_holds_the_lock_of_a_server_and_others_wait_or_fail_at_their_limit(
    tmp_path: Path,
) -> None:
    place = TokenLocation(tmp_path / "oauth", "file")
    inside = most = 0

    async def enter(key: GrantKey) -> None:
        nonlocal inside, most
        async with lock_grant(place, key):
            inside += 1
            most = max(most, inside)
            await asyncio.to_thread(FileVault(place.folder).read, key)
            inside -= 1

    await asyncio.gather(*(enter(KEY) for _ in range(10)))
    assert most == 1
    async with lock_grant(place, KEY):
        await enter(GrantKey("other", "https://other.example/"))
        with pytest.raises(TokenStoreError, match="another process has locked"):
            async with lock_grant(place, KEY, timeout_s=0.0):
                pytest.fail("the lock was acquired twice")
