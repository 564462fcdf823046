"""Webhooks, wherever runs are created."""

BEHAVIOURS: dict[str, tuple[str, ...]] = {
    "POST /threads/{thread_id}/runs": (
        "200 posts the ended run to the webhook",
        "200 posts failed, interrupted and cancelled runs to the webhook",
        "200 posts no run that never ran or was deleted to the webhook",
        "200 signs the webhook and sends the configured headers",
        "200 delivers the webhook after a crash",
        "422 for a webhook that is invalid or not allowed",
    ),
    "POST /threads/{thread_id}/runs/wait": (
        "200 posts the ended run to the webhook",
        "422 for a webhook that is invalid or not allowed",
    ),
    "POST /threads/{thread_id}/runs/stream": (
        "200 posts the ended run to the webhook",
        "422 for a webhook that is invalid or not allowed",
    ),
    "POST /runs": ("200 posts the ended run to the webhook", "422 for a webhook that is invalid or not allowed"),
    "POST /runs/wait": (
        "200 posts the ended run without values to the webhook though its thread is gone",
        "422 for a webhook that is invalid or not allowed",
    ),
    "POST /runs/stream": ("200 posts the ended run to the webhook", "422 for a webhook that is invalid or not allowed"),
    "POST /runs/batch": ("200 posts each ended run to its webhook", "422 for a webhook that is invalid or not allowed"),
    "POST /runs/crons": ("422 for a webhook that is invalid or not allowed",),
    "POST /threads/{thread_id}/runs/crons": ("422 for a webhook that is invalid or not allowed",),
    "PATCH /runs/crons/{cron_id}": ("422 for a webhook that is invalid or not allowed",),
}
