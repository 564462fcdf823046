"""Run API replicas and workers as real processes on one PostgreSQL database, and read which steps they executed.

with Cluster(postgres, tmp_path, replicas=2, workers=3) as cluster:
    cluster.workers[0].kill()
    cluster.workers[0].start()     # a new identity
    cluster.workers[1].freeze()
    cluster.steps()                # what was executed, in order
"""

import json
import signal
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from tests.fixtures.app_server import AppProcess
from tests.fixtures.forked_python import send_signal
from tests.fixtures.postgres import PostgresServer

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"
LEASE_S = 2.0
# PostgreSQL allows 60 connections in the tests.
ENV = {
    "TOOLWEAVE_WORKER_LEASE_S": str(LEASE_S),
    "TOOLWEAVE_DRAIN_TIMEOUT_S": "1",
    "TOOLWEAVE_DATABASE_POOL_SIZE": "5",
    "TOOLWEAVE_OUTBOUND_ALLOW": "127.0.0.1",
    "TOOLWEAVE_LOG_LEVEL": "INFO",
}


@dataclass(frozen=True)
class Step:
    """The beginning or the end of a step that a process executed."""

    run_id: str
    thread_id: str
    attempt: int
    step: str
    kind: str
    pid: int
    at: float


class ClusterProcess(AppProcess):
    """A replica (`toolweave serve --no-worker`) or a worker (`toolweave worker`)."""

    def __init__(self, role: str, data_dir: Path, env: Mapping[str, str], concurrency: int) -> None:
        command = ("worker", "--concurrency", str(concurrency)) if role == "worker" else ("serve", "--no-worker")
        super().__init__(LANGGRAPH_JSON, data_dir, env, command=command)

    def freeze(self) -> None:
        """Stop the process without ending it (SIGSTOP)."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen process continue (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None, "the process is not running"
        send_signal(self._process, number)


class Cluster:
    """The processes of one application, each with a data folder of its own."""

    def __init__(
        self,
        postgres: PostgresServer,
        folder: Path,
        *,
        replicas: int = 2,
        workers: int = 3,
        concurrency: int = 8,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._stack = ExitStack()
        self._postgres = postgres
        self.log = folder / "steps.jsonl"
        self.log.touch()
        self.database = self._stack.enter_context(postgres.fresh_database())
        # The URL as users write it.
        self.plain_url = self.database.replace("+psycopg", "")
        given = {**ENV, "TOOLWEAVE_DATABASE_URL": self.plain_url, "STEP_LOG": str(self.log), **(env or {})}

        def process(role: str, number: int) -> ClusterProcess:
            return ClusterProcess(role, folder / f"{role}{number}", given, concurrency)

        self.replicas = [process("replica", number) for number in range(replicas)]
        self.workers = [process("worker", number) for number in range(workers)]

    def __enter__(self) -> Self:
        processes = (*self.replicas, *self.workers)
        for process in processes:
            self._stack.callback(process.close)
        try:
            with ThreadPoolExecutor(len(processes)) as pool:
                list(pool.map(ClusterProcess.start, processes))
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def set_env(self, env: Mapping[str, str]) -> None:
        """Change the environment of processes that are not started yet."""
        for process in (*self.replicas, *self.workers):
            process._env.update(env)

    def client(self, number: int = 0) -> LangGraphClient:
        """Return a client of a replica; numbers go round."""
        return get_client(url=self.replicas[number % len(self.replicas)].url, api_key=None)

    def steps(self) -> list[Step]:
        """Return the executed steps of all processes in their order."""
        return [Step(**json.loads(line)) for line in self.log.read_text(encoding="utf-8").splitlines()]

    def query(self, statement: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Run a statement in the database of the application."""
        return self._postgres.execute(statement, parameters, url=self.database)

    def wait_for(self, question: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Query the database of the application until there are rows."""
        return self._postgres.wait_for(question, parameters, url=self.database)

    def logs(self) -> str:
        """Return the logs of all processes."""
        return "".join(process.logs() for process in (*self.replicas, *self.workers))
