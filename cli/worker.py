"""Execute runs without serving HTTP: `toolweave worker`, beside API replicas on one PostgreSQL database (S-06)."""

import asyncio
from functools import partial
from typing import Annotated

import typer
from loguru import logger
from starlette.applications import Starlette

from toolweave.api.langgraph.app import create_langgraph_app
from toolweave.cli.configuration import ConfigOption, DataDirOption, read_configuration
from toolweave.cli.http_server import StopRequest, run_until_signal
from toolweave.cli.serve import HANDLER_THREADS
from toolweave.config.logs import configure_logging
from toolweave.config.settings import unknown_variables
from toolweave.errors import ConfigError
from toolweave.files import raise_open_files_limit
from toolweave.nodes.model_endpoint import model_label

READY_MESSAGE = "Toolweave worker is ready"
ConcurrencyOption = Annotated[
    int | None, typer.Option("--concurrency", min=1, help="Runs to execute at a time.", show_default="100")
]


def worker(config: ConfigOption = None, concurrency: ConcurrencyOption = None, data_dir: DataDirOption = None) -> None:
    """Execute the runs that API replicas create; needs TOOLWEAVE_DATABASE_URL.

    When the worker takes runs, it prints "Toolweave worker is ready" on stdout. SIGTERM and Ctrl-C let its runs finish
    for TOOLWEAVE_DRAIN_TIMEOUT_S; other workers continue those that need longer. A run that does not stop ends with the
    process, which exits with 1 at most nine seconds later. A second Ctrl-C stops it at once.
    """
    configuration = read_configuration(config, max_concurrent_runs=concurrency, data_dir=data_dir)
    settings = configuration.settings
    if settings.database_url is None:
        raise ConfigError(
            "a worker needs a PostgreSQL database.",
            source="TOOLWEAVE_DATABASE_URL",
            fix="Set it to the database of the API replicas, or use toolweave serve, which executes its runs itself.",
        )
    configure_logging(settings)
    raise_open_files_limit()
    if configuration.has_toolweave_graphs:
        # Fail now, not in the first run, if the model cannot be used.
        model_label(settings)
    for name in unknown_variables():
        logger.warning("the environment variable {} sets nothing", name)
    app = create_langgraph_app(configuration.langgraph_json, settings)
    threads = settings.max_concurrent_runs + HANDLER_THREADS
    run_until_signal(partial(_run, app), threads=threads, drain_s=settings.drain_timeout_s, exit_code=1)


async def _run(app: Starlette, stop: StopRequest) -> None:
    async with app.router.lifespan_context(app):
        print(READY_MESSAGE, flush=True)
        await asyncio.to_thread(stop.signalled.wait)
        logger.info("the worker stops")
