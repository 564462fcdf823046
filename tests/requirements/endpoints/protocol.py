"""List what the endpoints of the newer protocol must do."""

BEHAVIOURS: dict[str, tuple[str, ...]] = {
    "POST /threads/{thread_id}/commands": (
        "200 starts a run, creating the thread, and shows it with all of the protocol's modes",
        "200 refuses a run without an assistant, or of an unknown one",
        "200 applies a multitask strategy under both of its names",
        "200 forks from a checkpoint, and refuses one that is not there",
        "200 answers a question, with an update, a goto, a config and metadata",
        "200 answers several questions at once, or one of them",
        "200 refuses answers that nobody waits for, or has been given",
        "200 takes the input of a run on a thread that asks for the answer",
        "200 draws the tree of a run's graphs",
        "200 checks subscriptions that have no connection to send to",
        "200 refuses unknown commands and threads that can never be",
        "400 refuses what is no command, under its id if it has one",
    ),
    "POST /threads/{thread_id}/stream/events": (
        "200 tells a run's life, values and questions in the protocol's order",
        "200 streams messages as content blocks",
        "200 tells how a run failed",
        "200 tells tool calls, tasks, updates, checkpoints and custom events to whoever asks for them",
        "200 replays what is kept to late listeners, from since on, and goes on live without a gap",
        "200 waits for a thread that does not exist yet, and ends with the thread",
        "400 refuses bodies that are no JSON, and channels that are missing or unknown",
        "422 refuses a thread id that is no UUID",
    ),
}
