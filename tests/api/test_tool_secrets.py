"""What is a secret in a ToolConfig is never shown, and comes back to where it was (W-01, W-08)."""

import json
from typing import Any

import pytest

from toolweave.api.tool_requests import config_json, masked_json, masked_paths, restore_secrets
from toolweave.tool_config import ToolConfig


def tool(**api: Any) -> ToolConfig:
    schemas = {name: api.pop(name) for name in ("input_schema", "output_schema") if name in api}
    operation = {"base_url": "https://api.example.org", "path": "/x", "method": "GET", **api}
    return ToolConfig.model_validate({"tool_id": "t", "name": "T", "description": "d", "api": operation, **schemas})


@pytest.mark.parametrize(
    "text",
    [
        "s3cret",
        "Bearer s3cret",
        "{env:TOOL_KEY}s3cret",
        "{env:TOOL_KEY:-s3cret}",
        "ann:s3cret",
        "{env:TOOL_USER}:s3cret",
        "s3cret {env:TOOL_KEY}",
        "{env:TOOL-s3cret}",
    ],
)
def test_a_literal_credential_is_hidden_wherever_it_stands(text: str) -> None:
    places = [
        tool(auth={"type": "bearer", "value": text}),
        tool(auth={"type": "basic", "value": text}),
        tool(auth={"type": "api_key", "location": "query", "name": "key", "value": text}),
        tool(headers={"X-Api-Key": text}),
        tool(headers={"authorization": text}),
    ]
    for config in places:
        assert "s3cret" not in json.dumps(masked_json(config))
        assert "***" in json.dumps(masked_json(config))
        assert "s3cret" in json.dumps(config_json(config)), "the configuration itself stays as it is"


@pytest.mark.parametrize(
    "text", ["{env:TOOL_KEY}", "Bearer {env:TOOL_KEY}", "${env:TOOL_KEY}", "{env:TOOL_USER}:{env:TOOL_PASSWORD}"]
)
def test_what_refers_to_variables_only_is_shown(text: str) -> None:
    config = tool(auth={"type": "bearer", "value": text}, headers={"X-Token": text, "X-Tenant": text})
    assert masked_json(config) == config_json(config)


def test_headers_that_are_no_secrets_are_shown_unless_they_look_like_one() -> None:
    headers = {
        "Accept": "application/json",
        "X-Tenant": "acme",
        "X-Shop": "sk-0123456789abcdef",
        "X-Mix": "a{env:TOOL_B}",
    }
    assert masked_json(tool(headers=headers))["api"]["headers"] == {
        "Accept": "application/json",
        "X-Tenant": "acme",
        "X-Shop": "***",
        "X-Mix": "***",
    }


def test_fixed_values_of_fields_that_are_named_after_secrets_are_hidden_in_schemas() -> None:
    fields = {
        "password": {"type": "string", "default": "s3cret"},
        "nested": {"anyOf": [{"properties": {"apiKey": {"const": "s3cret", "description": "the key"}}}]},
        "title": {"type": "string", "default": "shown"},
        "token": {"type": "string"},
    }
    answer = masked_json(tool(input_schema={"type": "object", "properties": fields}))["input_schema"]["properties"]
    assert "s3cret" not in json.dumps(answer)
    assert answer["password"] == {"type": "string", "default": "***"}
    assert (answer["title"], answer["token"]) == (fields["title"], fields["token"])


def test_what_is_shown_comes_back_with_its_secrets() -> None:
    config = tool(
        auth={"type": "bearer", "value": "s3cret"},
        headers={"X-Api-Key": "s3cret", "Accept": "*/*"},
        input_schema={"type": "object", "properties": {"pin": {}, "password": {"default": "s3cret"}}},
    )
    restored = masked_json(config)
    assert (restore_secrets(restored, config_json(config)), restored) == (True, config_json(config))
    assert restore_secrets(restored, config_json(config)) is False


def test_a_hidden_secret_that_nothing_is_stored_for_stays_hidden_and_is_named() -> None:
    stored = tool(headers={"Accept": "*/*"}, auth={"type": "bearer", "value": "{env:TOOL_KEY}"})
    given = tool(headers={"X-New": "***", "X-Api-Key": "***"}, auth={"type": "bearer", "value": "***"})
    restored = config_json(given)
    assert restore_secrets(restored, config_json(stored)) is False
    assert sorted(masked_paths(restored)) == [
        ("api", "auth", "value"),
        ("api", "headers", "X-Api-Key"),
        ("api", "headers", "X-New"),
    ]
