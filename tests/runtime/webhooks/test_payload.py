"""What a webhook says of a run, and how it is signed."""

import base64
import hashlib
import hmac
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from toolweave.runtime.codec import loads
from toolweave.runtime.models import Outcome, Run, cancellation
from toolweave.runtime.webhooks import sent, webhook_headers, webhook_payload, webhook_url

STARTED = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
ENDED = STARTED + timedelta(milliseconds=12)
KEYS = (
    *("run_id", "thread_id", "assistant_id", "metadata", "status", "kwargs", "multitask_strategy", "created_at"),
    *("updated_at", "langsmith_session_name", "run_started_at", "run_ended_at", "values"),
)


def run(**kwargs: Any) -> Run:
    return Run(
        run_id="r",
        thread_id="t",
        assistant_id="a",
        graph_id="g",
        status="running",
        metadata={"m": 1},
        kwargs={"webhook": "https://a.example/", "temporary": False, **kwargs},
        multitask_strategy="enqueue",
        created_at=STARTED - timedelta(seconds=1),
        updated_at=STARTED,
        not_before=None,
        attempt=1,
        cancel=None,
    )


def said(outcome: Outcome, **kwargs: Any) -> Any:
    return loads(webhook_payload(run(**kwargs), outcome, ENDED))


def test_a_run_that_succeeded_is_told_with_its_values_and_times() -> None:
    told = said(Outcome("success", "idle", b'{"n":1}'))
    assert tuple(told) == KEYS
    assert (told["status"], told["values"]) == ("success", {"n": 1})
    assert told["run_started_at"] == "2026-11-21T12:00:00.000000+00:00"
    assert told["run_ended_at"] == told["updated_at"] == "2026-11-21T12:00:00.012000+00:00"
    assert told["created_at"] == "2026-11-21T11:59:59.000000+00:00"


def test_a_run_that_failed_is_told_with_its_error() -> None:
    told = said(Outcome("error", "error", b'{"n":1}', error={"error": "ValueError", "message": "x"}))
    assert (told["status"], told["error"]) == ("error", {"error": "ValueError", "message": "x"})


def test_a_run_without_a_thread_of_its_own_has_no_values() -> None:
    assert said(Outcome("success", "idle", b'{"n":1}'), temporary=True)["values"] is None
    assert said(Outcome("error", "error"))["values"] is None


def test_cancelled_runs_say_how_and_why() -> None:
    told = said(Outcome("interrupted", "interrupted", b'{"n":1}', error=cancellation("interrupt", None)))
    assert (told["status"], told["values"]) == ("interrupted", {"n": 1})
    assert told["error"] == {"error": "UserInterrupt", "message": "The run was cancelled."}
    error = cancellation("rollback", "Superseded.")
    told = said(Outcome("interrupted", "idle", b'{"n":1}', rolled_back=True, error=error))
    assert (told["status"], told["values"]) == ("rollback", None)
    assert told["error"] == {"error": "UserRollback", "message": "Superseded."}


def test_input_that_is_hard_to_write_as_json_does_not_keep_a_run_from_ending() -> None:
    hostile = {"half": "\ud800", "huge": 2**70, "nan": float("nan"), "text": 'quote " and } brace'}
    told = loads(sent(webhook_payload(run(input=hostile), Outcome("success", "idle", b"null"), ENDED), ENDED))
    assert told["kwargs"]["input"]["text"] == 'quote " and } brace'
    assert told["webhook_sent_at"] == "2026-11-21T12:00:00.012000+00:00"


@pytest.mark.parametrize("url", [None, "", 3])
def test_a_run_without_a_webhook_has_none(url: Any) -> None:
    assert webhook_url(run(webhook=url)) is None


def test_the_signature_is_the_one_of_the_standard() -> None:
    # A published example of the Standard Webhooks specification's libraries.
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = webhook_headers([key], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_a_receiver_can_check_the_signature_by_hand() -> None:
    key, body = b"0123456789abcdef01234567", b'{"a":1}'
    headers = webhook_headers([key], "whd_1", 1700000000, body)
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert "webhook-signature" not in webhook_headers([], "whd_1", 1700000000, body)


def test_the_check_in_the_documentation_knows_ours_from_others() -> None:
    page = (Path(__file__).parents[3] / "docs" / "webhooks.md").read_text(encoding="utf-8")
    check: dict[str, Any] = {}
    exec(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[1], check)  # noqa: S102 - our own page
    key, body, now = b"0123456789abcdef01234567", b'{"a":1}', int(time.time())
    secret = f"whsec_{base64.b64encode(key).decode()}"
    headers = webhook_headers([b"another key, of a new secret", key], "whd_1", now, body)
    assert check["is_ours"](secret, headers, body)
    assert not check["is_ours"](secret, headers, body + b" ")
    assert not check["is_ours"](secret, {**headers, "webhook-id": "whd_2"}, body)
    old = webhook_headers([key], "whd_1", now - 3600, body)
    assert not check["is_ours"](secret, old, body)
