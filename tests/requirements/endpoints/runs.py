"""Behaviours of the endpoints of runs on a thread (langgraph_api.md section 2.3)."""

BOTH_CONTEXTS = "400 for context beside config.configurable"
NOT_FOUND = "404 for an unknown thread, assistant or checkpoint"
BUSY = "409 on a busy thread, when it is not to be waited for"
BAD_BODY = "422 for a body or an assistant that is not valid"
BAD_ID = "422 for an id that is not a UUID"
NO_RUN = "404 for an unknown thread or run"
LEAVES = "200 can cancel the run when its client leaves"

BEHAVIOURS: dict[str, tuple[str, ...]] = {
    "POST /threads/{thread_id}/runs": (
        "200 creates a pending run and shows the request's fields",
        "200 creates a missing thread on request",
        "200 queues behind what runs on the thread",
        "200 interrupts or rolls back the run before it on request",
        "200 names fields without effect in a header",
        "200 starts later on request",
        BOTH_CONTEXTS,
        NOT_FOUND,
        BUSY,
        BAD_BODY,
    ),
    "POST /threads/{thread_id}/runs/stream": (
        "200 begins with metadata and simply ends",
        "200 closes when the run has ended, not before",
        "200 breaks off when the server stops; the run goes on later",
        "200 is resumed by the Python SDK where it was cut",
        LEAVES,
        "400 for a thread id that is not a UUID",
        BOTH_CONTEXTS,
        NOT_FOUND,
        BUSY,
        BAD_BODY,
    ),
    "POST /threads/{thread_id}/runs/wait": (
        "200 gives the values and says where to come back",
        "200 with the error of a failed run",
        "200 with the question of an interrupted run",
        "200 with an error for an answer nobody waits for, when strict",
        LEAVES,
        BOTH_CONTEXTS,
        NOT_FOUND,
        BUSY,
        BAD_BODY,
    ),
    "GET /threads/{thread_id}/runs": (
        "200 newest first, by status, page and selected fields",
        "404 for an unknown thread",
        "422 for a filter, page or field that does not exist",
    ),
    "GET /threads/{thread_id}/runs/{run_id}": ("200 gives a run", NO_RUN, BAD_ID),
    "DELETE /threads/{thread_id}/runs/{run_id}": (
        "204 stops the run and deletes it and its checkpoints",
        "409 the run has ended and another one is in flight",
        NO_RUN,
        BAD_ID,
    ),
    "GET /threads/{thread_id}/runs/{run_id}/join": (
        "200 gives the result when the run has ended",
        "200 with an error for an unknown run",
        LEAVES,
        BAD_ID,
    ),
    "GET /threads/{thread_id}/runs/{run_id}/stream": (
        "200 goes on from where a run is",
        "200 replays a resumable run from any id",
        "200 is empty for an ended run that is not resumable",
        "200 with an error event for an unknown run",
        "200 loses and repeats nothing over cut connections",
        "200 goes on without a gap after the server was killed",
        "200 closes when the run has ended, not before",
        LEAVES,
        BAD_ID,
    ),
    "POST /threads/{thread_id}/runs/{run_id}/cancel": (
        "200 with wait, keeps the run's checkpoints",
        "200 rolls the run back on request",
        "202 at once, when it is not waited for",
        "202 whatever reason the client gives",
        "404 for a run that has ended or is unknown",
        "422 for an action or a flag that does not exist",
    ),
    "POST /runs/cancel": (
        "204 cancels the named runs of a thread and ignores unknown ones",
        "204 cancels all runs of a status, of every thread",
        "204 rolls back on request",
        "404 when there is nothing to cancel",
        "422 unless it names either a status or runs of a thread, and a known action",
    ),
}
