"""Make a chat model of a scripted endpoint, and the answers that tests script."""

import json
from typing import Any

from langchain_core.language_models import BaseChatModel

from tests.fixtures.openai_wire import WireCall, WireServer, WireTurn
from toolweave.config.settings import load_settings
from toolweave.nodes.chat_models import build_chat_model

USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


def calling(written: Any, name: str = "write_script") -> WireTurn:
    """Call a function with `written`, a text of JSON or its values."""
    text = written if isinstance(written, str) else json.dumps(written)
    return WireTurn(calls=(WireCall(name, text),), piece=50, usage=USAGE)


def saying(text: str) -> WireTurn:
    return WireTurn(text=text, piece=50, usage=USAGE)


def model_at(server: WireServer, timeout_s: str = "600") -> BaseChatModel:
    environ = {"OPENAI_BASE_URL": server.base_url, "TOOLWEAVE_MODEL": "m", "TOOLWEAVE_MODEL_TIMEOUT_S": timeout_s}
    return build_chat_model(load_settings(environ), max_retries=0)
