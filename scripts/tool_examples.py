"""The examples of the tools' pages: what is called, in the world of tests/fixtures/core_world.py."""

from dataclasses import dataclass
from typing import Any

# Stand in the pages for the job service's address and for the id of a job; both differ from run to run.
JOBS = "http://127.0.0.1:8090/jobs"
JOB_ID = "5d1f0c6e2b7a4e0f9a3c8d4b6e2f1a70"


@dataclass(frozen=True)
class Example:
    title: str
    arguments: dict[str, Any]
    fails: bool = False
    # A job that is run to its end before: its params.
    job: dict[str, Any] | None = None


Examples = tuple[Example, ...]

CORE_EXAMPLES: dict[str, Examples] = {
    "query_database": (
        Example("The rows with a value", {"table": "customers", "filters": {"country": "FR"}}),
        Example(
            "The two largest open orders",
            {
                "table": "orders",
                "filters": [
                    {"column": "status", "op": "eq", "value": "open"},
                    {"column": "placed_on", "op": "ge", "value": "2026-11-01"},
                ],
                "columns": ["id", "total"],
                "order_by": "-total",
                "limit": 2,
            },
        ),
        Example(
            "One condition or another",
            {
                "table": "orders",
                "filters": [
                    {
                        "or": [
                            {"column": "total", "op": "gt", "value": 100},
                            {"column": "customer_id", "op": "in", "value": [3]},
                        ]
                    }
                ],
                "order_by": ["customer_id", "placed_on desc"],
            },
        ),
        Example(
            "An operator that there is not",
            {"table": "orders", "filters": [{"column": "total", "op": "more", "value": 100}]},
            fails=True,
        ),
        Example("A table that the operator has not opened", {"table": "staff"}, fails=True),
        Example(
            "A column that the operator has not opened", {"table": "customers", "columns": ["card_number"]}, fails=True
        ),
    ),
    "execute_job": (
        Example("Start a job", {"endpoint": f"{JOBS}/count", "params": {"text": "to be or not to be"}}),
        Example("Params that the service does not take", {"endpoint": f"{JOBS}/count", "params": {}}, fails=True),
        Example("A service that the operator has not opened", {"endpoint": "https://example.com/jobs"}, fails=True),
    ),
    "check_job_status": (
        Example(
            "A job that succeeded",
            {"endpoint": f"{JOBS}/count", "job_id": JOB_ID, "wait_s": 2},
            job={"text": "to be or not to be"},
        ),
        Example("A job that failed", {"endpoint": f"{JOBS}/count", "job_id": JOB_ID}, job={"text": ""}),
        Example("A job that there is not", {"endpoint": f"{JOBS}/count", "job_id": "job-42"}, fails=True),
        Example(
            "Waiting for longer than may be",
            {"endpoint": f"{JOBS}/count", "job_id": "job-42", "wait_s": 60},
            fails=True,
        ),
    ),
    "read_file": (
        Example("A whole file", {"path": "docs/returns.md"}),
        Example("A part of a long file", {"path": "docs/shipping.md", "start_line": 3, "max_lines": 1}),
        Example("A file that there is not", {"path": "docs/refunds.md"}, fails=True),
        Example("A file outside the folders that may be read", {"path": "../secret.txt"}, fails=True),
        Example("A file that is not text", {"path": "logo.png"}, fails=True),
    ),
    "search_files": (
        Example("Files by name", {"pattern": "*.md", "directory": "docs"}),
        Example("Lines by their text", {"pattern": "refund", "content": True, "files": "*.md", "ignore_case": True}),
        Example("A folder outside those that may be searched", {"pattern": "*", "directory": "/etc"}, fails=True),
        Example("More matches than may be asked for", {"pattern": "*", "limit": 5000}, fails=True),
    ),
}

# The todos that there are before each example.
TODOS: tuple[dict[str, Any], ...] = (
    {"title": "Buy milk", "tags": ["shopping"]},
    {"title": "Call the dentist", "priority": "high", "due_date": "2026-12-01"},
    {"title": "Buy oat milk", "due_date": "2026-12-24", "tags": ["shopping"]},
)

TODO_EXAMPLES: dict[str, Examples] = {
    "create_todo": (
        Example("A title is enough", {"title": "Water the plants"}),
        Example(
            "With everything",
            {
                "title": "Book the train",
                "description": "To Lyon, a seat at the window",
                "priority": "high",
                "due_date": "2026-12-20T18:00:00+01:00",
                "tags": ["travel", "Family"],
            },
        ),
        Example("No title", {"priority": "high"}, fails=True),
        Example("A date that is none", {"title": "Water the plants", "due_date": "tomorrow"}, fails=True),
    ),
    "list_todos": (
        Example("What is to be done of one kind", {"status": "active", "tag": "shopping"}),
        Example("What is due soon, one page", {"due_before": "2026-12-31", "limit": 1}),
        Example("A status that there is not", {"status": "open"}, fails=True),
    ),
    "update_todo": (
        Example("It is done", {"id": 1, "status": "completed"}),
        Example("Move it, and take its tags away", {"id": 3, "due_date": "2026-12-27", "tags": []}),
        Example("A todo that there is not", {"id": 99, "status": "completed"}, fails=True),
        Example("Nothing to change", {"id": 1}, fails=True),
    ),
    "search_todos": (
        Example("All of the words", {"query": "oat milk"}),
        Example("No word", {"query": " "}, fails=True),
    ),
    "delete_todo": (Example("Remove it", {"id": 2}), Example("A todo that there is not", {"id": 99}, fails=True)),
}
