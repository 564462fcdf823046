"""List what the endpoints of the newer protocol must do."""

BEHAVIOURS: dict[str, tuple[str, ...]] = {
    "POST /threads/{thread_id}/commands": (
        "200 starts a run with all modes and creates its thread",
        "200 refuses a run without an assistant, or of an unknown one",
        "200 applies a multitask strategy under both of its names",
        "200 forks from a checkpoint, and refuses one that is not there",
        "200 answers an interrupt, with update, goto, config, metadata",
        "200 answers several questions at once, or one of them",
        "200 refuses answers that nobody waits for, or has been given",
        "200 takes the input for an interrupted thread as the answer",
        "200 draws the tree of a run's graphs",
        "200 checks subscriptions that have no connection to send to",
        "200 refuses unknown commands and threads that can never be",
        "400 refuses what is no command, under its id if it has one",
    ),
    "POST /threads/{thread_id}/stream/events": (
        "200 sends lifecycle, values and interrupts in order",
        "200 streams messages as content blocks",
        "200 tells how a run failed",
        "200 sends the other channels to clients that request them",
        "200 replays stored events from since on, then live ones",
        "200 waits for a missing thread, and ends with the thread",
        "400 for no JSON, and for missing or unknown channels",
        "422 refuses a thread id that is no UUID",
    ),
}
