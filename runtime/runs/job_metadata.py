"""Say in a run's metadata how far it has come and why it failed, together with its end (A-05)."""

from dataclasses import replace

from toolweave.runtime.models import JsonObject, Outcome, Run
from toolweave.runtime.runs.progress import RunProgress, shortened

LONGEST_ERROR = 2_000
PROGRESS, ERROR = "progress", "error"


def with_job_metadata(outcome: Outcome, progress: RunProgress) -> Outcome:
    """Add what the run's metadata are to say: what it has told last, and the text of its failure."""
    told: JsonObject = {} if progress.latest is None else {PROGRESS: progress.latest}
    if outcome.status in ("error", "timeout") and outcome.error is not None:
        told[ERROR] = shortened(outcome.error.get("message"), LONGEST_ERROR)
    return replace(outcome, run_metadata=told) if told else outcome


def asked_metadata(run: Run) -> JsonObject:
    """Give a run's metadata without the progress that an earlier attempt has told."""
    told = run.metadata.get(PROGRESS)
    ours = run.attempt > 1 and isinstance(told, dict) and told.keys() == {"percent", "message"}
    return {name: item for name, item in run.metadata.items() if name != PROGRESS} if ours else run.metadata
