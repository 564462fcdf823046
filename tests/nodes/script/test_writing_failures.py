"""A model that fails, is cut off or answers nothing ends the script with the reason (A-04)."""

import pytest

from tests.fixtures.openai_wire import WireCall, WireTurn, openai_wire
from tests.nodes.model_at import USAGE, calling
from tests.nodes.script.writing import Endpoint, page, script, writing_graph
from toolweave.config.script_settings import ScriptSettings
from toolweave.config.settings import load_settings
from toolweave.errors import ConfigError, ScriptFailed
from toolweave.nodes.chat_models import ScriptModels, as_lazy_chat_model, settings_for_script
from toolweave.nodes.offline_model.model import OfflineChatModel

BROKEN = WireCall("write_script", '{"title": "Be')


@pytest.mark.parametrize(
    ("turn", "reason"),
    [
        (WireTurn(status=500), "status 500"),
        (WireTurn(calls=(BROKEN,), finish_reason="length"), "(finish_reason length)"),
        (WireTurn(text="I", finish_reason="content_filter"), "(finish_reason content_filter)"),
        (WireTurn(), "empty answer"),
    ],
    ids=range(4),
)
async def test_a_model_that_fails_is_not_called_again(endpoint: Endpoint, turn: WireTurn, reason: str) -> None:
    made = await endpoint.write(turn, calling(script()))

    assert made.error.startswith("The script could not be written: ")
    assert reason in made.error
    assert len(made.requests) == 1


async def test_the_usage_of_an_answer_that_was_cut_off_is_counted(endpoint: Endpoint) -> None:
    made = await endpoint.write(WireTurn(text="{", finish_reason="length", usage=USAGE))

    assert made.failure is not None
    assert [used["output_tokens"] for used in made.failure.model_usage] == [20]
    assert "target_length_s" in made.error


async def test_a_model_that_is_not_configured_ends_the_script() -> None:
    with pytest.raises(ScriptFailed, match="writes scripts only if it is selected by name"):
        await writing_graph(ScriptModels(load_settings({}))).ainvoke({"page": page()})


async def test_the_settings_of_a_script_choose_model_and_endpoint() -> None:
    with openai_wire([calling(script())]) as server:
        models = ScriptModels(load_settings({"OPENROUTER_API_KEY": "not-for-this-one", "OPENAI_API_KEY": "key"}))
        settings = {"model": "small", "base_url": server.base_url}

        made = await writing_graph(models).ainvoke({"page": page(), "settings": settings})

    assert made["script"]["title"] == "Bees"
    assert server.requests[0].body["model"] == "small"
    assert server.requests[0].headers["authorization"] == "Bearer key"


@pytest.mark.parametrize(
    ("environ", "wanted", "expected"),
    [
        ({"GEMINI_API_KEY": "g"}, {"model": "m"}, ("m", None, "g")),
        ({"GEMINI_API_KEY": "g"}, {"model": "m", "base_url": "http://h/v1"}, ("m", "http://h/v1", None)),
        (
            {"GEMINI_API_KEY": "g", "OPENROUTER_API_KEY": "o"},
            {"model": "m", "base_url": "https://generativelanguage.googleapis.com/v1beta/openai"},
            ("m", "https://generativelanguage.googleapis.com/v1beta/openai", "g"),
        ),
        ({"TOOLWEAVE_MODEL": "offline"}, {}, ("offline", None, None)),
    ],
)
def test_an_endpoint_gets_the_key_that_is_meant_for_it(
    environ: dict[str, str], wanted: dict[str, str], expected: tuple[str | None, str | None, str | None]
) -> None:
    chosen = settings_for_script(load_settings(environ), ScriptSettings(**wanted))

    gemini = chosen.gemini_api_key.get_secret_value() if chosen.gemini_api_key else None
    assert (chosen.model, chosen.openai_base_url, gemini) == expected
    assert chosen.openrouter_api_key is None


def test_a_model_without_an_endpoint_is_refused() -> None:
    with pytest.raises(ConfigError, match="OPENROUTER_API_KEY"):
        settings_for_script(load_settings({}), ScriptSettings(model="m"))


def test_a_model_that_is_given_writes_every_script_and_others_are_built_once() -> None:
    given = as_lazy_chat_model(OfflineChatModel())
    models = ScriptModels()

    assert ScriptModels(model=given).model_for(ScriptSettings(model="m")) is given
    assert models.model_for(ScriptSettings(model="m")) is models.model_for(ScriptSettings(model="m", language="de"))
    assert models.model_for(ScriptSettings(model="m")) is not models.model_for(ScriptSettings())
