"""Threads: make, find, change, copy, free and follow them."""

BEHAVIOURS: dict[str, tuple[str, ...]] = {
    "POST /threads": (
        "200 makes an idle thread without values",
        "200 returns the existing thread with if_exists do_nothing",
        "200 builds up a state from supersteps",
        "200 takes a time to live, in minutes or with a strategy",
        "201 says that there is no graph for the supersteps",
        "400 the graph does not take a superstep",
        "409 a thread of this id exists",
        "422 bad id, ttl, supersteps or if_exists",
    ),
    "GET /threads/{thread_id}": (
        "200 shows status, values, error and interrupts",
        "200 shows the time to live with include=ttl",
        "404 unknown thread",
        "422 bad thread id",
    ),
    "PATCH /threads/{thread_id}": (
        "200 merges metadata at the top level",
        "200 sets a time to live that counts from now",
        "204 without a body with Prefer: return=minimal",
        "404 unknown thread",
        "422 bad thread id, metadata or ttl",
    ),
    "DELETE /threads/{thread_id}": (
        "204 deletes the thread",
        "204 deletes a busy thread, whose run ends",
        "404 unknown thread",
        "422 bad thread id",
    ),
    "POST /threads/{thread_id}/copy": (
        "200 copies the history, not the runs",
        "409 unknown thread",
        "422 bad thread id",
    ),
    "POST /threads/search": (
        "200 finds by metadata, values, ids and status",
        "200 shows what is selected and extracted",
        "200 says in headers how the pages go on",
        "422 bad filter, page, order, select or extract",
    ),
    "POST /threads/count": (
        "200 counts what a search would find",
        "422 bad filter",
    ),
    "POST /threads/prune": (
        "200 deletes the threads and ignores unknown ids",
        "200 keep_latest keeps the newest state, and leaves busy threads alone",
        "200 ends the runs of a busy thread that it deletes",
        "422 missing or bad ids, unknown strategy",
    ),
    "GET /threads/{thread_id}/storage": (
        "200 counts checkpoints, channel values and pending writes",
        "404 unknown thread",
        "422 bad thread id",
    ),
    "GET /threads/{thread_id}/stream": (
        "200 streams run after run, each from its metadata to run_done",
        "200 gives every event an id of its own, rising over all runs",
        "200 says run_done when the run has ended",
        "200 shows a run that is under way from now on",
        "200 shows nothing of a run that never began",
        "200 shows the requested modes under both names",
        "200 shows a state that was written by hand",
        "200 goes on after Last-Event-ID with the events of resumable runs",
        "200 keeps nothing of runs that are not resumable",
        "200 ends when the thread is deleted",
        "200 forgets clients that leave",
        "404 unknown thread",
        "422 bad thread id, mode or Last-Event-ID",
    ),
}
