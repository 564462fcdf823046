"""Bring the schema of app.db up to date inside the writer's opening transaction."""

import threading
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from toolweave.errors import NewerSchema
from toolweave.sealing import Seal

MIGRATIONS = Path(__file__).with_name("migrations")
# Alembic hands the connection to its scripts through module globals.
one_migration_at_a_time = threading.Lock()


def upgrade_schema(path: Path, connection: Connection, seal: Seal | None = None) -> None:
    """Run the migrations that the database at `path` has not seen; `seal` encrypts what earlier versions did not.

    Raises:
        NewerSchema: it has seen one that this version does not know.
    """
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    scripts = ScriptDirectory.from_config(config)
    known = {script.revision for script in scripts.walk_revisions()}
    seen = MigrationContext.configure(connection).get_current_revision()
    if seen == scripts.get_current_head():
        return
    if seen is not None and seen not in known:
        raise NewerSchema(
            f"{path} was written by a newer version of Toolweave (its schema is {seen!r}, this version knows up to "
            f"{scripts.get_current_head()!r}). Upgrade Toolweave, or use another data folder (--data-dir or "
            "TOOLWEAVE_DATA_DIR). Nothing in the file was changed."
        )
    config.attributes["connection"] = connection
    config.attributes["seal"] = seal
    with one_migration_at_a_time:
        command.upgrade(config, "head")
