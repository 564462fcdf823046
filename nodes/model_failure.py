"""Say what went wrong at a model endpoint and what to do about it, whichever client raised it."""

LONGEST_DETAIL = 300
_BY_STATUS = {
    401: "The model endpoint rejected the API key. Check the key and that it belongs to this endpoint.",
    402: "The model endpoint asks for payment. Check the account's credit.",
    403: "The model endpoint refused access. Check what the API key is allowed to use.",
    404: "The model endpoint does not know the model or the path. Check TOOLWEAVE_MODEL and OPENAI_BASE_URL.",
    429: "The model endpoint is out of quota or asked too often. Wait, or check the account's limits.",
}
_KEY_IN_TEXT = frozenset({401, 403})


def explain_model_failure(error: Exception) -> str:
    """Return one paragraph for the person who runs the graph; endpoint texts about keys are left out.

    Clients differ, so this reads what they have in common: a `status_code`, and TimeoutError or "Timeout" in a
    class name.
    """
    status = getattr(error, "status_code", None)
    detail = _without_key(error)[:LONGEST_DETAIL]
    if isinstance(status, int):
        advice = _BY_STATUS.get(status)
        if advice and status in _KEY_IN_TEXT:
            return advice
        return f"{advice or _by_class(status)} It said: {detail}"
    names = [kind.__name__ for kind in type(error).__mro__]
    if any("Timeout" in name for name in names):
        return "The model endpoint did not answer in time (TOOLWEAVE_MODEL_TIMEOUT_S)."
    if any("Connection" in name or "TransportError" in name for name in names):
        return "The model endpoint could not be reached or broke the connection. Check its address and that it runs."
    return f"The model failed: {type(error).__name__}: {detail}"


def _without_key(error: Exception) -> str:
    request = getattr(getattr(error, "response", None), "request", None)
    key = request.headers.get("authorization", "").partition(" ")[2] if request is not None else ""
    return str(error).replace(key, "***") if key else str(error)


def _by_class(status: int) -> str:
    if status >= 500:
        return f"The model endpoint failed with status {status}. Please try again."
    return f"The model endpoint refused the request with status {status}."
