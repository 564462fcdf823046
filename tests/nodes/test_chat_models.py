"""D-3: which model the settings choose, and that a configured one is never replaced."""

import asyncio
import sys
from types import ModuleType, SimpleNamespace
from typing import cast

import pytest
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI

from tests.fixtures.logged import logged
from tests.fixtures.openai_wire import WireTurn, openai_wire
from tests.fixtures.scripted_model import ScriptedModel
from toolweave.config.settings import load_settings
from toolweave.errors import ConfigError, ModelError
from toolweave.nodes.chat_models import as_lazy_chat_model, build_chat_model, build_named_model
from toolweave.nodes.model_endpoint import chosen_endpoint, model_label
from toolweave.nodes.model_turn import model_turn
from toolweave.nodes.offline_model.model import OfflineChatModel

pytestmark = pytest.mark.requirement("D-3")

OPENROUTER = {"OPENROUTER_API_KEY": "or-key"}
GEMINI_URL = "https://generativelanguage.googleapis.com/v1beta/openai/"
GEMINI = {"GEMINI_API_KEY": "gm-key"}
OPENAI = {"OPENAI_API_KEY": "oa-key"}
LOCAL = {"OPENAI_BASE_URL": "http://127.0.0.1:11434/v1"}
NAMED = {"TOOLWEAVE_MODEL": "qwen3"}


@pytest.mark.parametrize(
    ("environ", "model", "base_url", "key"),
    [
        (OPENROUTER, "google/gemini-2.5-flash", "https://openrouter.ai/api/v1", "or-key"),
        (OPENROUTER | GEMINI | OPENAI | LOCAL | NAMED, "qwen3", "https://openrouter.ai/api/v1", "or-key"),
        (
            GEMINI | OPENAI | LOCAL,
            "gemini-2.5-flash",
            "https://generativelanguage.googleapis.com/v1beta/openai/",
            "gm-key",
        ),
        (OPENAI | NAMED, "qwen3", "https://api.openai.com/v1", "oa-key"),
        (OPENAI | LOCAL | NAMED, "qwen3", "http://127.0.0.1:11434/v1", "oa-key"),
        ({"OPENROUTER_API_KEY": ""} | LOCAL | NAMED, "qwen3", "http://127.0.0.1:11434/v1", "not-needed"),
    ],
)
def test_the_first_configured_endpoint_is_chosen(environ: dict[str, str], model: str, base_url: str, key: str) -> None:
    settings = load_settings(environ)
    endpoint = chosen_endpoint(settings)
    chat_model = build_chat_model(settings)

    assert endpoint is not None
    assert (endpoint.model, endpoint.base_url, endpoint.api_key.get_secret_value()) == (model, base_url, key)
    assert isinstance(chat_model, ChatOpenAI)
    assert (chat_model.model_name, chat_model.openai_api_base) == (model, base_url)
    assert model_label(settings) == model


@pytest.mark.requirement("S-12")
@pytest.mark.parametrize("text", ["Extra inputs are not permitted: stream_options", "key [include_usage]", ""])
async def test_an_endpoint_that_refuses_to_count_tokens_is_called_without(text: str) -> None:
    turns = [WireTurn(status=422, error=text), WireTurn("one"), WireTurn("two")]
    with openai_wire(turns) as server:
        model = build_chat_model(load_settings(OPENAI | {"OPENAI_BASE_URL": server.base_url} | NAMED))
        answers = [await model_turn(model, [HumanMessage("hi")], {}) for _ in range(2)]

    assert [answer.content for answer in answers] == ["one", "two"]
    assert ["stream_options" in request.body for request in server.requests] == [True, False, False]


@pytest.mark.parametrize(
    ("environ", "missing"),
    [(OPENAI, "TOOLWEAVE_MODEL"), (LOCAL, "TOOLWEAVE_MODEL"), (NAMED, r"qwen3.*OPENROUTER_API_KEY")],
)
def test_a_model_without_an_endpoint_or_the_reverse_is_refused(environ: dict[str, str], missing: str) -> None:
    with pytest.raises(ConfigError, match=missing):
        build_chat_model(load_settings(environ))


def test_without_any_setting_the_offline_model_answers_with_a_warning() -> None:
    with logged(format="{level} {message}") as lines:
        chat_model = build_chat_model(load_settings({}))

    assert isinstance(chat_model, OfflineChatModel)
    assert model_label(load_settings({})) == "offline"
    assert len(lines) == 1
    assert "WARNING No model is configured" in lines[0]


def test_the_offline_model_is_used_when_it_is_named_beside_keys() -> None:
    settings = load_settings(OPENROUTER | GEMINI | OPENAI | LOCAL | {"TOOLWEAVE_MODEL": "OFFLINE"})

    assert isinstance(build_chat_model(settings), OfflineChatModel)
    assert model_label(settings) == "offline"


async def test_a_rejected_key_fails_the_call_and_does_not_fall_back() -> None:
    rejected = WireTurn(status=401, error="Incorrect API key provided: sk-very-secret")
    with openai_wire([rejected], repeat=True) as server:
        model = build_chat_model(load_settings(OPENAI | {"OPENAI_BASE_URL": server.base_url} | NAMED))
        with pytest.raises(ModelError, match="rejected the API key") as failure:
            await model_turn(model, [HumanMessage("hi")], {})

    assert "sk-very-secret" not in str(failure.value)
    assert len(server.requests) == 1, "a rejected key is not used again"


async def test_a_dead_endpoint_fails_the_call_and_does_not_fall_back() -> None:
    with openai_wire([]) as server:
        dead = server.base_url
    model = build_chat_model(load_settings({"OPENAI_BASE_URL": dead} | NAMED), max_retries=0)

    with pytest.raises(ModelError, match="could not be reached"):
        await model_turn(model, [HumanMessage("hi")], {})


async def test_an_overloaded_endpoint_is_called_again_with_the_model_name_and_a_placeholder_key() -> None:
    busy = WireTurn(status=429, headers={"retry-after-ms": "1"})
    with openai_wire([busy, busy, WireTurn(text="at last")]) as server:
        model = build_chat_model(load_settings({"OPENAI_BASE_URL": server.base_url} | NAMED))
        answer = await model_turn(model, [HumanMessage("hi")], {})

    assert answer.text == "at last"
    assert [request.path for request in server.requests] == ["/v1/chat/completions"] * 3
    assert server.requests[0].headers["authorization"] == "Bearer not-needed"
    assert server.requests[0].body["model"] == "qwen3"


def test_a_model_is_built_once_per_event_loop() -> None:
    built: list[ScriptedModel] = []

    def build() -> ScriptedModel:
        built.append(ScriptedModel(turns=[]))
        return built[-1]

    async def get_models() -> set[int]:
        return {id(model) for model in await asyncio.gather(*(lazy.get() for _ in range(20)))}

    lazy = as_lazy_chat_model(build)

    assert [asyncio.run(get_models()) for _ in range(2)] == [{id(model)} for model in built]
    assert len(built) == 2


@pytest.mark.requirement("U-05")
@pytest.mark.parametrize(
    ("name", "environ", "model", "url"),
    [
        ("openai:gpt-4o", OPENAI | OPENROUTER | NAMED, "gpt-4o", "https://api.openai.com/v1"),
        ("openai:qwen3:8b", LOCAL, "qwen3:8b", "http://127.0.0.1:11434/v1"),
        ("qwen3:8b", LOCAL, "qwen3:8b", "http://127.0.0.1:11434/v1"),
        ("x-ai/grok", OPENROUTER, "x-ai/grok", "https://openrouter.ai/api/v1"),
    ],
)
def test_a_model_is_named_with_or_without_its_provider(
    monkeypatch: pytest.MonkeyPatch, name: str, environ: dict[str, str], model: str, url: str
) -> None:
    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)

    chat_model = build_named_model(name)

    assert isinstance(chat_model, ChatOpenAI)
    assert (chat_model.model_name, chat_model.openai_api_base) == (model, url)
    assert isinstance(build_named_model("offline"), OfflineChatModel)


@pytest.mark.requirement("U-05")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("openai:gpt-4o", "openai:gpt-4o needs OPENAI_API_KEY, or OPENAI_BASE_URL"),
        ("anthropic:claude", "package langchain.*pip install"),
        ("opnai:gpt-4o", "opnai:gpt-4o.*package langchain.*pip install"),
    ],
)
@pytest.mark.parametrize("environ", [{}, OPENROUTER])
async def test_a_named_model_that_cannot_be_built_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], name: str, reason: str
) -> None:
    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match=reason):
        await as_lazy_chat_model(name).get()


BUILT = ScriptedModel(turns=[])
NO_PACKAGE = "The model 'ibm:granite' cannot be built: Initializing ChatWatsonx requires the langchain-ibm package. Set"
NO_PROVIDER = "The model 'opnai:gpt-4o' cannot be built: Unsupported provider='opnai'. Set an endpoint's variable"


def init_chat_model(model: str, *, model_provider: str | None = None) -> ScriptedModel:
    """Behave as LangChain's function, which knows one provider, whose package for `ibm` is missing."""
    if model_provider == "ibm":
        raise ImportError("Initializing ChatWatsonx requires the langchain-ibm package.")
    if (model, model_provider) not in {("claude", "anthropic"), ("claude", None)}:
        raise ValueError(f"Unsupported provider={model_provider!r}.\n\nSupported model providers are: anthropic")
    return BUILT


@pytest.mark.requirement("U-05")
@pytest.mark.parametrize(
    ("name", "environ", "model"),
    [
        ("anthropic:claude", {}, BUILT),
        ("anthropic:claude", OPENROUTER, BUILT),
        ("anthropic:claude", LOCAL, BUILT),
        ("claude", {}, BUILT),
        ("claude", OPENROUTER, "claude"),
        ("qwen3:8b", LOCAL, "qwen3:8b"),
        ("meta-llama/llama-4:free", OPENROUTER, "meta-llama/llama-4:free"),
        ("ibm:granite", OPENROUTER, NO_PACKAGE),
        ("ibm:granite", LOCAL, NO_PACKAGE),
        ("opnai:gpt-4o", OPENROUTER, NO_PROVIDER),
        ("opnai:gpt-4o", OPENAI, NO_PROVIDER),
    ],
)
def test_langchain_builds_the_models_that_no_configured_endpoint_has(
    monkeypatch: pytest.MonkeyPatch, name: str, environ: dict[str, str], model: ScriptedModel | str
) -> None:
    langchain = SimpleNamespace(init_chat_model=init_chat_model)
    monkeypatch.setitem(sys.modules, "langchain.chat_models", cast("ModuleType", langchain))
    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)

    found: object
    try:
        built = build_named_model(name)
        found = built.model_name if isinstance(built, ChatOpenAI) else built
    except ConfigError as error:
        found = str(error)

    assert found is model if model is BUILT else str(found).startswith(str(model))
