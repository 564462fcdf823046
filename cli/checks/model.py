"""Check which chat model would answer, why, and whether its endpoint can be reached (D-3)."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx

from toolweave.cli.doctor import Finding, failure
from toolweave.config.settings import Settings
from toolweave.errors import ToolweaveError
from toolweave.nodes.model_endpoint import Endpoint, chosen_endpoint

TIMEOUT_S = 5.0
REJECTED = (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)


def check_model(settings: Settings) -> Iterator[Finding]:
    """Say which model is chosen and by which variable; ask the endpoint for its list of models."""
    try:
        endpoint = chosen_endpoint(settings)
    except ToolweaveError as error:
        yield failure("model", error)
        return
    if endpoint is not None:
        yield Finding("ok", "model", f"{endpoint.model} at {_place(endpoint)}, because {_reason(settings)} is set.")
        yield _reached(endpoint)
    elif settings.model is not None:
        yield Finding("ok", "model", "the offline demo model, because TOOLWEAVE_MODEL says so.")
    else:
        yield Finding(
            "warn",
            "model",
            "the offline demo model, because no endpoint is configured.",
            "Set OPENROUTER_API_KEY, GEMINI_API_KEY, or OPENAI_API_KEY / OPENAI_BASE_URL with TOOLWEAVE_MODEL; "
            "TOOLWEAVE_MODEL=offline says that it is meant.",
        )


def _reason(settings: Settings) -> str:
    if settings.openrouter_api_key:
        return "OPENROUTER_API_KEY"
    if settings.gemini_api_key:
        return "GEMINI_API_KEY"
    return "OPENAI_BASE_URL" if settings.openai_base_url else "OPENAI_API_KEY"


def _place(endpoint: Endpoint) -> str:
    """Name the endpoint without a user name, password or query that its URL may hold."""
    parts = urlsplit(endpoint.base_url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"


def _reached(endpoint: Endpoint) -> Finding:
    place = _place(endpoint)
    key = {"authorization": f"Bearer {endpoint.api_key.get_secret_value()}"}
    try:
        answer = httpx.get(f"{endpoint.base_url.rstrip('/')}/models", headers=key, timeout=TIMEOUT_S)
    except (httpx.HTTPError, ValueError) as error:
        # The text of an error can quote the key (a header that is not ASCII).
        fix = "Check the address, the network and whether the endpoint is running."
        return Finding("fail", "model", f"{place} cannot be reached ({type(error).__name__}).", fix)
    if answer.status_code in REJECTED:
        fix = "Check the key in the variable named above."
        return Finding("fail", "model", f"{place} rejects the key ({answer.status_code}).", fix)
    return Finding("ok", "model", f"{place} answers.")
