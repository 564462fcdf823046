"""Read what job services answer: a job's id, status, progress, result and error, in one form (C-04)."""

import json
import math
import re
from collections.abc import Callable
from functools import reduce
from typing import Any, TypedDict

from pydantic_core import to_json

from toolweave.redact import HIDDEN
from toolweave.servers.core.jobs.parameters import JOB_ID, job_id_form

LONGEST_STATUS = 100
_LEVELS_AROUND = 20
_DONE = re.compile(
    r"(?i)succe(?:ss|ssful|eded)|complete[d]?|done|finished|fail(?:ed|ure)|error(?:ed)?|cancel+ed|aborted"
)


class Job(TypedDict):
    """A job as the tools answer it; what the service does not tell is None, `progress` is a percentage by custom."""

    job_id: str
    status: str | None
    progress: Any
    result: Any
    error: Any


class NoJob(Exception):
    """An answer is no job; says what is wrong with it."""


def read_object(body: bytes) -> dict[str, Any]:
    """Parse an answer. Raises NoJob."""
    try:
        answer = json.loads(body, parse_constant=_finite, parse_float=_finite)
        # Can it be answered on, within our envelope? Half of a surrogate pair cannot, nor what is nested too deep.
        to_json(reduce(lambda inner, _: [inner], range(_LEVELS_AROUND), answer))
    except (ValueError, RecursionError):
        raise NoJob("its body is not JSON that can be read") from None
    if not isinstance(answer, dict):
        raise NoJob("its JSON is not an object")
    return answer


def started_job(answer: dict[str, Any]) -> Job:
    """Read the answer to a POST: `{job_id | id, status?}`. Raises NoJob."""
    job_id = answer.get("job_id", answer.get("id"))
    if isinstance(job_id, int) and not isinstance(job_id, bool):
        job_id = str(job_id)
    if not isinstance(job_id, str) or not re.fullmatch(JOB_ID, job_id) or not _is_form(job_id):
        raise NoJob("it has no job_id (nor id) that can be asked about")
    return _job(job_id, answer)


def known_job(job_id: str, answer: dict[str, Any]) -> Job:
    """Read the answer to a GET: `{status, progress?, result?, error?}`. Raises NoJob."""
    job = _job(job_id, answer)
    if job["status"] is None:
        raise NoJob("it has no status")
    return job


def is_over(job: Job) -> bool:
    """Say whether a job has come to its end, as far as its status tells."""
    return _DONE.fullmatch(job["status"] or "") is not None


def percentage(job: Job) -> float | None:
    """Give the progress as a number from 0 to 100, None where it is none."""
    progress = job["progress"]
    if isinstance(progress, bool) or not isinstance(progress, int | float):
        return None
    return float(progress) if 0 <= progress <= 100 else None


def without(secrets: tuple[str, ...], value: Any) -> Any:
    """Blank what was sent in headers, should a service repeat it."""
    return _mapped(value, lambda text: _blanked(text, secrets)) if secrets else value


def said_by(body: bytes, secrets: tuple[str, ...]) -> str:
    """Give the text of an error's body, without what was sent in headers."""
    try:
        # Read first: JSON may write a secret with escapes in it.
        return json.dumps(without(secrets, json.loads(body)), ensure_ascii=False)
    except (ValueError, RecursionError):
        return str(without(secrets, body.decode(errors="replace")))


def _job(job_id: str, answer: dict[str, Any]) -> Job:
    status = answer.get("status")
    if status is not None and (not isinstance(status, str) or not 0 < len(status) <= LONGEST_STATUS):
        raise NoJob(f"its status is not a text of 1 to {LONGEST_STATUS} characters")
    return Job(
        job_id=job_id,
        status=status,
        progress=answer.get("progress"),
        result=answer.get("result"),
        error=answer.get("error"),
    )


def _is_form(job_id: str) -> bool:
    try:
        return job_id_form(job_id) == job_id
    except ValueError:
        return False


def _blanked(text: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_mapped(item, change) for item in value]
    if isinstance(value, dict):
        return {change(key): _mapped(item, change) for key, item in value.items()}
    return value


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError("not a finite number")
    return value
