"""`toolweave db`: prepare, check and fill the database; a password is never shown."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from zipfile import ZipFile

import pytest
import sqlalchemy as sa

from tests.cli.command import Ended, toolweave
from tests.fixtures.postgres import PostgresServer
from toolweave.cli.doctor import CHECKS, catch_errors
from toolweave.config.settings import Settings
from toolweave.runtime.persistence.data_folder import data_folder_lock

OLD_FOLDER = Path(__file__).parents[1] / "data_folders" / "schema-0006-product.zip"
SECRET = "s3cret-password"


@pytest.fixture
def url(postgres: PostgresServer) -> Iterator[str]:
    """Give the URL of an empty database as a user with a password."""
    with postgres.fresh_database() as url:
        name = sa.make_url(url).database or ""
        postgres.execute(f"CREATE ROLE ann LOGIN PASSWORD '{SECRET}'; ALTER DATABASE {name} OWNER TO ann")
        try:
            yield postgres.url(name, "ann", SECRET).replace("+psycopg", "")
        finally:
            postgres.execute("DROP OWNED BY ann", url=url)
            postgres.execute(f"ALTER DATABASE {name} OWNER TO postgres; DROP ROLE ann")


def db(folder: Path, url: str, *args: str, **variables: str) -> Ended:
    ended = toolweave("db", *args, cwd=folder, env={"TOOLWEAVE_DATABASE_URL": url, **variables})
    assert SECRET not in ended.stdout + ended.stderr
    return ended


@pytest.mark.requirement("S-06")
def test_a_data_folder_moves_to_a_checked_database(tmp_path: Path, postgres: PostgresServer, url: str) -> None:
    with ZipFile(OLD_FOLDER) as packed:
        packed.extractall(tmp_path / "old")
    (tmp_path / "old").chmod(0o700)
    new = db(tmp_path, url, "check")
    assert new.code == 0, new.stdout
    assert "it has no tables yet; the next server makes them." in new.stdout
    assert db(tmp_path, url, "upgrade").code == 0
    with data_folder_lock(tmp_path / "old"):
        locked = db(tmp_path, url, "copy", "--from", "old")
    assert (locked.code, locked.paragraph[:20]) == (1, "Data folder in use: ")
    copied = db(tmp_path, url, "copy", "--from", "old", TOOLWEAVE_TOKEN_KEY="key")
    assert copied.code == 0, copied.stderr
    counts = {table: int(number) for number, table in re.findall(r"(\d+)  (\w+)", copied.stdout)}
    with closing(sqlite3.connect(tmp_path / "old" / "todo.db")) as todos:
        titles = todos.execute("SELECT id, title FROM todos").fetchall()
    assert postgres.execute("SELECT id, title FROM todos", url=url) == titles
    assert postgres.execute("SELECT nextval('todos_id_seq')", url=url) == [(titles[-1][0] + 1,)]
    assert (counts["todos"], counts["registered_tools"], counts["threads"]) == (len(titles), 1, 11)
    again = db(tmp_path, url, "copy", "--from", "old")
    assert (again.code, "has rows in its table threads" in again.paragraph) == (1, True)
    used = db(tmp_path, url, "check", TOOLWEAVE_TOKEN_KEY="key")
    assert (used.code, "TOOLWEAVE_TOKEN_KEY" in used.stdout) == (0, False)
    assert "ok   database: it has the current schema." in used.stdout


def test_the_data_folder_is_prepared_and_checked_where_no_database_is_named(tmp_path: Path) -> None:
    assert toolweave("db", "upgrade", cwd=tmp_path).code == 0
    assert sorted(path.name for path in (tmp_path / ".toolweave").glob("*.db")) == [
        *("app.db", "checkpoints.db", "store.db", "todo.db", "tools.db")
    ]
    checked = toolweave("db", "check", cwd=tmp_path)
    assert (checked.code, "app.db has the current schema." in checked.stdout) == (0, True)
    refused = toolweave("db", "copy", "--from", ".toolweave", cwd=tmp_path)
    assert (refused.code, "TOOLWEAVE_DATABASE_URL is not set" in refused.paragraph) == (1, True)


def test_problems_of_the_database_are_found(postgres: PostgresServer, url: str, tmp_path: Path) -> None:
    direct = postgres.url("postgres", "ann", SECRET)
    found = findings(Settings(database_url=url, database_direct_url=direct, data_dir=tmp_path, database_pool_size=60))
    problems = [line for line in found if not line.startswith("ok")]
    assert problems[0] == "fail TOOLWEAVE_DATABASE_DIRECT_URL leads to another database."
    assert problems[1].endswith("each may open 71.")
    assert problems[2].startswith("warn TOOLWEAVE_TOKEN_KEY is not set")
    assert len(problems) == 3
    [refused] = findings(Settings(database_url=url.replace(SECRET, "wrong"), data_dir=tmp_path))
    assert refused.startswith("fail The database of TOOLWEAVE_DATABASE_URL refuses this user")
    assert SECRET not in str(found)


def findings(settings: Settings) -> list[str]:
    return [f"{each.level} {each.text}" for each in catch_errors("database", CHECKS["database"](settings))]
