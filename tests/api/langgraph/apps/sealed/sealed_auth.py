"""Give each user the tokens that came with the request, as an application that calls other services for them does."""

from typing import Any

from langgraph_sdk import Auth

auth = Auth()


@auth.authenticate
async def authenticate(authorization: str | None, headers: dict[bytes, bytes]) -> dict[str, Any]:
    token = (authorization or "").removeprefix("Bearer ")
    if not token:
        raise Auth.exceptions.HTTPException(401, "Say who you are.")
    key = headers.get(b"x-api-key", b"").decode()
    return {"identity": "ada", "token": token, "accounts": {"shop": {"key": key}}}
