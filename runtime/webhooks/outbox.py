"""Put a run's webhook into the outbox, as a part of the transaction that ends the run."""

from datetime import UTC, datetime

from langchain_core.utils.uuid import uuid7
from sqlalchemy import Connection

from toolweave.runtime.models import CancelAction, NewRun, Outcome, Run
from toolweave.runtime.persistence.runs import Alongside
from toolweave.runtime.persistence.webhooks import WebhookDelivery, insert_delivery
from toolweave.runtime.webhooks.payload import webhook_payload, webhook_url


def superseded_by(new: NewRun, action: CancelAction) -> str:
    """Say why a run was cancelled that another one took the place of."""
    return f"superseded by run {new.run_id} (multitask_strategy={action})"


def telling(run: Run, outcome: Outcome) -> Alongside | None:
    """Give the work that writes a run's webhook; None when nobody wants one."""
    url = webhook_url(run)
    if url is None:
        return None
    now = datetime.now(UTC)
    payload = webhook_payload(run, outcome, now)
    delivery = WebhookDelivery(f"whd_{uuid7().hex}", run.run_id, url, payload)

    def write(connection: Connection) -> None:
        insert_delivery(connection, delivery, now)

    return write
