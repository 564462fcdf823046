"""TOOLWEAVE_QUERY_TABLES is read as it is written, or refused where it is wrong (C-03)."""

import pytest

from toolweave.config.settings import AllowedTable, parse_query_tables
from toolweave.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        (
            " todos , customers ( id , name ) ,",
            [AllowedTable("todos"), AllowedTable("customers", None, ("id", "name"))],
        ),
        ("sales.orders", [AllowedTable("orders", "sales")]),
        ("sales.orders(id),orders", [AllowedTable("orders", "sales", ("id",)), AllowedTable("orders")]),
        ('"Order items"("a,b", "say ""hi""")', [AllowedTable("Order items", None, ("a,b", 'say "hi"'))]),
        ('"my.schema"."t"', [AllowedTable("t", "my.schema")]),
        ("Größe\n,\tб", [AllowedTable("Größe"), AllowedTable("б")]),
        ("", []),
    ],
)
def test_tables_are_read_with_their_schemas_and_columns(text: str, tables: list[AllowedTable]) -> None:
    assert list(parse_query_tables(text)) == tables


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("todos customers", "the list is invalid from"),
        ("todos, customers(id", "the list is invalid from 'customers(id' on."),
        ("customers(id name)", "the list is invalid from"),
        ("a.b.c", "the list is invalid from"),
        ('"a', "the list is invalid from"),
        ('""', "the list is invalid from"),
        ("a, a", "it names the table a twice."),
        ("a(b, b)", "it names a column of a twice."),
        ("a" * 100 + "(", "the list is invalid from"),
    ],
)
def test_an_invalid_list_is_refused_where_it_is_wrong(text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_query_tables(text)
    assert raised.value.source == "TOOLWEAVE_QUERY_TABLES"
    assert expected in str(raised.value)
    assert len(str(raised.value)) < 250


def test_a_label_has_schema_and_table() -> None:
    assert [table.label for table in parse_query_tables('a, s.b, "x y"."z"')] == ["a", "s.b", "x y.z"]
