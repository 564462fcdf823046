"""Choose the model that writes a script: the one its settings name, or else the process's (A-05, D-3)."""

from toolweave.config.script_settings import ScriptSettings
from toolweave.config.settings import Settings
from toolweave.errors import ConfigError
from toolweave.nodes.chat_model_source import ChatModel, LazyChatModel, as_lazy
from toolweave.nodes.chat_models import build_chat_model
from toolweave.nodes.model_endpoint import GEMINI_URL, OFFLINE, OPENROUTER_URL, chosen_endpoint

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

    def __init__(self, settings: Settings | None = None, *, model: ChatModel | None = None) -> None:
        self._settings = settings or Settings()
        self._fixed = None if model is None else as_lazy(model)
        self._models: dict[tuple[str | None, str | None], LazyChatModel] = {}

    def model_for(self, wanted: ScriptSettings) -> LazyChatModel:
        """Return the model; whether there is such a one shows when it is first asked for."""
        if self._fixed is not None:
            return self._fixed
        named = (wanted.model, wanted.base_url)
        if named not in self._models:
            self._models[named] = LazyChatModel(lambda: build_chat_model(script_endpoint(self._settings, wanted)))
        return self._models[named]


def as_script_models(model: ChatModel | ScriptModels) -> ScriptModels:
    """Wrap a model that writes every script."""
    return model if isinstance(model, ScriptModels) else ScriptModels(model=model)


def script_endpoint(settings: Settings, wanted: ScriptSettings) -> Settings:
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
    if wanted.model and wanted.model.lower() != OFFLINE and not _has_endpoint(chosen):
        raise ConfigError(f"The script settings name the model {wanted.model!r}, but no endpoint is there.", fix=_FIX)
    if chosen_endpoint(chosen) is None and chosen.model is None:
        raise ConfigError(
            "No model is configured, and the offline demo model writes no scripts unless it is named.", fix=_FIX
        )
    return chosen


def _has_endpoint(settings: Settings) -> bool:
    keys = (settings.openrouter_api_key, settings.gemini_api_key, settings.openai_api_key)
    return any(keys) or settings.openai_base_url is not None
