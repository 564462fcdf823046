"""Choose the chat model that the settings select, without importing a client (D-3)."""

from typing import NamedTuple
from urllib.parse import urlsplit

from loguru import logger
from pydantic import SecretStr

from toolweave.config.mcp_entry import LOOPBACK_HOSTS
from toolweave.config.settings import Settings
from toolweave.errors import ConfigError

OFFLINE = "offline"
OPENROUTER_URL = "https://openrouter.ai/api/v1"
GEMINI_URL = "https://generativelanguage.googleapis.com/v1beta/openai/"
OPENAI_URL = "https://api.openai.com/v1"
NO_KEY = SecretStr("not-needed")
MODEL_ADVICE = (
    "Set OPENROUTER_API_KEY, GEMINI_API_KEY, or OPENAI_API_KEY / OPENAI_BASE_URL with TOOLWEAVE_MODEL; "
    "TOOLWEAVE_MODEL=offline confirms the demo model."
)


class ModelEndpoint(NamedTuple):
    """A model's name at its endpoint, the endpoint's URL and its API key."""

    model: str
    base_url: str
    api_key: SecretStr

    @property
    def uses_proxy(self) -> bool:
        """Whether a proxy of the environment applies; none can reach this machine's loopback addresses."""
        return urlsplit(self.base_url).hostname not in LOOPBACK_HOSTS


def warn_if_offline(settings: Settings) -> None:
    """Log a warning if the offline model is used only because no model is configured (D-3).

    Raises:
        ConfigError: as `chosen_endpoint`.
    """
    if chosen_endpoint(settings) is None and settings.model is None:
        logger.warning("No model is configured: the offline demo model answers. {}", MODEL_ADVICE)


def model_metadata(settings: Settings) -> dict[str, str]:
    """Return the model's entry in run metadata (D-3); empty if the model settings are invalid."""
    try:
        return {"model": model_label(settings)}
    except ConfigError:
        # The run itself raises the error; importing a graph must not fail.
        return {}


def model_label(settings: Settings) -> str:
    """Return the model's name for `/health` and run metadata: "offline" or its name at the endpoint (D-3).

    Raises:
        ConfigError: as `chosen_endpoint`.
    """
    endpoint = chosen_endpoint(settings)
    return endpoint.model if endpoint else OFFLINE


def model_variable(settings: Settings) -> str:
    """Return the variable that selects the endpoint of `chosen_endpoint`."""
    if settings.openrouter_api_key:
        return "OPENROUTER_API_KEY"
    if settings.gemini_api_key:
        return "GEMINI_API_KEY"
    return "OPENAI_BASE_URL" if settings.openai_base_url else "OPENAI_API_KEY"


def chosen_endpoint(settings: Settings) -> ModelEndpoint | None:
    """Choose the endpoint in the order of D-3; return None for the offline model.

    Raises:
        ConfigError: an endpoint without a model name, or a model name without an endpoint.
    """
    if settings.model is not None and settings.model.strip().lower() == OFFLINE:
        return None
    if settings.openrouter_api_key:
        return ModelEndpoint(settings.model or "google/gemini-2.5-flash", OPENROUTER_URL, settings.openrouter_api_key)
    if settings.gemini_api_key:
        return ModelEndpoint(settings.model or "gemini-2.5-flash", GEMINI_URL, settings.gemini_api_key)
    if settings.openai_api_key or settings.openai_base_url:
        if not settings.model:
            raise ConfigError(
                "OPENAI_API_KEY or OPENAI_BASE_URL is set, but no model is selected.",
                source="settings",
                fix="Set TOOLWEAVE_MODEL to a model of that endpoint, or to offline.",
            )
        return ModelEndpoint(settings.model, settings.openai_base_url or OPENAI_URL, settings.openai_api_key or NO_KEY)
    if settings.model:
        raise ConfigError(
            f"The model is {settings.model!r}, but no endpoint is configured.",
            source="settings",
            fix="Set OPENROUTER_API_KEY, GEMINI_API_KEY, OPENAI_API_KEY, OPENAI_BASE_URL or TOOLWEAVE_MODEL=offline.",
        )
    return None
