"""Results and answers stay on a thread, however a later run fails (R-04)."""

import operator
from pathlib import Path
from typing import Annotated, Any

from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from pydantic import BaseModel
from typing_extensions import TypedDict

from tests.runtime.runs.conftest import open_bench


class Answer(TypedDict, total=False):
    answer: str


class Log(BaseModel):
    log: Annotated[list[str], operator.add] = []


class LaterLog(Log):
    must: int


async def test_an_answer_stays_when_the_task_fails_with_the_words_of_an_earlier_failure(tmp_path: Path) -> None:
    is_down = True

    async def ask(state: Answer) -> Answer:
        if is_down:
            raise RuntimeError("the API is down")
        return {"answer": interrupt("go?")}

    graph = StateGraph(Answer).add_node("ask", ask).add_edge(START, "ask").compile()
    async with open_bench(tmp_path, more={"ask": graph}) as bench:
        failed = bench.run("ask", input={"answer": ""})
        await bench.result(failed)
        is_down = False
        await bench.result(bench.run("ask", failed.thread_id, input=None))
        is_down = True
        answer = {"input": None, "command": {"resume": "yes"}}
        assert "__error__" in await bench.result(bench.run("ask", failed.thread_id, **answer))
        is_down = False
        assert (await bench.result(bench.run("ask", failed.thread_id, input=None)))["answer"] == "yes"


async def test_results_stay_when_the_application_changes_its_state_class_and_changes_it_back(tmp_path: Path) -> None:
    ran = []

    def logging(state_class: type[Log]) -> Any:
        async def ask(state: Any) -> dict[str, Any]:
            return {"log": [interrupt("go?")]}

        async def note(state: Any) -> dict[str, Any]:
            ran.append("note")
            return {"log": ["noted"]}

        graph = StateGraph(state_class).add_node("ask", ask).add_node("note", note)
        return graph.add_edge(START, "ask").add_edge(START, "note").compile()

    async with open_bench(tmp_path, more={"log": logging(Log)}) as bench:
        waiting = bench.run("log", input={"log": []})
        await bench.result(waiting)
    answer = {"input": None, "command": {"resume": "yes"}}
    async with open_bench(tmp_path, more={"log": logging(LaterLog)}) as bench:
        assert "__error__" in await bench.result(bench.run("log", waiting.thread_id, **answer))
    async with open_bench(tmp_path, more={"log": logging(Log)}) as bench:
        done = await bench.result(bench.run("log", waiting.thread_id, **answer))
    assert (done["log"], ran) == (["yes", "noted"], ["note"])
