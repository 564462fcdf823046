"""Build the chat model that the settings or a script job name, on first use, once per event loop (D-3, A-05)."""

import asyncio
import threading
from collections.abc import Callable
from weakref import WeakKeyDictionary

from langchain_core.language_models import BaseChatModel

from toolweave.config.script_settings import ScriptSettings
from toolweave.config.settings import Settings
from toolweave.errors import ConfigError
from toolweave.nodes.model_endpoint import (
    GEMINI_URL,
    OPENAI_URL,
    OPENROUTER_URL,
    chosen_endpoint,
    warn_if_offline,
)
from toolweave.nodes.offline_model import OfflineChatModel

CONNECT_TIMEOUT_S = 10.0


def build_chat_model(settings: Settings, *, max_retries: int = 2) -> BaseChatModel:
    """Build the model of the first configured endpoint: OpenRouter, Gemini, OpenAI or what OPENAI_BASE_URL names.

    `TOOLWEAVE_MODEL=offline` asks for the offline model; with nothing set it is used too, with a warning. A
    configured endpoint is never replaced by it: if the endpoint fails, the run fails with a ModelError.

    Raises:
        ConfigError: as `chosen_endpoint`.
    """
    endpoint = chosen_endpoint(settings)
    if endpoint is None:
        warn_if_offline(settings)
        return OfflineChatModel()
    # Here: these take a second to import, and the offline model needs none of them.
    from openai import DefaultAsyncHttpxClient, Timeout  # noqa: PLC0415

    from toolweave.nodes.endpoint_chat_openai import EndpointChatOpenAI  # noqa: PLC0415

    timeout = Timeout(settings.model_timeout_s, connect=min(CONNECT_TIMEOUT_S, settings.model_timeout_s))
    return EndpointChatOpenAI(
        model=endpoint.model,
        base_url=endpoint.base_url,
        api_key=endpoint.api_key,
        timeout=timeout,
        stream_chunk_timeout=settings.model_timeout_s,
        # Without its own client it shares one with every other model of this endpoint, across event loops.
        http_async_client=DefaultAsyncHttpxClient(timeout=timeout),
        max_retries=max_retries,
        use_responses_api=None if endpoint.base_url == OPENAI_URL else False,
    )


async def close_chat_model(model: BaseChatModel) -> None:
    """Close the HTTP client of a model that `build_chat_model` built; the offline model has none."""
    client = getattr(model, "root_async_client", None)
    if client is not None:
        await client.close()


class LazyChatModel:
    """Build the model when it is first needed, once per event loop; a failed build is tried again next time.

    HTTP clients are bound to the loop they were first used on, and servers may run graphs on several.
    """

    def __init__(self, build: Callable[[], BaseChatModel]) -> None:
        self._build = build
        self._lock = threading.Lock()
        self._models: WeakKeyDictionary[asyncio.AbstractEventLoop, BaseChatModel] = WeakKeyDictionary()

    async def get(self) -> BaseChatModel:
        """Return this loop's model; it is built off the loop, because making a client reads certificates."""
        loop = asyncio.get_running_loop()
        model = self._models.get(loop)
        return await asyncio.to_thread(self._get_or_build, loop) if model is None else model

    def _get_or_build(self, loop: asyncio.AbstractEventLoop) -> BaseChatModel:
        with self._lock:
            if loop not in self._models:
                self._models[loop] = self._build()
            return self._models[loop]


ModelSource = BaseChatModel | Callable[[], BaseChatModel] | LazyChatModel
"""What graphs take as their model."""


def as_lazy_chat_model(model: ModelSource) -> LazyChatModel:
    """Wrap a model or a recipe; a LazyChatModel is returned as it is, so that graphs can share one."""
    if isinstance(model, LazyChatModel):
        return model
    return LazyChatModel((lambda: model) if isinstance(model, BaseChatModel) else model)


_FIX = (
    "Set OPENROUTER_API_KEY, GEMINI_API_KEY, OPENAI_API_KEY or OPENAI_BASE_URL; "
    "to try it without any, name the offline model: TOOLWEAVE_MODEL=offline."
)


class ScriptModels:
    """Give the model for a script's settings; one model is built for all jobs that name the same.

    Args:
        settings: those of the process.
        model: what writes every script, whatever its settings say.
    """

    def __init__(self, settings: Settings | None = None, *, model: ModelSource | None = None) -> None:
        self._settings = settings or Settings()
        self._fixed = None if model is None else as_lazy_chat_model(model)
        self._models: dict[tuple[str | None, str | None], LazyChatModel] = {}

    def model_for(self, script: ScriptSettings) -> LazyChatModel:
        """Return the model; whether there is such a one shows when it is first asked for."""
        if self._fixed is not None:
            return self._fixed
        key = (script.model, script.base_url)
        if key not in self._models:
            self._models[key] = LazyChatModel(lambda: build_chat_model(settings_for_script(self._settings, script)))
        return self._models[key]


def as_script_models(model: ModelSource | ScriptModels) -> ScriptModels:
    """Wrap a model that writes every script."""
    return model if isinstance(model, ScriptModels) else ScriptModels(model=model)


def settings_for_script(settings: Settings, wanted: ScriptSettings) -> Settings:
    """Give the settings of the process with the model and the endpoint that a script's settings name.

    An endpoint of theirs gets the key that is meant for it: OpenRouter's and Gemini's own, any other OPENAI_API_KEY.

    Raises:
        ConfigError: there is no endpoint, and nobody named the offline model, which is for demonstrations.
    """
    named = {"model": wanted.model} if wanted.model else {}
    endpoint: dict[str, object] = {}
    if wanted.base_url:
        place = wanted.base_url.rstrip("/")
        endpoint["openai_base_url"] = wanted.base_url
        for url, key in ((OPENROUTER_URL, "openrouter_api_key"), (GEMINI_URL, "gemini_api_key")):
            if place != url.rstrip("/"):
                endpoint[key] = None
    chosen = settings.model_copy(update={**named, **endpoint})
    if chosen_endpoint(chosen) is None and chosen.model is None:
        raise ConfigError(
            "No model is configured, and the offline demo model writes no scripts unless it is named.", fix=_FIX
        )
    return chosen
