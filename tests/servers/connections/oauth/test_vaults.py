"""Where tokens are kept: encrypted files that survive everything, or the OS keyring."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

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
    """A keyring as a desktop has one."""

    priority = 5

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.held: dict[tuple[str, str], str] = {}
        self.locked = False

    def get_password(self, service: str, username: str) -> str | None:
        if self.locked:
            raise KeyringLocked("it is locked")
        return self.held.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        if self.locked:
            raise KeyringLocked("it is locked")
        self.held[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if (service, username) not in self.held:
            raise PasswordDeleteError("no such password")
        del self.held[service, username]


@pytest.mark.parametrize("key", [None, "a passphrase of any length, ü"])
def test_a_text_is_kept_encrypted_for_its_owner_only(tmp_path: Path, key: str | None) -> None:
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


def test_each_server_and_url_has_its_own(tmp_path: Path) -> None:
    files = FileVault(tmp_path)
    keys = [
        GrantKey("a", "https://h/"),
        GrantKey("a", "https://h/2"),
        GrantKey("a-b", "https://h/"),
        GrantKey("A", "x"),
    ]
    for number, key in enumerate(keys):
        files.write(key, str(number))
    assert [files.read(key) for key in keys] == ["0", "1", "2", "3"]
    assert files.delete(keys[1])
    assert [files.read(key) for key in keys] == [None, None, "2", "3"]
    assert not files.delete(keys[0])


@pytest.mark.parametrize(
    ("written_with", "read_with", "problem"),
    [
        ("one", "other", "TOOLWEAVE_TOKEN_KEY has changed"),
        ("one", None, "encrypted with TOOLWEAVE_TOKEN_KEY, which is not set"),
    ],
)
def test_another_key_is_named_and_opens_nothing(
    tmp_path: Path, written_with: str, read_with: str | None, problem: str
) -> None:
    FileVault(tmp_path, written_with).write(KEY, SECRET)
    with pytest.raises(TokenStoreError, match=problem):
        FileVault(tmp_path, read_with).read(KEY)
    FileVault(tmp_path, read_with).write(KEY, "new")
    assert FileVault(tmp_path, read_with).read(KEY) == "new"


def test_a_key_that_is_set_later_leaves_what_the_key_file_encrypted_readable(tmp_path: Path) -> None:
    FileVault(tmp_path).write(KEY, SECRET)
    later = FileVault(tmp_path, "set later")
    assert later.read(KEY) == SECRET
    later.write(KEY, SECRET)
    (tmp_path / "key").unlink()
    assert FileVault(tmp_path, "set later").read(KEY) == SECRET


def test_a_key_file_that_is_gone_or_damaged_is_named(tmp_path: Path) -> None:
    FileVault(tmp_path).write(KEY, SECRET)
    (tmp_path / "key").write_bytes(b"short")
    with pytest.raises(TokenStoreError, match="key is damaged"):
        FileVault(tmp_path).read(KEY)
    (tmp_path / "key").unlink()
    with pytest.raises(TokenStoreError, match="the file key has changed"):
        FileVault(tmp_path).read(KEY)


@given(where=st.floats(0, 0.999), bits=st.integers(1, 255), cut=st.booleans())
def test_no_damage_gives_anything_but_an_error_or_the_text(
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


def test_a_file_that_cannot_be_read_or_written_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "oauth").write_text("a file in the place of the folder", encoding="utf-8")
    files = FileVault(tmp_path / "oauth")
    with pytest.raises(TokenStoreError, match="oauth"):
        files.read(KEY)
    with pytest.raises(TokenStoreError, match="oauth"):
        files.write(KEY, SECRET)


def test_a_link_that_somebody_has_put_in_the_way_is_not_written_through(tmp_path: Path) -> None:
    other = tmp_path / "another file"
    other.write_text("theirs", encoding="utf-8")
    folder = tmp_path / "tokens"
    vault = FileVault(folder, "key")
    vault.write(KEY, "first")
    (folder / f"{KEY.storage_name}.new").symlink_to(other)
    with pytest.raises(TokenStoreError):
        vault.write(KEY, "second")
    assert (other.read_text("utf-8"), vault.read(KEY)) == ("theirs", "first")


def test_all_who_make_the_key_file_at_once_make_the_same(tmp_path: Path) -> None:
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
        # What it has said to be written is.
        assert written >= max([newest, *(int(line) for line in lines if line.isdigit())])
        newest = written
    assert newest > 0


def test_a_keyring_keeps_each_installations_tokens_apart(tmp_path: Path) -> None:
    backend = MemoryKeyring()
    here, there = KeyringVault(backend, tmp_path / "a"), KeyringVault(backend, tmp_path / "b")
    here.write(KEY, SECRET)
    assert (here.read(KEY), there.read(KEY)) == (SECRET, None)
    assert here.read(GrantKey("peer", "https://other.example/")) is None
    assert not there.delete(KEY)
    assert here.delete(KEY)
    assert not here.delete(KEY)


def test_a_keyring_that_fails_is_an_error_of_ours(tmp_path: Path) -> None:
    backend = MemoryKeyring()
    vault = KeyringVault(backend, tmp_path)
    vault.write(KEY, SECRET)
    backend.locked = True
    for attempt in (lambda: vault.read(KEY), lambda: vault.write(KEY, SECRET), lambda: vault.delete(KEY)):
        with pytest.raises(TokenStoreError, match="KeyringLocked"):
            attempt()


def test_a_keyring_counts_only_where_it_keeps_things_and_answers() -> None:
    backend = MemoryKeyring()
    assert is_usable(backend)
    backend.locked = True
    assert not is_usable(backend)
    assert not is_usable(NoKeyring())  # type: ignore[no-untyped-call]


OPENER = """
import sys
from pathlib import Path
from toolweave.errors import TokenStoreError
from toolweave.servers.connections.oauth.vault import open_vault
from toolweave.servers.connections.oauth import TokenLocation
try:
    print(type(open_vault(TokenLocation(Path(sys.argv[1]), sys.argv[2]))).__name__)
except TokenStoreError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("store", "backend", "expected"),
    [
        ("auto", "keyring.backends.fail.Keyring", "FileVault"),
        ("keyring", "keyring.backends.fail.Keyring", "TOOLWEAVE_TOKEN_STORE is keyring, and this machine has no"),
        ("auto", "tests.servers.connections.oauth.test_vaults.MemoryKeyring", "KeyringVault"),
        ("file", "tests.servers.connections.oauth.test_vaults.MemoryKeyring", "FileVault"),
    ],
)
def test_the_setting_decides_and_auto_takes_the_keyring_if_there_is_one(
    tmp_path: Path, store: str, backend: str, expected: str
) -> None:
    root = Path(__file__).parents[4]
    env = {**os.environ, "PYTHON_KEYRING_BACKEND": backend, "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", OPENER, str(tmp_path), store]
    run = subprocess.run(command, env=env, capture_output=True, text=True, encoding="utf-8", check=True)
    assert run.stdout.startswith(expected), run.stderr


def test_the_place_follows_from_the_settings_and_hides_its_key(tmp_path: Path) -> None:
    given = {"TOOLWEAVE_DATA_DIR": str(tmp_path), "TOOLWEAVE_TOKEN_STORE": "file", "TOOLWEAVE_TOKEN_KEY": SECRET}
    place = token_location(load_settings(given))
    assert place == TokenLocation(tmp_path / "oauth", "file", SECRET)
    assert SECRET not in repr(place)
    assert isinstance(open_vault(place), FileVault)


async def test_only_one_at_a_time_holds_the_tokens_of_a_server(tmp_path: Path) -> None:
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


async def test_a_lock_that_cannot_be_had_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "oauth").write_text("a file in the place of the folder", encoding="utf-8")
    with pytest.raises(TokenStoreError):
        async with lock_grant(TokenLocation(tmp_path / "oauth", "file"), KEY):
            pytest.fail("it was held")
    place = TokenLocation(tmp_path / "good", "file")
    async with lock_grant(place, KEY):
        with pytest.raises(TokenStoreError, match="another process has locked"):
            async with lock_grant(place, KEY, timeout_s=0.0):
                pytest.fail("it was held twice")
