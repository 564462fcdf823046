"""Choose the chat model that the settings name (D-3)."""

from typing import NamedTuple

from langchain_core.language_models import BaseChatModel
from loguru import logger
from openai import DefaultAsyncHttpxClient, Timeout
from pydantic import SecretStr

from toolweave.config.settings import Settings
from toolweave.errors import ConfigError
from toolweave.nodes.offline_model import OfflineChatModel
from toolweave.nodes.reported_cost import CostKeepingChatOpenAI

OFFLINE = "offline"
OPENROUTER_URL = "https://openrouter.ai/api/v1"
GEMINI_URL = "https://generativelanguage.googleapis.com/v1beta/openai/"
OPENAI_URL = "https://api.openai.com/v1"
CONNECT_TIMEOUT_S = 10.0
KEYLESS = SecretStr("not-needed")


class Endpoint(NamedTuple):
    """Where a model is reached and what it is called there."""

    model: str
    base_url: str
    api_key: SecretStr


def build_chat_model(settings: Settings, *, max_retries: int = 2) -> BaseChatModel:
    """Build the model of the first configured endpoint: OpenRouter, Gemini, OpenAI or what OPENAI_BASE_URL names.

    `TOOLWEAVE_MODEL=offline` asks for the offline model; with nothing set it is used too, with a warning. A
    configured endpoint is never replaced by it: if the endpoint fails, the run fails with a ModelError.

    Raises:
        ConfigError: an endpoint without a model name, or a model name without an endpoint.
    """
    endpoint = chosen_endpoint(settings)
    if endpoint is None:
        warn_if_offline(settings)
        return OfflineChatModel()
    timeout = Timeout(settings.model_timeout_s, connect=min(CONNECT_TIMEOUT_S, settings.model_timeout_s))
    return CostKeepingChatOpenAI(
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


def warn_if_offline(settings: Settings) -> None:
    """Log a warning when the offline model answers although nobody asked for it (D-3).

    Raises:
        ConfigError: as `build_chat_model`.
    """
    if chosen_endpoint(settings) is None and settings.model is None:
        logger.warning(
            "No model is configured: the offline demo model answers. Set OPENROUTER_API_KEY, GEMINI_API_KEY, or "
            "OPENAI_API_KEY / OPENAI_BASE_URL with TOOLWEAVE_MODEL; TOOLWEAVE_MODEL=offline silences this."
        )


def model_metadata(settings: Settings) -> dict[str, str]:
    """Give what the runs of a graph with this model carry in their metadata (D-3); empty when no model can be used."""
    try:
        return {"model": model_label(settings)}
    except ConfigError:
        # The run itself says what is wrong; importing a graph must not.
        return {}


def model_label(settings: Settings) -> str:
    """Name the model for `/health` and run metadata: "offline" or what the endpoint calls it (D-3).

    Raises:
        ConfigError: as `build_chat_model`.
    """
    endpoint = chosen_endpoint(settings)
    return endpoint.model if endpoint else OFFLINE


def chosen_endpoint(settings: Settings) -> Endpoint | None:
    """Apply D-3's precedence; None stands for the offline model.

    Raises:
        ConfigError: as `build_chat_model`.
    """
    if settings.model is not None and settings.model.strip().lower() == OFFLINE:
        return None
    if settings.openrouter_api_key:
        return Endpoint(settings.model or "google/gemini-2.5-flash", OPENROUTER_URL, settings.openrouter_api_key)
    if settings.gemini_api_key:
        return Endpoint(settings.model or "gemini-2.5-flash", GEMINI_URL, settings.gemini_api_key)
    if settings.openai_api_key or settings.openai_base_url:
        if not settings.model:
            raise ConfigError(
                "OPENAI_API_KEY or OPENAI_BASE_URL is set, but not which model to use.",
                source="settings",
                fix="Set TOOLWEAVE_MODEL to a model of that endpoint, or to offline.",
            )
        return Endpoint(settings.model, settings.openai_base_url or OPENAI_URL, settings.openai_api_key or KEYLESS)
    if settings.model:
        raise ConfigError(
            f"TOOLWEAVE_MODEL is {settings.model!r}, but no endpoint is configured.",
            source="settings",
            fix="Set OPENROUTER_API_KEY, GEMINI_API_KEY, OPENAI_API_KEY or OPENAI_BASE_URL, or name offline.",
        )
    return None
