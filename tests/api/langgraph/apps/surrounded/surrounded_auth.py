"""Whoever gives a name is let in."""

from typing import Any

from langgraph_sdk import Auth

auth = Auth()
requested: list[str] = []


@auth.authenticate  # type: ignore[type-var]  # typed for async handlers only
def authenticate(request: Any, body: Any, headers: dict[bytes, bytes], query_params: dict[str, str]) -> str:
    name = headers.get(b"x-api-key", b"").decode() or query_params.get("name", "") or (body or {}).get("name", "")
    requested.append(f"{name} {request.method}")
    return str(name)


@auth.on
async def own(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> Any:
    if ctx.action == "create":
        value["metadata"] = {"owner": ctx.user.identity}
    return {"$or": [{"owner": ctx.user.identity}, {"$and": [{"shared": True}]}]}
