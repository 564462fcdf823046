"""List what the endpoints of crons must do."""

BEHAVIOURS: dict[str, tuple[str, ...]] = {
    "POST /runs/crons": (
        "200 creates a cron whose payload makes its runs",
        "200 reads the schedule in its time zone and ends it at end_time",
        "200 starts runs with the payload, on threads that are deleted afterwards",
        "200 keeps the threads of its runs on request",
        "200 starts runs on behalf of the user who created the cron",
        "400 refuses context and config.configurable together",
        "404 refuses an unknown assistant, by name or id",
        "422 refuses a missing or bad schedule, time zone, end or run field",
    ),
    "POST /threads/{thread_id}/runs/crons": (
        "200 creates a cron whose runs share the thread",
        "200 starts runs on the thread",
        "400 refuses context and config.configurable together",
        "404 refuses an unknown assistant or thread",
        "422 refuses what a cron without a thread is refused for, and ids that are no UUID",
    ),
    "POST /runs/crons/search": (
        "200 filters, sorts, pages and selects, newest first",
        "422 refuses ids that are no UUID, a bad page, sorting or selection",
    ),
    "POST /runs/crons/count": (
        "200 counts what a search would find",
        "422 refuses ids that are no UUID and a body that is no JSON",
    ),
    "GET /runs/crons/{cron_id}": (
        "200 gives a cron",
        "404 refuses an unknown cron",
        "422 refuses ids that are no UUID",
    ),
    "PATCH /runs/crons/{cron_id}": (
        "200 replaces fields, merges metadata and says when the cron fires next",
        "400 refuses an empty change, and context and config.configurable together",
        "404 refuses an unknown cron",
        "422 refuses what a new cron is refused for, and ids that are no UUID",
    ),
    "DELETE /runs/crons/{cron_id}": (
        "204 deletes a cron",
        "404 refuses an unknown cron",
        "422 refuses ids that are no UUID",
    ),
}
