"""A model with tools is found in the programs that run models on this machine (U-03)."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.serving import http_server
from toolweave.cli.configuration import read_configuration, with_model
from toolweave.cli.doctor import check_model
from toolweave.config.settings import load_settings
from toolweave.nodes.local_model import LocalModel, find_local_model

pytestmark = pytest.mark.requirement("U-03")
BOUND_S = 30.0
Answers = dict[str, Any]


def ollama(*models: tuple[str, str, list[str]], loaded: tuple[str, ...] = ()) -> Answers:
    """Answer as Ollama does; a model has a name, the time of its last change and capabilities."""
    return {
        "/api/tags": {"models": [{"name": name, "model": name, "modified_at": time} for name, time, _ in models]},
        "/api/ps": {"models": [{"name": name, "model": name} for name in loaded]},
        **{f"/api/show {name}": {"capabilities": capabilities} for name, _, capabilities in models},
    }


def lm_studio(*models: tuple[str, bool, bool]) -> Answers:
    """Answer as LM Studio 0.4 does; a model has a name, and may be loaded and trained for tools."""
    listed = [
        {
            "type": "llm",
            "key": name,
            "loaded_instances": [{"id": name}] if is_loaded else [],
            "capabilities": {"vision": False, "trained_for_tool_use": has_tools},
        }
        for name, is_loaded, has_tools in models
    ]
    return {"/api/v1/models": {"models": [{"type": "embedding", "key": "embed", "loaded_instances": []}, *listed]}}


def llama_cpp(name: str, *, supports_tools: bool) -> Answers:
    return {
        "/props": {"chat_template_caps": {"supports_tools": supports_tools, "supports_tool_calls": supports_tools}},
        "/v1/models": {"object": "list", "data": [{"id": name, "object": "model"}]},
    }


TOOLS, NO_TOOLS = ["completion", "tools"], ["completion"]


@contextmanager
def programs(**answers: Answers) -> Iterator[dict[str, int]]:
    """Run a server for each program's answers; yield their ports."""

    class Program(BaseHTTPRequestHandler):
        answers: Answers

        def do_GET(self) -> None:
            self.respond(self.path)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self.respond(f"{self.path} {body['model']}")

        def respond(self, request: str) -> None:
            content = self.answers.get(request)
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(200 if request in self.answers else 404)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    names = {"ollama": "Ollama", "lm_studio": "LM Studio", "llama_cpp": "llama.cpp"}
    with ExitStack() as stack:
        ports = {}
        for program, answer in answers.items():
            port, handler = stack.enter_context(http_server(Program))
            handler.answers = answer
            ports[names[program]] = port
        yield ports


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({"ollama": ollama(("old", "2025", TOOLS), ("new", "2026", TOOLS))}, ("Ollama", "new", False)),
        ({"ollama": ollama(("old", "2025", TOOLS), ("new", "2026", TOOLS), loaded=("old",))}, ("Ollama", "old", True)),
        ({"ollama": ollama(("plain", "2026", NO_TOOLS), ("able", "2025", TOOLS))}, ("Ollama", "able", False)),
        ({"lm_studio": lm_studio(("first", False, True), ("used", True, True))}, ("LM Studio", "used", True)),
        ({"lm_studio": lm_studio(("plain", True, False), ("able", False, True))}, ("LM Studio", "able", False)),
        ({"llama_cpp": llama_cpp("qwen.gguf", supports_tools=True)}, ("llama.cpp", "qwen.gguf", True)),
        (
            {"ollama": ollama(("cold", "2026", TOOLS)), "llama_cpp": llama_cpp("warm", supports_tools=True)},
            ("llama.cpp", "warm", True),
        ),
    ],
    ids=["newest", "loaded", "with tools", "loaded instance", "trained for tools", "template", "of two"],
)
async def test_the_loaded_model_with_tools_is_chosen_else_the_newest(
    answers: dict[str, Answers], expected: tuple[str, str, bool]
) -> None:
    with programs(**answers) as ports:
        found = await find_local_model(ports, BOUND_S)
    program, model, is_loaded = expected
    assert found == LocalModel(program, model, f"http://127.0.0.1:{ports[program]}/v1", is_loaded)


@pytest.mark.parametrize(
    "answers",
    [
        {},
        {"ollama": ollama()},
        {"ollama": ollama(("plain", "2026", NO_TOOLS)), "llama_cpp": llama_cpp("x", supports_tools=False)},
        {"llama_cpp": {"/props": {"swagger": "2.0"}, "/v1/models": []}},
        {"lm_studio": {"/api/v1/models": b"<html>"}},
        {"ollama": {"/api/tags": {"models": [{"name": 3, "modified_at": None}]}, "/api/ps": [1]}},
        {"llama_cpp": {"/props": b" " * 3_000_000}},
        {"llama_cpp": {"/props": b"[" * 500_000}},
        {"llama_cpp": llama_cpp("a\x1b]0;title\x07\n", supports_tools=True)},
        {"llama_cpp": llama_cpp("\ud800", supports_tools=True)},
        {"llama_cpp": llama_cpp("offline", supports_tools=True)},
        {"ollama": ollama(("", "2026", TOOLS)), "llama_cpp": llama_cpp("x" * 500_000, supports_tools=True)},
    ],
    ids=[
        *("nothing", "no model", "no tools", "other program", "a page", "other forms", "a huge answer", "deep"),
        *("control characters", "no character", "the offline model's name", "no name, a long name"),
    ],
)
async def test_programs_without_such_a_model_and_other_programs_give_none(answers: dict[str, Answers]) -> None:
    with programs(**answers) as ports:
        assert await find_local_model(ports, BOUND_S) is None


async def test_a_program_that_never_answers_ends_the_search_at_its_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert await find_local_model({"Ollama": silent.getsockname()[1]}) is None


async def test_a_model_that_ollama_runs_elsewhere_is_not_chosen() -> None:
    answers = ollama(("big:cloud", "2026", TOOLS), ("small", "2025", TOOLS))
    answers["/api/tags"]["models"][0]["remote_host"] = "https://ollama.com"
    with programs(ollama=answers) as ports:
        found = await find_local_model(ports, BOUND_S)
    assert found is not None
    assert found.model == "small"


@pytest.mark.parametrize(
    ("listed", "text"),
    [
        (("qwen3:latest", "m"), "answers."),
        (("models/qwen3",), "answers."),
        (("qwen2", *(f"m{number}" for number in range(300))), "does not list the model qwen3."),
    ],
)
def test_doctor_reports_a_model_that_its_endpoint_does_not_list(
    listed: tuple[str, ...], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = {"data": [{"id": name} for name in listed]}
    with programs(llama_cpp={"/v1/models": answer}) as ports:
        url = f"http://127.0.0.1:{ports['llama.cpp']}/v1"
        environ = {"OPENAI_BASE_URL": url, "TOOLWEAVE_MODEL": "qwen3"}
        # A proxy cannot reach this machine's loopback addresses.
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        _, reached = check_model(load_settings(environ))
    assert reached.text == f"{url} {text}"
    assert (reached.level, reached.fix) in (
        ("ok", None),
        ("warn", "Set TOOLWEAVE_MODEL to one that it lists. Did you mean 'qwen2'?"),
    )


def test_a_model_is_searched_only_if_no_endpoint_is_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY", "TOOLWEAVE_MODEL"):
        monkeypatch.setenv(name, "")
    with programs(llama_cpp=llama_cpp("qwen", supports_tools=True)) as ports:
        configuration, line = with_model(read_configuration(), ports)
        assert line == "qwen of llama.cpp on this machine (no endpoint is configured)"
        url = f"http://127.0.0.1:{ports['llama.cpp']}/v1"
        assert (configuration.settings.model, configuration.settings.openai_base_url) == ("qwen", url)
        assert (os.environ["TOOLWEAVE_MODEL"], os.environ["OPENAI_BASE_URL"]) == ("qwen", url)

        assert with_model(configuration, ports) == (configuration, "qwen (OPENAI_BASE_URL is set)")
        monkeypatch.setenv("TOOLWEAVE_MODEL", "offline")
        assert with_model(read_configuration(), ports)[1].startswith("offline, ")
    monkeypatch.setenv("TOOLWEAVE_MODEL", "")
    monkeypatch.setenv("OPENAI_BASE_URL", "")
    without, line = with_model(read_configuration(), {})
    assert (without.settings.model, os.environ["TOOLWEAVE_MODEL"]) == ("offline", "offline")
    assert "no endpoint is configured or found" in line
