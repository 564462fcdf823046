"""PgBouncer in transaction mode in front of PostgreSQL; notifications and jobs take the direct URL."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.cli.processes import eventually
from tests.distributed.cluster import Cluster
from tests.fixtures.mcp_server import free_port
from tests.fixtures.postgres import PostgresServer

PROGRAM = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
# Three connections for all pools: a session state that lasted would be seen by other clients.
CONFIG = """
[databases]
* = host=127.0.0.1 port={server_port} user=postgres pool_size=3
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 200
ignore_startup_parameters = extra_float_digits,options
"""
IS_RUNNING = "SELECT 1 FROM runs WHERE run_id = %(run_id)s AND status = 'running'"
pytestmark = [
    pytest.mark.requirement("S-06"),
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="pgbouncer is not installed"),
]


@contextmanager
def pgbouncer(server_port: int, folder: Path) -> Iterator[int]:
    """Run PgBouncer, which refuses to be run by root, and give its port."""
    assert PROGRAM is not None
    port = free_port()
    # Root alone may enter pytest's folders.
    descriptor = os.memfd_create("pgbouncer.ini")
    os.write(descriptor, CONFIG.format(port=port, server_port=server_port).encode())
    user: dict[str, Any] = {"user": "nobody"} if os.geteuid() == 0 else {}
    with (folder / "pgbouncer.log").open("wb") as log:
        process = subprocess.Popen(
            [PROGRAM, f"/proc/self/fd/{descriptor}"], pass_fds=[descriptor], stdout=log, stderr=log, cwd="/", **user
        )
    try:
        eventually(lambda: answers(port), "PgBouncer answers")
        yield port
    finally:
        os.close(descriptor)
        process.kill()
        process.wait()


def answers(port: int) -> bool:
    try:
        psycopg.connect(f"postgresql://postgres@127.0.0.1:{port}/postgres").close()
    except psycopg.OperationalError:
        return False
    return True


async def test_streams_cancellations_claims_and_jobs_work_through_pgbouncer(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    with pgbouncer(postgres.port, tmp_path) as port:
        cluster = Cluster(postgres, tmp_path, replicas=2, workers=2)
        pooled = cluster.plain_url.replace(f":{postgres.port}/", f":{port}/")
        cluster.set_env({"TOOLWEAVE_DATABASE_URL": pooled, "TOOLWEAVE_DATABASE_DIRECT_URL": cluster.plain_url})
        with cluster:
            await asyncio.gather(*(talk(cluster, number) for number in range(24)))
            ended = dict(cluster.query("SELECT status, count(*) FROM runs GROUP BY status"))
            assert ended == {"success": 18, "interrupted": 6}
            assert "prepared statement" not in cluster.logs()


async def talk(cluster: Cluster, number: int) -> None:
    name = str(uuid4())
    values: Any = {"name": name, "steps": 3, "pause": 0.2}
    expected = [f"{name}/{step}" for step in range(3)]
    async with cluster.client(number) as sdk, cluster.client(number + 1) as other:
        thread_id = (await sdk.threads.create(graph_id="steps"))["thread_id"]
        if number % 4 == 0:
            found: Any = await sdk.runs.wait(thread_id, "steps", input=values)
            assert found["log"] == expected
        elif number % 4 == 1:
            stream = sdk.runs.stream(thread_id, "ticks", input=values, stream_mode=["custom", "values"])
            ticks = [part.data["tick"] async for part in stream if part.event == "custom"]
            assert ticks == [f"{step}/{tick}" for step in expected for tick in range(10)]
        elif number % 4 == 2:
            run = await sdk.runs.create(thread_id, "steps", input={**values, "pause": 60})
            await asyncio.to_thread(cluster.wait_for, IS_RUNNING, {"run_id": run["run_id"]})
            await other.runs.cancel(thread_id, run["run_id"], wait=True)
        else:
            run = await sdk.runs.create(thread_id, "steps", input=values)
            await other.runs.join(thread_id, run["run_id"])
            # A claim of a request; several at once wait for each other.
            await asyncio.gather(
                *(client.threads.update_state(thread_id, {"log": ["x"]}) for client in (sdk, other, sdk, other))
            )
            state = await other.threads.get_state(thread_id)
            assert state["values"]["log"] == [*expected, *["x"] * 4]  # type: ignore[call-overload]
