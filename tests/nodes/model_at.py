"""Make a chat model that asks a scripted endpoint."""

from langchain_core.language_models import BaseChatModel

from tests.fixtures.openai_wire import WireServer
from toolweave.config.settings import load_settings
from toolweave.nodes.chat_models import build_chat_model


def model_at(server: WireServer, timeout_s: str = "600") -> BaseChatModel:
    environ = {"OPENAI_BASE_URL": server.base_url, "TOOLWEAVE_MODEL": "m", "TOOLWEAVE_MODEL_TIMEOUT_S": timeout_s}
    return build_chat_model(load_settings(environ), max_retries=0)
