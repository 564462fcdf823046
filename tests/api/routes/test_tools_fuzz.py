"""Requests drawn from our own OpenAPI document, valid and not: no route of tools or of the workflow breaks."""

from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.core.result import Ok

from tests.fixtures.app_server import AppServer
from toolweave.api.app import app

SERVER_ENV = {"TOOLWEAVE_MODEL": "offline"}
EXAMPLES = 15
EXPECTED = {200, 201, 204, 404, 405, 409, 412, 413, 422, 502}

OPERATIONS: dict[str, Any] = {
    found.ok().label: found.ok()
    for found in schemathesis.openapi.from_dict(app.openapi()).get_all_operations()
    if isinstance(found, Ok) and found.ok().path.startswith(("/tools", "/workflow"))
}


@pytest.mark.hypothesis
@pytest.mark.parametrize("label", sorted(OPERATIONS))
def test_no_drawn_request_breaks_a_route(app_server: AppServer, label: str) -> None:
    with httpx.Client(base_url=app_server.url, timeout=60) as http:

        @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
        @given(st.data())
        def send(data: st.DataObject) -> None:
            mode = data.draw(st.sampled_from((GenerationMode.POSITIVE, GenerationMode.NEGATIVE)))
            case = data.draw(OPERATIONS[label].as_strategy(generation_mode=mode))
            sent = case.as_transport_kwargs(base_url=app_server.url)
            sent.pop("cookies", None)
            if "data" in sent:
                sent["content"] = sent.pop("data")
            answer = http.send(http.build_request(**sent))
            # Only a document that cannot be fetched is an error beyond the request's.
            assert answer.status_code in EXPECTED, f"{label}: {answer.status_code} {answer.text[:300]}"
            assert answer.status_code != 502 or label == "POST /tools/import/openapi"

        send()
