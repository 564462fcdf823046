"""Documents that are made to do harm: to this machine, to its memory, or to whoever calls the tools."""

import json
from typing import Any

import pytest

from tests.servers.registry.openapi_documents import API, answer, body, document, imported, operation, parameter
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


def test_what_is_said_of_many_broken_operations_is_bounded() -> None:
    broken = imported(document({f"/{n}": {"options": {}, "trace": {}} for n in range(20_000)}))
    assert len(broken.skipped) == MAX_REPORTED
    assert len(broken.warnings) == 1
    names = [parameter("x" * 3_000, "cookie")] * 2
    long = imported(document({f"/{'p' * 1_900}{n}": {"get": operation(parameters=names)} for n in range(50)}))
    assert all(len(warning) <= 500 for warning in long.warnings)


def test_one_large_schema_that_many_operations_share_does_not_fill_the_memory() -> None:
    large = {
        "type": "object",
        "properties": {f"p{n}": {"type": "string", "description": "d" * 150} for n in range(1_000)},
    }
    reference = {"$ref": "#/components/schemas/Large"}
    raw = {"requestBody": body({"type": "array", "items": reference}), "responses": answer(reference)}
    found = imported(document({f"/{n}": {"post": raw} for n in range(180)}, components={"schemas": {"Large": large}}))
    sizes = [len(json.dumps([tool.input_schema, tool.output_schema])) for tool in found.tools]
    assert sum(sizes) < 2 * MOST_TEXT
    assert 0 < len(found.tools) < 180
    assert "too large" in found.skipped[-1]["reason"]
    assert len(found.tools) + len(found.skipped) == 180


def test_references_that_double_at_every_step_stay_small() -> None:
    schemas: dict[str, Any] = {"S60": {"type": "string"}}
    for n in range(60):
        inner = {"$ref": f"#/components/schemas/S{n + 1}"}
        schemas[f"S{n}"] = {"allOf": [inner, inner]}
    raw = operation(
        requestBody=body({"$ref": "#/components/schemas/S0"}), responses=answer({"$ref": "#/components/schemas/S0"})
    )
    found = imported(document({"/t": {"post": raw}}, components={"schemas": schemas}))
    assert len(found.tools) + len(found.skipped) == 1
    assert len(json.dumps([tool.model_dump(mode="json") for tool in found.tools])) < 100_000


def test_a_long_chain_of_references_ends() -> None:
    schemas: dict[str, Any] = {f"S{n}": {"$ref": f"#/components/schemas/S{n + 1}"} for n in range(5_000)}
    nested = {f"N{n}": {"type": "array", "items": {"$ref": f"#/components/schemas/N{n + 1}"}} for n in range(6_000)}
    for name, found_schemas in (("S0", schemas), ("N0", nested)):
        raw = operation(parameters=[parameter("a", schema={"$ref": f"#/components/schemas/{name}"})])
        assert len(imported(document({"/t": {"get": raw}}, components={"schemas": found_schemas})).skipped) == 1


@pytest.mark.parametrize(
    "all_of",
    [
        {"$ref": "#/components/schemas/A"},
        {"allOf": [{"$ref": "#/components/schemas/A"}]},
        {"allOf": [{"allOf": [{"$ref": "#/components/schemas/A"}]}]},
    ],
)
def test_an_all_of_that_contains_itself_ends(all_of: Any) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "allOf": [all_of]}
    raw = operation(
        requestBody=body({"$ref": "#/components/schemas/A"}), responses=answer({"$ref": "#/components/schemas/A"})
    )
    found = imported(document({"/t": {"post": raw}}, components={"schemas": {"A": schema}}))
    assert len(found.tools) + len(found.skipped) == 1


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/a/%2e%2e/%2E%2E/b",
        "/a/..",
        "//evil.example/x",
        "/a\\..\\b",
        "/@evil.example",
        ":80/x",
        ".evil.example/x",
    ],
)
def test_no_path_leads_away_from_its_server(path: str) -> None:
    for tool in imported(document({path: {"get": operation()}})).tools:
        assert f"{tool.api.base_url}{tool.api.path}".startswith(f"{API}/")
        assert ".." not in tool.api.path


NO_WEB_ADDRESS = [
    *("javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "file:///etc/passwd", "gopher://a.example"),
    *("https://u:p@a.example", "https://api.example.com@evil.example", "https://evil.example\\@api.example.com"),
    *("https://a.example/../../x", "https://a.example/../b", "https://a.example/x?y=1", "https://{host}", "https://"),
    *("https:///x", "//", "x:y", "http://0x7f.1", "http://2130706433/", "http://[::1%25eth0]", "http://[::1"),
    *("ftp://a.example", "https://a.example\r\nHost: b.example"),
]


@pytest.mark.requirement("W-09")
@pytest.mark.parametrize("url", NO_WEB_ADDRESS)
@pytest.mark.parametrize("document_url", [None, "https://docs.example/openapi.json"])
def test_a_server_that_is_not_a_plain_web_address_skips_its_operations(url: str, document_url: str | None) -> None:
    found = imported({**document({"/t": {"get": operation()}}), "servers": [{"url": url}]}, document_url=document_url)
    assert found.tools == []
    assert "URL" in found.skipped[0]["reason"] or "base_url" in found.skipped[0]["reason"]


@pytest.mark.parametrize("url", ["/api", ""])
def test_a_relative_server_of_a_document_without_url_skips_its_operations(url: str) -> None:
    found = imported({**document({"/t": {"get": operation()}}), "servers": [{"url": url}]})
    assert (found.tools, len(found.skipped)) == ([], 1)


def test_server_variables_cannot_grow_without_end() -> None:
    variables = {f"v{n}": {"default": f"{{v{n + 1}}}{{v{n + 1}}}"} for n in range(100)}
    found = imported(
        {**document({"/t": {"get": operation()}}), "servers": [{"url": "https://{v0}", "variables": variables}]}
    )
    assert "too long" in found.skipped[0]["reason"]


def test_texts_of_the_document_cannot_break_a_report_into_lines() -> None:
    evil = "x\r\nFATAL forged \x1b[31m\u202e"
    whole = document(
        {
            f"/{evil}": {"get": operation()},
            "/a": {"get": operation(parameters=[parameter(evil, "cookie")], security=[{evil: []}])},
            "/b": {"post": operation(requestBody=body({}, media_type=evil))},
            "/c": {"get": operation(parameters=[{"$ref": evil}], servers=[{"url": evil}])},
            "/d": {"get": operation(parameters=[parameter("a", schema={"$ref": f"#/{evil}"})])},
            "/e": {"get": operation(parameters=[parameter("b", "cookie", style=evil)])},
            "/f/{" + evil + "}": {"get": operation()},
        }
    )
    found = imported(whole)
    told = [*found.warnings, *(text for skipped in found.skipped for text in (skipped["operation"], skipped["reason"]))]
    assert len(told) >= 8
    assert all(text.isprintable() for text in told)
