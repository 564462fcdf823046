"""Everybody owns what they make; admins see all, readers only read, guests read all threads too, strangers nothing."""

from typing import Any

from langgraph_sdk import Auth

auth = Auth()


@auth.authenticate
async def authenticate(authorization: str | None, path: str, method: str) -> dict[str, Any]:
    if not authorization:
        raise Auth.exceptions.HTTPException(401, "Say who you are.", {"www-authenticate": "Bearer"})
    name = authorization.removeprefix("Bearer ")
    if name == "crash":
        raise RuntimeError("the directory of users is down")
    if name == "teapot":
        raise Auth.exceptions.HTTPException(418, f"{method} {path}")
    return {"identity": name, "team": f"team of {name}", "permissions": ["talk"]}


@auth.on
async def by_owner(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> Any:
    name = ctx.user.identity
    if name in ("stranger", "reader"):
        return False
    if name == "admin":
        return None
    metadata = value.get("metadata") or {}
    if ctx.action in ("create", "create_run"):
        value["metadata"] = {**metadata, "owner": name}
    if ctx.action == "create_run" and name == "limited":
        value["kwargs"]["input"] = {"text": "by the handler"}
    return {"owner": name}


@auth.on.threads.read
async def readers_too(ctx: Auth.types.AuthContext, value: Any) -> Any:
    if ctx.user.identity in ("reader", "guest"):
        return None
    return await by_owner(ctx=ctx, value=value)


@auth.on.assistants.search
async def owners_cannot_be_searched_for(ctx: Auth.types.AuthContext, value: Any) -> Any:
    value.setdefault("metadata", {}).pop("owner", None)
    assert ctx.user.identity != "nosy", "not you"
    return await by_owner(ctx=ctx, value=value)


@auth.on.crons.create
async def crons_have_no_other_metadata(ctx: Auth.types.AuthContext, value: Any) -> Any:
    if ctx.user.identity == "plain":
        value["metadata"] = {}
        return None
    return await by_owner(ctx=ctx, value=value)


@auth.on.store
async def in_a_namespace_of_their_own(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> None:
    value["namespace"] = (ctx.user.identity, *(value.get("namespace") or ()))


@auth.on.crons.delete
async def only_its_owner_deletes_a_cron(ctx: Auth.types.AuthContext, value: Any) -> Any:
    return {"owner": {"$eq": ctx.user.identity}}
