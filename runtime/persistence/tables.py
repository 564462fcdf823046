"""Define the tables of app.db; migrations/ creates and changes them (a test compares the two).

JSON is text, so that it comes back as it was given; times are microseconds since the epoch.
"""

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Index, Integer, LargeBinary, MetaData, Table, Text, text

metadata = MetaData()

assistants = Table(
    "assistants",
    metadata,
    Column("assistant_id", Text, primary_key=True),
    Column("graph_id", Text, nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("description", Text),
    Column("config", Text, nullable=False),
    Column("context", Text, nullable=False),
    Column("metadata", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)

assistant_versions = Table(
    "assistant_versions",
    metadata,
    Column("assistant_id", Text, ForeignKey("assistants.assistant_id", ondelete="CASCADE"), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("graph_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text),
    Column("config", Text, nullable=False),
    Column("context", Text, nullable=False),
    Column("metadata", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

# `settled` is the status to show when no run is pending or running: cancelling the only pending run of a thread
# that waits for a human makes it interrupted again. `claim` is the token of the request or sweep that writes the
# thread's checkpoints without a run; no run of the thread starts while it is set.
threads = Table(
    "threads",
    metadata,
    Column("thread_id", Text, primary_key=True),
    Column("status", Text, nullable=False),
    Column("settled", Text, nullable=False),
    Column("metadata", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("state_values", Text),
    Column("interrupts", Text),
    Column("error", Text),
    Column("created_at", BigInteger, nullable=False, index=True),
    Column("updated_at", BigInteger, nullable=False, index=True),
    Column("state_updated_at", BigInteger, nullable=False),
    Column("ttl_strategy", Text),
    Column("ttl_minutes", Float),
    Column("expires_at", BigInteger, index=True),
    Column("claim", Text),
)

# `seq` is the order of creation, which clocks and ids made elsewhere cannot promise. `sealed` are the caller's
# credentials, encrypted; they go with the statement that ends the run.
runs = Table(
    "runs",
    metadata,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("run_id", Text, nullable=False, unique=True),
    Column("thread_id", Text, ForeignKey("threads.thread_id", ondelete="CASCADE"), nullable=False),
    Column("assistant_id", Text, nullable=False),
    Column("graph_id", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("metadata", Text, nullable=False),
    Column("kwargs", Text, nullable=False),
    Column("multitask_strategy", Text, nullable=False),
    Column("temporary", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("cancel", Text),
    Column("not_before", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("sealed", LargeBinary),
)

run_events = Table(
    "run_events",
    metadata,
    Column("run_id", Text, ForeignKey("runs.run_id", ondelete="CASCADE"), primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("event", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
)

crons = Table(
    "crons",
    metadata,
    Column("cron_id", Text, primary_key=True),
    Column("assistant_id", Text, ForeignKey("assistants.assistant_id", ondelete="CASCADE"), nullable=False),
    Column("thread_id", Text, ForeignKey("threads.thread_id", ondelete="CASCADE")),
    Column("user_id", Text),
    Column("schedule", Text, nullable=False),
    Column("timezone", Text),
    Column("end_time", BigInteger),
    Column("payload", Text, nullable=False),
    Column("metadata", Text, nullable=False),
    Column("on_run_completed", Text),
    Column("enabled", Integer, nullable=False),
    Column("next_run_at", BigInteger, index=True),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("user_members", Text),
    Column("sealed", LargeBinary),
)

# An outbox: a row is written in the transaction that ends its run and goes when the receiver has answered.
webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("delivery_id", Text, primary_key=True),
    Column("run_id", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_attempt_at", BigInteger, index=True),
    Column("last_error", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("given_up_at", BigInteger),
)

# What subscribers of the newer protocol hear; `data` is a whole event as JSON. `detail` events are more than the
# reference server would tell (see runtime/protocol).
thread_events = Table(
    "thread_events",
    metadata,
    Column("thread_id", Text, ForeignKey("threads.thread_id", ondelete="CASCADE"), primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("run_id", Text, ForeignKey("runs.run_id", ondelete="CASCADE"), nullable=False, index=True),
    Column("channel", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("detail", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
)

thread_sequences = Table(
    "thread_sequences",
    metadata,
    Column("thread_id", Text, ForeignKey("threads.thread_id", ondelete="CASCADE"), primary_key=True),
    Column("last_seq", BigInteger, nullable=False),
)

CLAIMED = text("claim IS NOT NULL")
Index("ix_threads_claimed", threads.c.thread_id, sqlite_where=CLAIMED, postgresql_where=CLAIMED)
Index("ix_runs_thread", runs.c.thread_id, runs.c.seq)
ACTIVE = text("status IN ('pending', 'running')")
Index("ix_runs_active", runs.c.thread_id, runs.c.seq, sqlite_where=ACTIVE, postgresql_where=ACTIVE)
RUNNING = text("status = 'running'")
Index("ux_runs_one_running", runs.c.thread_id, unique=True, sqlite_where=RUNNING, postgresql_where=RUNNING)
