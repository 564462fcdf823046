"""The file of a SQLite URL is known however the URL names it."""

from pathlib import Path

import pytest

from toolweave.servers.databases.engine import parse_url, sqlite_file


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("sqlite:////data/x.db", "/data/x.db"),
        ("sqlite+aiosqlite:///x.db", "x.db"),
        ("sqlite:///file:/data/a%20b.db?uri=true", "/data/a b.db"),
        ("sqlite:///file:///data/x.db?mode=ro&uri=true", "/data/x.db"),
        ("sqlite://", None),
        ("sqlite:///:memory:", None),
        ("sqlite:///file::memory:?cache=shared&uri=true", None),
        ("sqlite:///file:name?mode=memory&uri=true", None),
        ("postgresql://h/x.db", None),
    ],
)
def test_the_file_of_a_url_is_known_however_it_is_named(url: str, file: str | None) -> None:
    assert sqlite_file(parse_url(url, "X")) == (Path(file) if file else None)


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_the_usual_names_of_databases_mean_their_asynchronous_drivers(scheme: str) -> None:
    assert parse_url(f"{scheme}://h/d", "X").drivername == "postgresql+psycopg"
    assert parse_url("sqlite://", "X").drivername == "sqlite+aiosqlite"
