"""Declare the parameters of the job tools: what a model reads about them and what is refused (C-04, C-07)."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints
from pydantic.json_schema import SkipJsonSchema

# What a service gives as an id and is asked about with: no character in it means anything in a path.
JOB_ID = r"[A-Za-z0-9_~.:=@+,-]{1,200}"
LONGEST_WAIT_S = 3.0


def job_id_form(text: str) -> str:
    """Refuse what no URL can end with. Raises ValueError."""
    if text in (".", ".."):
        raise ValueError("the id that execute_job gave")
    return text


Endpoint = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=2000),
    Field(
        description="URL of the job service: where jobs are posted to. Only those that the operator allows.",
        examples=["https://jobs.example.org/v1/reports"],
    ),
]
Params = Annotated[
    dict[str, Any],
    Field(
        description="What the job needs to know, as the service asks for it: sent as a JSON object.",
        examples=[{"report": "sales", "month": "2026-10"}],
    ),
]
JobId = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=200, pattern=f"^{JOB_ID}$"),
    AfterValidator(job_id_form),
    Field(description="The job's id, as execute_job gave it.", examples=["job-42"]),
]
WaitSeconds = Annotated[
    float,
    Field(
        ge=0,
        le=LONGEST_WAIT_S,
        allow_inf_nan=False,
        description="How many seconds to wait for the job's end; 0 answers at once. Progress is reported meanwhile.",
        examples=[2],
    ),
]

Absent = SkipJsonSchema[None]
