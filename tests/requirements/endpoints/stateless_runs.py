"""Behaviours of the endpoints of runs that bring their own thread (langgraph_api.md section 2.4)."""

BOTH_CONTEXTS = "400 for context beside config.configurable"
NOT_FOUND = "404 for an unknown assistant"
BAD_BODY = "422 for a body or an assistant that is not valid"

BEHAVIOURS: dict[str, tuple[str, ...]] = {
    "POST /runs": (
        "200 creates a run in the background and names its thread",
        "200 keeps the thread on request",
        BOTH_CONTEXTS,
        NOT_FOUND,
        BAD_BODY,
    ),
    "POST /runs/stream": (
        "200 streams, and is found again by the run alone",
        "200 in the requested modes, by default values",
        "200 shows only the requested namespaces",
        "200 is resumed by the Python SDK where it was cut, also when the run is gone",
        BOTH_CONTEXTS,
        NOT_FOUND,
        BAD_BODY,
    ),
    "POST /runs/wait": (
        "200 answers and leaves nothing behind",
        "200 with errors and questions in the body",
        BOTH_CONTEXTS,
        NOT_FOUND,
        BAD_BODY,
    ),
    "POST /runs/batch": (
        "200 creates them all, each on a thread of its own",
        "200 names what it ignored in any of them, once",
        "400 for context beside config.configurable in one of them",
        "404 for an unknown assistant in one of them",
        "422 for one that is not valid, for none and for too many",
    ),
    "GET /runs/{run_id}/stream": (
        "200 replays a resumable run from any id",
        "404 for an unknown run, and for one that is gone and was not resumable",
        "422 for an id that is not a UUID",
    ),
}
