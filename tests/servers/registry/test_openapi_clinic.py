"""A larger document, of the kind that is written by hand over years: OpenAPI 3.0 in YAML."""

from pathlib import Path
from typing import Any

import pytest

from tests.servers.registry.openapi_documents import imported, request
from toolweave.nodes.http_tools.requests import WrongArguments
from toolweave.servers.registry.openapi.importing import ImportResult
from toolweave.tool_config import ApiAuth, ToolConfig

DOCUMENT = Path(__file__).with_name("clinic_api.yaml").read_bytes()
BASE = "https://eu.clinic.example/v2"


@pytest.fixture(scope="module")
def clinic() -> ImportResult:
    return imported(DOCUMENT)


@pytest.fixture(scope="module")
def tools(clinic: ImportResult) -> dict[str, ToolConfig]:
    return {tool.tool_id: tool for tool in clinic.tools}


def test_all_operations_but_five_become_tools_and_the_report_names_each_difference(
    clinic: ImportResult, tools: dict[str, ToolConfig]
) -> None:
    assert len(tools) == 29
    reasons = {skipped["operation"]: skipped["reason"] for skipped in clinic.skipped}
    assert reasons.pop("PUT /patients/{patientId}/photo") == "its body is image/png, and only JSON is sent"
    assert "multipart/form-data" in reasons.pop("POST /patients/{patientId}/documents")
    assert "mutualTLS" in reasons["GET /staff"]
    assert "apiKey cookie" in reasons.pop("GET /staff")
    assert "https://lab.clinic.example/results.json" in reasons.pop("GET /lab/{patientId}")
    assert reasons.pop("OPTIONS /session") == "tools do not call OPTIONS"
    assert reasons == {}

    assert clinic.warnings == [
        "POST /staff: the scheme oauth is oauth2: put a token into TOOL_CLINIC_DESK_OAUTH; Toolweave requests none",
        "GET /reports/{year}: it is deprecated",
        "GET /session: the cookie parameter 'session' is left out: cookies are not sent",
    ]


def test_ids_servers_and_credentials_are_those_of_the_document(tools: dict[str, ToolConfig]) -> None:
    assert {"import_post", "get_health", "listPatients"} <= tools.keys()
    assert tools["listPatients"].api.base_url == BASE
    assert tools["orderLab"].api.base_url == "https://orders.clinic.example"
    assert tools["listPatients"].api.auth == ApiAuth(
        type="api_key", name="X-Desk-Key", value="{env:TOOL_CLINIC_DESK_DESK_KEY}"
    )
    assert tools["forgetPatient"].api.headers == {"X-Second-Person": "{env:TOOL_CLINIC_DESK_SECOND}"}
    operations = ("listRooms", "getRoom", "orderItem", "addStaff")
    assert [tools[name].api.auth.type for name in operations] == ["none", "none", "basic", "bearer"]
    assert list(tools["report"].input_fields) == ["year"]


PATIENT = {
    "name": "A",
    "born": "2000-01-01",
    "insured": True,
    "address": None,
    "password": "x",
    "doctor": {"name": "B", "role": "nurse", "boss": {"name": "C", "role": "desk"}},
}
SEARCH = {"all": [{"field": "a", "equals": 1}, {"not": {"field": "b", "equals": None}}]}
VISITS = [{"patient_id": 1, "at": "2024-01-01T00:00:00Z"}]


@pytest.mark.requirement("W-01")
@pytest.mark.parametrize(
    ("tool_id", "arguments", "url", "query", "body"),
    [
        (
            "listPatients",
            {"limit": 5, "sort": "name,born", "filter_city": "Ulm", "filter_insured": True},
            "/patients",
            {"limit": 5, "sort": "name,born", "filter[city]": "Ulm", "filter[insured]": True},
            None,
        ),
        ("registerPatient", PATIENT, "/patients", {}, PATIENT),
        ("cancelVisit", {"visit-id": "v", "reason": "ill"}, "/visits/v", {"reason": "ill"}, None),
        ("searchVisits", {"limit": 3, "body": SEARCH}, "/visits/search", {"limit": 3}, SEARCH),
        ("import_post", {"body": VISITS}, "/visits/import", {}, VISITS),
    ],
)
def test_arguments_become_the_request_that_the_document_describes(
    tools: dict[str, ToolConfig], tool_id: str, arguments: dict[str, Any], url: str, query: dict[str, Any], body: Any
) -> None:
    built = request(tools[tool_id], **arguments)
    assert (built.url, built.query, built.body) == (BASE + url, query, body)


@pytest.mark.parametrize(
    ("tool_id", "arguments"),
    [
        ("registerPatient", {"name": "A", "born": "2000-01-01"}),
        ("orderItem", {"item": "a", "item_body": "a", "amount": 0}),
        ("searchVisits", {"body": {"all": [{"neither": 1}]}}),
        ("replacePatient", {"patientId": 1, "name": "A", "born": "2000-01-01", "insured": True}),
    ],
)
def test_arguments_that_the_document_does_not_allow_make_no_request(
    tools: dict[str, ToolConfig], tool_id: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(WrongArguments):
        request(tools[tool_id], **arguments)


def test_dates_stay_texts_and_recursive_schemas_stand_on_their_own(tools: dict[str, ToolConfig]) -> None:
    assert tools["freeTimes"].input_fields["day"]["default"] == "2024-05-01"
    assert "NoteThread" in tools["listNotes"].output_schema["$defs"]
    patient = tools["getPatient"].output_schema
    assert list(patient["allOf"][0]["properties"]) == ["id", "name", "born"]
    assert list(patient["allOf"][1]["properties"]) == ["insured", "address", "doctor"]
