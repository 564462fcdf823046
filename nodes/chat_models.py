"""Build the chat model that the settings name (D-3)."""

from langchain_core.language_models import BaseChatModel

from toolweave.config.settings import Settings
from toolweave.nodes.model_endpoint import OPENAI_URL, chosen_endpoint, warn_if_offline
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
