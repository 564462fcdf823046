"""Start runs that wait where a test wants them."""

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx
from langgraph_sdk.client import LangGraphClient

NOBODY = "00000000-0000-4000-8000-000000000000"


async def new_thread(sdk: LangGraphClient) -> str:
    return (await sdk.threads.create())["thread_id"]


async def run_at_gate(sdk: LangGraphClient, http: httpx.AsyncClient, thread_id: str, **fields: Any) -> tuple[str, str]:
    """Start a run and return when it waits at a gate of its own: its id and the gate's name."""
    gate = str(uuid4())
    run = await sdk.runs.create(thread_id, "gated", input={"n": 1, "gate": gate}, **fields)
    await http.get(f"/gates/{gate}/reached")
    return run["run_id"], gate


@dataclass(frozen=True)
class Thread:
    """A thread, and the requests of its clients: `get` and `post` by plain HTTP, the others as the SDK sends them."""

    id: str
    sdk: Any
    http: httpx.AsyncClient

    async def get(self, path: str, **options: Any) -> httpx.Response:
        return await self.http.get(f"/threads/{self.id}{path}", **options)

    async def post(self, path: str, **options: Any) -> httpx.Response:
        return await self.http.post(f"/threads/{self.id}{path}", **options)

    async def wait(self, assistant_id: str, **fields: Any) -> Any:
        """Run to the end; gives the result, which may be an error."""
        answer = await self.post("/runs/wait", json={"assistant_id": assistant_id, **fields})
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def run_at_gate(self, **fields: Any) -> tuple[str, str]:
        return await run_at_gate(self.sdk, self.http, self.id, **fields)

    async def create_run(self, assistant_id: str, **fields: Any) -> Any:
        return await self.sdk.runs.create(self.id, assistant_id, **fields)

    async def run(self, run_id: str) -> Any:
        return await self.sdk.runs.get(self.id, run_id)

    async def runs(self, **query: Any) -> Any:
        return await self.sdk.runs.list(self.id, **query)

    async def statuses(self) -> list[str]:
        """Give the statuses of the runs, the last one first."""
        return [run["status"] for run in await self.runs()]

    async def join(self, run_id: str) -> Any:
        return await self.sdk.runs.join(self.id, run_id)

    async def cancel(self, run_id: str, **options: Any) -> None:
        await self.sdk.runs.cancel(self.id, run_id, **options)

    async def show(self) -> Any:
        return await self.sdk.threads.get(self.id)

    async def state(self, **query: Any) -> Any:
        return await self.sdk.threads.get_state(self.id, **query)

    async def history(self) -> Any:
        return await self.sdk.threads.get_history(self.id)

    async def update_state(self, values: Any, **options: Any) -> Any:
        return await self.sdk.threads.update_state(self.id, values, **options)

    async def delete(self) -> None:
        await self.sdk.threads.delete(self.id)
