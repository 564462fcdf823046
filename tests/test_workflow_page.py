"""docs/workflow.md is true: its tool is one, its keys are the answer's, its routes exist, its example runs."""

import json
import re
from typing import get_args, get_type_hints

from tests.fixtures.doc_pages import DOCS, code_blocks, run_example
from toolweave.api.app import create_app
from toolweave.nodes.http_tools.requests import HTTPResponseSpec, build_request
from toolweave.nodes.offline_model.model import OfflineChatModel
from toolweave.nodes.workflow.state import Stage, WorkflowOutput
from toolweave.tool_config import ToolConfig

PAGE = (DOCS / "workflow.md").read_text(encoding="utf-8")


def the_tool() -> ToolConfig:
    (block,) = code_blocks(PAGE, "json")
    return ToolConfig.model_validate(json.loads(block))


def first_column(heading: str) -> list[str]:
    table = PAGE.partition(f"{heading}\n")[2].partition("\n\n")[0]
    return [line.strip("|").split(" | ")[0].strip() for line in table.splitlines()[1:]]


def test_its_tool_is_valid_and_its_fields_go_where_the_page_says() -> None:
    request = build_request(the_tool(), {"book_id": 2, "reader": "Ada", "days": 7})
    assert request.url == "https://library.example.org/books/2/loans"
    assert (request.query, request.body) == ({"for_days": 7}, {"reader": {"name": "Ada"}})
    assert request.headers == {"X-Client": "toolweave"}


def test_it_lists_every_key_of_the_answer_and_every_stage() -> None:
    keys = {key for cell in first_column("| key | |") for key in re.findall(r"`([\w.]+)`", cell)}
    assert {key.partition(".")[0] for key in keys} == set(get_type_hints(WorkflowOutput))
    stages = PAGE.partition("| stage |")[2].partition("\n")[2].partition("\n\n")[0]
    assert re.findall(r"`([a-z]+_[a-z]+)` \|$", stages, re.MULTILINE) == list(get_args(Stage))
    listed = re.search(r"`raw_response` \|.*?: (.*) \|", PAGE)
    assert listed is not None
    assert re.findall(r"`(\w+)`", listed[1]) == list(HTTPResponseSpec.model_fields)


def test_the_routes_it_names_exist() -> None:
    served = {
        (method.upper(), path) for path, operations in create_app().openapi()["paths"].items() for method in operations
    }
    named = {
        (method, path)
        for methods, path in re.findall(r"`((?:GET|POST|PUT|DELETE)(?:`?, `?(?:GET|PUT|DELETE))*) (/[\w/{}]+)", PAGE)
        for method in re.findall(r"[A-Z]+", methods)
    }
    assert named <= served
    assert {path for _, path in served if path.startswith(("/tools", "/workflow"))} <= {path for _, path in named}


async def test_its_embedding_example_runs() -> None:
    (example,) = code_blocks(PAGE, "python")
    answer = await run_example(example, "answer", tool_config=the_tool(), my_chat_model=OfflineChatModel())
    # There is no such host: the request was made and could not be sent.
    assert (answer["selected_tool"], answer["error_stage"]) == ("Lend a book", "api_execution"), answer
    assert answer["http_spec"]["body"] == {"reader": {"name": "Ada"}}
