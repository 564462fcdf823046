"""Documents that are made to do harm: to this machine, to its memory, or to the callers of the tools."""

import json
from typing import Any

import pytest

from tests.servers.registry.openapi_documents import (
    API,
    answer,
    body,
    document,
    import_of,
    imported,
    operation,
    parameter,
    reason_of,
    ref,
)
from toolweave.servers.registry.openapi.importing import MAX_OPERATIONS, MAX_REPORTED

MOST_TEXT = 40_000_000


def test_one_operation_of_a_hundred_thousand_can_be_imported() -> None:
    paths = ",".join(f'"/{n}":{{"get":{{}}}}' for n in range(100_000))
    whole = f'{{"openapi":"3.1.0","servers":[{{"url":"{API}"}}],"paths":{{{paths}}}}}'
    found = imported(whole, operations=("GET /99999",))
    assert [tool.tool_id for tool in found.tools] == ["get_99999"]


def test_operations_after_the_first_two_thousand_are_counted_and_left_out() -> None:
    found = imported(document({f"/{n}": {"get": {"summary": 5}} for n in range(MAX_OPERATIONS + 5)}))
    assert len(found.skipped) == MAX_OPERATIONS
    assert found.warnings == ["5 operations after the first 2000 are left out: choose by operations or tags"]


def test_the_report_on_many_broken_operations_is_bounded() -> None:
    broken = imported(document({f"/{n}": {"options": {}, "trace": {}} for n in range(20_000)}))
    assert len(broken.skipped) == MAX_REPORTED
    assert len(broken.warnings) == 1
    long = import_of(operation(parameters=[parameter("x" * 3_000, "cookie")]), path=f"/{'p' * 1_900}")
    assert [len(warning) <= 500 for warning in long.warnings] == [True]


def test_one_large_schema_that_many_operations_share_does_not_fill_the_memory() -> None:
    long = {"type": "string", "description": "d" * 1_900}
    large = {"type": "object", "properties": {f"p{n}": long for n in range(80)}}
    raw = {"requestBody": body({"type": "array", "items": ref("Large")}), "responses": answer(ref("Large"))}
    found = imported(document({f"/{n}": {"post": raw} for n in range(180)}, components={"schemas": {"Large": large}}))
    sizes = [len(json.dumps([tool.input_schema, tool.output_schema])) for tool in found.tools]
    assert sum(sizes) < 2 * MOST_TEXT
    assert 0 < len(found.tools) < 180
    assert "too large" in found.skipped[-1]["reason"]
    assert len(found.tools) + len(found.skipped) == 180


@pytest.mark.parametrize(
    ("first", "schemas"),
    [
        ("S0", {f"S{n}": ref(f"S{n + 1}") for n in range(5_000)}),
        ("N0", {f"N{n}": {"type": "array", "items": ref(f"N{n + 1}")} for n in range(6_000)}),
    ],
    ids=["references", "nested lists"],
)
def test_an_endless_chain_of_references_skips_the_operation(first: str, schemas: dict[str, Any]) -> None:
    raw = operation(parameters=[parameter("a", schema=ref(first))])
    assert len(import_of(raw, components={"schemas": schemas}).skipped) == 1


LEADS_AWAY = ["/../../etc/passwd", "/a/%2e%2e/%2E%2E/b", "/a\\..\\b", "/a/..", "/a?b=1"]
AMBIGUOUS = ["/a/{id}/{id}", "/a/{", "/a/}{", "/a/{}", "/a\r\nHost: x"]


@pytest.mark.parametrize("path", [*LEADS_AWAY, *AMBIGUOUS])
def test_a_path_that_no_request_of_the_server_can_have_skips_the_operation(path: str) -> None:
    found = import_of(operation(), path=path)
    assert (found.tools, len(found.skipped)) == ([], 1)
    assert found.skipped[0]["operation"].isprintable()


@pytest.mark.parametrize("path", ["//evil.example/x", "/@evil.example", ":80/x", ".evil.example/x"])
def test_a_path_that_looks_like_a_host_stays_a_path_of_the_server(path: str) -> None:
    for tool in import_of(operation(), path=path).tools:
        assert f"{tool.api.base_url}{tool.api.path}".startswith(f"{API}/")


NO_WEB_ADDRESS = [
    *("JaVaScRiPt:alert(1)", "file:///etc/passwd", "https://u:p@a.example", "https://evil.example\\@api.example.com"),
    *("https://a.example/../b", "https://a.example/x?y=1", "https://{host}", "https:///x", "//", "http://0x7f.1"),
    *("http://2130706433/", "http://[::1%25eth0]", "http://[::1", "https://a.example\r\nHost: b.example"),
]


@pytest.mark.requirement("W-09")
@pytest.mark.parametrize(
    ("document_url", "url"),
    [
        *(
            (document_url, url)
            for url in NO_WEB_ADDRESS
            for document_url in (None, "https://docs.example/openapi.json")
        ),
        (None, "/relative"),
        (None, ""),
    ],
)
def test_a_server_that_is_not_a_plain_web_address_skips_its_operations(document_url: str | None, url: str) -> None:
    found = imported(document({"/t": {"get": operation(servers=[{"url": url}])}}), document_url=document_url)
    assert found.tools == []
    assert "URL" in found.skipped[0]["reason"] or "base_url" in found.skipped[0]["reason"]


def test_server_variables_cannot_grow_without_end() -> None:
    variables = {f"v{n}": {"default": f"{{v{n + 1}}}{{v{n + 1}}}"} for n in range(100)}
    assert "too long" in reason_of(operation(servers=[{"url": "https://{v0}", "variables": variables}]))


EVIL = "x\r\nFATAL forged \x1b[31m\u202e"


@pytest.mark.parametrize(
    ("path", "raw"),
    [
        (f"/{EVIL}", operation()),
        ("/f/{" + EVIL + "}", operation()),
        ("/a", operation(parameters=[parameter(EVIL, "cookie")])),
        ("/a", operation(security=[{EVIL: []}])),
        ("/b", operation(requestBody=body({}, media_type=EVIL))),
        ("/c", operation(parameters=[{"$ref": EVIL}])),
        ("/c", operation(servers=[{"url": EVIL}])),
        ("/d", operation(parameters=[parameter("a", schema={"$ref": f"#/{EVIL}"})])),
        ("/e", operation(parameters=[parameter("b", "cookie", style=EVIL)])),
    ],
)
def test_texts_of_the_document_cannot_break_a_report_into_lines(path: str, raw: Any) -> None:
    found = import_of(raw, method="post", path=path)
    skipped = [text for operation in found.skipped for text in (operation["operation"], operation["reason"])]
    assert [*found.warnings, *skipped]
    assert all(text.isprintable() for text in [*found.warnings, *skipped])
