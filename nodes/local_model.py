"""Find a chat model on this machine that can call tools: in Ollama, LM Studio or llama.cpp (U-03).

It sends requests to loopback addresses only, without a proxy, and follows no redirects. Any program may listen there,
so a response of another form counts as no model.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple

import httpx

from toolweave.nodes.model_endpoint import OFFLINE

SEARCH_TIMEOUT_S = 0.3
MAX_RESPONSE_BYTES = 2_000_000
MAX_QUERIED_MODELS = 20
MAX_NAME_CHARS = 200
PORTS: Mapping[str, int] = MappingProxyType({"Ollama": 11434, "LM Studio": 1234, "llama.cpp": 8080})


class LocalModel(NamedTuple):
    """A model of a program on this machine; `base_url` is the program's OpenAI-compatible endpoint."""

    program: str
    model: str
    base_url: str
    is_loaded: bool

    def describe(self) -> str:
        """Return the model's name, and where it runs."""
        return f"{self.model} of {self.program} on this machine"


async def find_local_model(ports: Mapping[str, int] = PORTS, timeout_s: float = SEARCH_TIMEOUT_S) -> LocalModel | None:
    """Return the model to use: a loaded one, else the one used last; None if no program answers within `timeout_s`.

    Models that cannot call tools, and those that Ollama runs on other machines, do not count.
    """
    async with httpx.AsyncClient(trust_env=False, timeout=timeout_s) as client:
        searches = (_search(client, program, port, timeout_s) for program, port in ports.items())
        results = await asyncio.gather(*searches)
    found = [result for result in results if result is not None]
    return next((model for model in found if model.is_loaded), found[0] if found else None)


async def _search(client: httpx.AsyncClient, program: str, port: int, timeout_s: float) -> LocalModel | None:
    url = f"http://127.0.0.1:{port}"
    # Anything may listen there: a response of another form causes one of the `_OTHER_FORMS`.
    with suppress(TimeoutError, httpx.HTTPError, *_OTHER_FORMS):
        async with asyncio.timeout(timeout_s):
            chosen = await _CHOICES[program](client, url)
        if chosen and _is_usable(chosen[0]):
            return LocalModel(program, chosen[0], f"{url}/v1", chosen[1])
    return None


_OTHER_FORMS = (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError)


def _is_usable(name: Any) -> bool:
    """Return whether a model's name can be shown and used as TOOLWEAVE_MODEL."""
    return isinstance(name, str) and 0 < len(name) <= MAX_NAME_CHARS and name.isprintable() and name != OFFLINE


async def _choose_in_ollama(client: httpx.AsyncClient, url: str) -> tuple[str, bool] | None:
    """Choose the loaded model, else the newest one (docs.ollama.com/api)."""
    tags, running = await asyncio.gather(_request(client, f"{url}/api/tags"), _request(client, f"{url}/api/ps"))
    models, loaded = tags["models"], {model["name"] for model in running["models"]}
    local = [model for model in models if not model.get("remote_host")]
    local.sort(key=lambda model: (model["name"] in loaded, model["modified_at"]), reverse=True)
    names = [model["name"] for model in local[:MAX_QUERIED_MODELS]]
    shown = await asyncio.gather(*(_request(client, f"{url}/api/show", {"model": name}) for name in names))
    able = (name for name, about in zip(names, shown, strict=True) if "tools" in about.get("capabilities", ()))
    return next(((name, name in loaded) for name in able), None)


async def _choose_in_lm_studio(client: httpx.AsyncClient, url: str) -> tuple[str, bool] | None:
    """Choose the loaded model, else the first one (lmstudio.ai/docs: REST API v1, since LM Studio 0.4)."""
    models = [
        (model["key"], bool(model["loaded_instances"]))
        for model in (await _request(client, f"{url}/api/v1/models"))["models"]
        if model["type"] == "llm" and model["capabilities"]["trained_for_tool_use"]
    ]
    return max(models, key=lambda model: model[1], default=None)


async def _choose_in_llama_cpp(client: httpx.AsyncClient, url: str) -> tuple[str, bool] | None:
    """Choose the model that the server was started with, if its chat template supports tools."""
    capabilities = (await _request(client, f"{url}/props"))["chat_template_caps"]
    if not capabilities["supports_tools"]:
        return None
    return (await _request(client, f"{url}/v1/models"))["data"][0]["id"], True


Choose = Callable[[httpx.AsyncClient, str], Awaitable[tuple[str, bool] | None]]
_CHOICES: Mapping[str, Choose] = MappingProxyType(
    {"Ollama": _choose_in_ollama, "LM Studio": _choose_in_lm_studio, "llama.cpp": _choose_in_llama_cpp}
)


async def _request(client: httpx.AsyncClient, url: str, body: Any = None) -> Any:
    """Return the JSON of a response: GET, or POST with a body."""
    async with client.stream("GET" if body is None else "POST", url, json=body) as response:
        response.raise_for_status()
        content = b""
        async for part in response.aiter_bytes():
            content += part
            if len(content) > MAX_RESPONSE_BYTES:
                raise ValueError("the response is too large")
    return json.loads(content)
