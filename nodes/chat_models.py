"""Build the chat model that the settings or a script job select, on first use, once per event loop (D-3, A-05)."""

import asyncio
import threading
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, cast
from weakref import WeakKeyDictionary

from langchain_core.language_models import BaseChatModel

from toolweave.config.settings import Settings, load_settings
from toolweave.errors import ConfigError
from toolweave.nodes import model_endpoint

if TYPE_CHECKING:
    from toolweave.config.script_settings import ScriptSettings

CONNECT_TIMEOUT_S = 10.0


def build_chat_model(settings: Settings, *, max_retries: int = 2) -> BaseChatModel:
    """Build the model of the first configured endpoint: OpenRouter, Gemini, OpenAI or OPENAI_BASE_URL.

    `TOOLWEAVE_MODEL=offline` selects the offline model, which is also the default, with a warning. It never replaces a
    configured endpoint: if the endpoint fails, the run fails with a ModelError.

    Raises:
        ConfigError: as `chosen_endpoint`.
    """
    endpoint = model_endpoint.chosen_endpoint(settings)
    if endpoint is None:
        model_endpoint.warn_if_offline(settings)
        # Imported here, as those below: each takes long to import, and most programs need one of them or none.
        from toolweave.nodes.offline_model.model import OfflineChatModel  # noqa: PLC0415

        return OfflineChatModel()
    from openai import DefaultAsyncHttpxClient, Timeout  # noqa: PLC0415

    from toolweave.nodes.endpoint_chat_openai import EndpointChatOpenAI  # noqa: PLC0415

    timeout = Timeout(settings.model_timeout_s, connect=min(CONNECT_TIMEOUT_S, settings.model_timeout_s))
    return EndpointChatOpenAI(
        model=endpoint.model,
        base_url=endpoint.base_url,
        api_key=endpoint.api_key,
        timeout=timeout,
        stream_chunk_timeout=settings.model_timeout_s,
        # By default all models of an endpoint share one HTTP client, even across event loops.
        http_async_client=DefaultAsyncHttpxClient(timeout=timeout, trust_env=endpoint.uses_proxy),
        max_retries=max_retries,
        use_responses_api=None if endpoint.base_url == model_endpoint.OPENAI_URL else False,
    )


def build_named_model(name: str) -> BaseChatModel:
    """Build the model with a name as in LangChain's `init_chat_model`, such as "openai:gpt-4o" (U-05).

    A name without a provider is a model of the endpoint that the environment configures, as in TOOLWEAVE_MODEL. If
    there is none, and for other providers, `init_chat_model` itself builds the model. The endpoint of OPENAI_BASE_URL
    also serves names with a colon that `init_chat_model` refuses, such as "qwen3:8b".

    Raises:
        ConfigError: as `chosen_endpoint`; or the package `langchain`, or what it needs for the provider, is missing.
    """
    settings = load_settings()
    provider, _, model = name.partition(":")
    if provider == "openai" and model:
        if not (settings.openai_api_key or settings.openai_base_url):
            raise ConfigError(f"The model {name} needs OPENAI_API_KEY, or OPENAI_BASE_URL for a compatible endpoint.")
        chosen = {"model": model, "openrouter_api_key": None, "gemini_api_key": None}
        return build_chat_model(settings.model_copy(update=chosen))
    settings = settings.model_copy(update={"model": name})
    router = settings.openrouter_api_key or settings.gemini_api_key
    is_offline = name.strip().lower() == model_endpoint.OFFLINE
    # A model of OpenRouter can have a colon after a slash: meta-llama/llama-4:free.
    options = {"model_provider": provider} if model and "/" not in provider else {}
    if not options and (router or settings.openai_api_key or settings.openai_base_url or is_offline):
        return build_chat_model(settings)
    try:
        init_chat_model = import_module("langchain.chat_models").init_chat_model
        return cast("BaseChatModel", init_chat_model(model if options else name, **options))
    except (ImportError, ValueError) as error:
        # langchain is not installed, or does not know the provider.
        if isinstance(error, ModuleNotFoundError | ValueError) and settings.openai_base_url and not router:
            return build_chat_model(settings)
        reason = str(error).partition("\n")[0].rstrip(".")
        fix = "Set an endpoint's variable (OPENAI_BASE_URL, …), or install the package langchain: pip install langchain"
        raise ConfigError(f"The model {name!r} cannot be built: {reason}.", fix=fix) from error


async def close_chat_model(model: BaseChatModel) -> None:
    """Close the HTTP client of a model from `build_chat_model`; do nothing for the offline model."""
    client = getattr(model, "root_async_client", None)
    if client is not None:
        await client.close()


class LazyChatModel:
    """A model that is built on first use, once per event loop; a failed build is repeated at the next use.

    An HTTP client belongs to the event loop that first used it, and servers may run graphs on several loops.
    """

    def __init__(self, build: Callable[[], BaseChatModel]) -> None:
        self._build = build
        self._lock = threading.Lock()
        self._models: WeakKeyDictionary[asyncio.AbstractEventLoop, BaseChatModel] = WeakKeyDictionary()

    async def get(self) -> BaseChatModel:
        """Return this event loop's model; a thread builds it, because an HTTP client reads certificate files."""
        loop = asyncio.get_running_loop()
        model = self._models.get(loop)
        return await asyncio.to_thread(self._get_or_build, loop) if model is None else model

    def _get_or_build(self, loop: asyncio.AbstractEventLoop) -> BaseChatModel:
        with self._lock:
            if loop not in self._models:
                self._models[loop] = self._build()
            return self._models[loop]


ModelSource = BaseChatModel | str | Callable[[], BaseChatModel] | LazyChatModel
"""What graphs accept as their model: a model, its name, a function that builds it, or a lazy model."""


def as_lazy_chat_model(model: ModelSource) -> LazyChatModel:
    """Wrap a model, its name, or a function that builds it; return a LazyChatModel unchanged: graphs can share it.

    Raises:
        ConfigError: the name is empty.
        TypeError: `model` is something else.
    """
    if isinstance(model, LazyChatModel):
        return model
    if isinstance(model, str):
        if not model.rpartition(":")[2].strip():
            raise ConfigError(f"{model!r} names no model.", fix="Pass a name such as openai:gpt-4o, or offline.")
        return LazyChatModel(lambda: build_named_model(model))
    if isinstance(model, BaseChatModel):
        return LazyChatModel(lambda: model)
    if not callable(model):
        raise TypeError(f"model={model!r} is neither a chat model, nor its name, nor a function that builds one.")
    return LazyChatModel(model)


class ScriptModels:
    """The models that write scripts; jobs with the same model and endpoint share one.

    Args:
        settings: the settings of the process.
        model: the model for every script, whatever the script's settings select.
    """

    def __init__(self, settings: Settings | None = None, *, model: ModelSource | None = None) -> None:
        self._settings = settings or Settings()
        self._fixed = None if model is None else as_lazy_chat_model(model)
        self._models: dict[tuple[str | None, str | None], LazyChatModel] = {}

    def model_for(self, script: "ScriptSettings") -> LazyChatModel:
        """Return the model of a script; an invalid model name raises at the first use only."""
        if self._fixed is not None:
            return self._fixed
        key = (script.model, script.base_url)
        if key not in self._models:
            self._models[key] = LazyChatModel(lambda: build_chat_model(settings_for_script(self._settings, script)))
        return self._models[key]


def as_script_models(model: ModelSource | ScriptModels) -> ScriptModels:
    """Wrap a model that writes every script; return ScriptModels unchanged."""
    return model if isinstance(model, ScriptModels) else ScriptModels(model=model)


def settings_for_script(settings: Settings, script: "ScriptSettings") -> Settings:
    """Return the settings of the process with the model and the endpoint that a script's settings select.

    OpenRouter and Gemini endpoints get their own API key, any other endpoint OPENAI_API_KEY.

    Raises:
        ConfigError: no endpoint is configured, and no setting selects the offline model, which is for demonstrations.
    """
    model = {"model": script.model} if script.model else {}
    endpoint: dict[str, object] = {}
    if script.base_url:
        base_url = script.base_url.rstrip("/")
        endpoint["openai_base_url"] = script.base_url
        for url, key in (
            (model_endpoint.OPENROUTER_URL, "openrouter_api_key"),
            (model_endpoint.GEMINI_URL, "gemini_api_key"),
        ):
            if base_url != url.rstrip("/"):
                endpoint[key] = None
    chosen = settings.model_copy(update={**model, **endpoint})
    if model_endpoint.chosen_endpoint(chosen) is None and chosen.model is None:
        text = "No model is configured. The offline demo model writes scripts only if it is selected by name."
        raise ConfigError(text, fix=model_endpoint.MODEL_ADVICE)
    return chosen
