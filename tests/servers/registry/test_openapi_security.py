"""How a tool sends credentials, from what a document says of its security."""

from typing import Any

import pytest

from tests.servers.registry.openapi_documents import document, imported, operation, parameter, reason_of, tool_of
from toolweave.tool_config import ApiAuth, ToolConfig

SCHEMES: dict[str, Any] = {
    "headerKey": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "otherKey": {"type": "apiKey", "in": "header", "name": "X-App"},
    "queryKey": {"type": "apiKey", "in": "query", "name": "api_key"},
    "otherQueryKey": {"type": "apiKey", "in": "query", "name": "app"},
    "cookieKey": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "hostKey": {"type": "apiKey", "in": "header", "name": "Host"},
    "crlfKey": {"type": "apiKey", "in": "header", "name": "X\r\nY"},
    "namelessKey": {"type": "apiKey", "in": "header"},
    "bearer": {"type": "http", "scheme": "Bearer", "bearerFormat": "JWT"},
    "basic": {"type": "http", "scheme": "basic"},
    "digest": {"type": "http", "scheme": "digest"},
    "mutual": {"type": "mutualTLS"},
    "oauth": {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "https://a.example/t", "scopes": {}}}},
    "oidc": {"type": "openIdConnect", "openIdConnectUrl": "https://a.example/.well-known/openid-configuration"},
    "pointed": {"$ref": "#/components/securitySchemes/bearer"},
    "broken": {"type": 5},
    "elsewhere": {"$ref": "https://a.example/schemes.json"},
}
COMPONENTS = {"securitySchemes": SCHEMES}


def secured(*requirements: Any, **more: Any) -> ToolConfig:
    return tool_of(operation(security=list(requirements)), components=COMPONENTS, **more)


@pytest.mark.parametrize(
    ("scheme", "auth"),
    [
        ("headerKey", ApiAuth(type="api_key", name="X-Key", value="{env:TOOL_PET_STORE_HEADER_KEY}")),
        ("queryKey", ApiAuth(type="api_key", location="query", name="api_key", value="{env:TOOL_PET_STORE_QUERY_KEY}")),
        ("bearer", ApiAuth(type="bearer", value="{env:TOOL_PET_STORE_BEARER}")),
        ("basic", ApiAuth(type="basic", value="{env:TOOL_PET_STORE_BASIC}")),
        ("oauth", ApiAuth(type="bearer", value="{env:TOOL_PET_STORE_OAUTH}")),
        ("oidc", ApiAuth(type="bearer", value="{env:TOOL_PET_STORE_OIDC}")),
        ("pointed", ApiAuth(type="bearer", value="{env:TOOL_PET_STORE_POINTED}")),
    ],
)
def test_a_scheme_becomes_an_auth_that_refers_to_a_variable(scheme: str, auth: ApiAuth) -> None:
    assert secured({scheme: []}).api.auth == auth


def test_an_operations_security_wins_over_the_documents() -> None:
    paths = {
        "/a": {"get": operation("by_default")},
        "/b": {"get": operation("own", security=[{"basic": []}])},
        "/c": {"get": operation("open", security=[])},
        "/d": {"get": operation("open_too", security=[{}])},
    }
    found = imported(document(paths, components=COMPONENTS, security=[{"bearer": []}]))
    assert {tool.tool_id: tool.api.auth.type for tool in found.tools} == {
        "by_default": "bearer",
        "own": "basic",
        "open": "none",
        "open_too": "none",
    }


def test_the_first_alternative_that_can_be_fulfilled_is_taken() -> None:
    tool = secured({"mutual": []}, {"cookieKey": []}, {"unknown": []}, {"basic": []}, {"bearer": []})
    assert tool.api.auth.type == "basic"


UNUSABLE = ("cookieKey", "hostKey", "crlfKey", "namelessKey", "digest", "mutual", "unknown", "broken", "elsewhere")


@pytest.mark.parametrize(
    ("security", "expected"),
    [
        *(([{scheme: []}], "none of its security requirements can be fulfilled") for scheme in UNUSABLE),
        ({"bearer": []}, ""),
        (["bearer"], ""),
        ([{"queryKey": ["x"], "otherQueryKey": ["x"]}], ""),
        ([{"basic": ["x"], "bearer": ["x"]}], ""),
    ],
)
def test_an_operation_whose_security_cannot_be_fulfilled_is_skipped(security: Any, expected: str) -> None:
    reason = reason_of(operation(security=security), components=COMPONENTS)
    assert expected in reason
    assert reason.isprintable()


def test_schemes_that_belong_together_are_all_sent() -> None:
    tool = secured({"headerKey": [], "queryKey": [], "bearer": []})
    assert tool.api.auth.location == "query"
    assert tool.api.headers == {
        "X-Key": "{env:TOOL_PET_STORE_HEADER_KEY}",
        "Authorization": "Bearer {env:TOOL_PET_STORE_BEARER}",
    }
    assert tool.secret_headers == {"X-Key", "Authorization"}
    assert secured({"headerKey": [], "otherKey": []}).api.headers == {"X-App": "{env:TOOL_PET_STORE_OTHER_KEY}"}


def test_a_parameter_that_is_a_credential_is_no_field() -> None:
    credentials = [parameter("x-key", "header", required=True), parameter("api_key"), parameter("X-App", "header")]
    required: list[Any] = [{"headerKey": [], "otherKey": [], "queryKey": []}]
    raw = operation(security=required, parameters=[*credentials, parameter("q")])
    assert list(tool_of(raw, components=COMPONENTS).input_fields) == ["q"]


@pytest.mark.parametrize(
    ("title", "variable"),
    [
        ("My API (v2)", "TOOL_MY_API_V2_BEARER"),
        ("日本", "TOOL_API_BEARER"),
        ("x" * 300, f"TOOL_{'X' * 40}_BEARER"),
        ("}{env:HOME", "TOOL_ENV_HOME_BEARER"),
        (None, "TOOL_API_BEARER"),
    ],
)
def test_the_variable_is_named_after_the_documents_title(title: Any, variable: str) -> None:
    assert secured({"bearer": []}, info={"title": title}).api.auth.value == f"{{env:{variable}}}"


def test_no_default_or_example_of_a_document_becomes_a_credential() -> None:
    scheme = {**SCHEMES["headerKey"], "example": "sk-secret", "x-default": "sk-secret", "value": "sk-secret"}
    tool = tool_of(operation(security=[{"k": []}]), components={"securitySchemes": {"k": scheme}})
    assert "sk-secret" not in tool.model_dump_json()
