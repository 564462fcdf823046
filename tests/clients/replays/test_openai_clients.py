"""What llm 0.36 was recorded to send to an OpenAI-compatible server, and what Open WebUI 0.6 is known to (S-09)."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.requirement("S-09")

LANGGRAPH_JSON = Path(__file__).parent.parent / "app" / "other_clients.json"
SERVER_ENV = {"TOOLWEAVE_MODEL": "offline", "TOOLWEAVE_MCP_CONFIG": str(LANGGRAPH_JSON.with_name("no_servers.jsonc"))}
OPEN_WEBUI = {
    "authorization": "Bearer sk-none",
    "http-referer": "https://openwebui.com/",
    "x-title": "Open WebUI",
    "content-type": "application/json",
}
LLM = {
    "authorization": "Bearer DUMMY_KEY",
    "user-agent": "OpenAI/Python 3.57.0",
    "x-stainless-lang": "python",
    "content-type": "application/json",
}


def chunks(answer: httpx.Response) -> list[dict[str, Any]]:
    """Read a stream as these clients do: lines of `data:`, the last one [DONE]."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    *lines, last = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    assert last == "[DONE]"
    return [json.loads(line) for line in lines]


def text_of(found: list[dict[str, Any]]) -> str:
    return "".join(choice["delta"].get("content") or "" for chunk in found for choice in chunk["choices"])


async def test_open_webui_lists_the_models_and_streams_a_chat(http: httpx.AsyncClient) -> None:
    models = (await http.get("/v1/models", headers=OPEN_WEBUI)).json()
    # It shows `id` and reads `name` and `owned_by` if they are there.
    assert {model["id"] for model in models["data"]} == {"talk", "approve", "fails", "agent", "duet"}
    body = {
        "stream": True,
        "model": "talk",
        "messages": [
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": "you said: hello"},
            {"role": "user", "content": "again"},
        ],
        "stream_options": {"include_usage": True},
    }
    found = chunks(await http.post("/v1/chat/completions", headers=OPEN_WEBUI, json=body))
    assert text_of(found) == "you said: again"
    assert [choice["finish_reason"] for choice in found[-2]["choices"]] == ["stop"]
    assert found[-1]["usage"].keys() >= {"prompt_tokens", "completion_tokens", "total_tokens"}


async def test_open_webui_makes_a_title_in_the_background(http: httpx.AsyncClient) -> None:
    task = "### Task:\nGenerate a concise, 3-5 word title with an emoji"
    body = {
        "model": "talk",
        "messages": [{"role": "user", "content": task}],
        "stream": False,
        "max_completion_tokens": 1000,
    }
    answer = await http.post("/v1/chat/completions", headers=OPEN_WEBUI, json=body)
    assert answer.json()["choices"][0]["message"]["content"].startswith("you said: ### Task:")


async def test_open_webui_executes_its_own_tools_and_sends_their_results(http: httpx.AsyncClient) -> None:
    function = {
        "name": "get_time",
        "description": "Get the time of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
    body: dict[str, Any] = {
        "stream": True,
        "model": "agent",
        "params": {},
        "messages": [{"role": "user", "content": "get_time(city=Oslo)"}],
        "tools": [{"type": "function", "function": function}],
    }
    found = chunks(await http.post("/v1/chat/completions", headers=OPEN_WEBUI, json=body))
    # It joins the pieces of a call by their index.
    [call] = [call for chunk in found for choice in chunk["choices"] for call in choice["delta"].get("tool_calls", [])]
    assert (call["index"], call["function"]) == (0, {"name": "get_time", "arguments": '{"city": "Oslo"}'})
    body["messages"] += [
        {"role": "assistant", "content": text_of(found), "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "noon"},
    ]
    answered = chunks(await http.post("/v1/chat/completions", headers=OPEN_WEBUI, json=body))
    assert text_of(answered) == "done: noon"


async def test_llm_prompts_with_and_without_streaming_and_continues_a_conversation(http: httpx.AsyncClient) -> None:
    prompt = {"messages": [{"role": "user", "content": "hello"}], "model": "talk"}
    streamed = await http.post(
        "/v1/chat/completions",
        headers={**LLM, "accept": "application/json"},
        json={**prompt, "stream": True, "stream_options": {"include_usage": True}},
    )
    assert text_of(chunks(streamed)) == "you said: hello"
    whole = await http.post("/v1/chat/completions", headers=LLM, json={**prompt, "stream": False, "temperature": 0.5})
    answer = whole.json()
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "you said: hello"}
    assert whole.headers["x-ignored-fields"] == "temperature"
    system = {"role": "system", "content": "Be brief."}
    talk = [system, *prompt["messages"], answer["choices"][0]["message"], {"role": "user", "content": "more"}]
    again = await http.post(
        "/v1/chat/completions", headers=LLM, json={"model": "talk", "stream": False, "messages": talk}
    )
    assert again.json()["choices"][0]["message"]["content"] == "you said: more"
