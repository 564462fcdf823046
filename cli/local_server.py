"""Hold a server inside this process, on a free port and a temporary data folder."""

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

from toolweave.api.langgraph.app import create_langgraph_app
from toolweave.cli.configuration import Configuration, read_configuration
from toolweave.cli.listening import listening, url_of
from toolweave.cli.serving import Stop, serve_app
from toolweave.config.logs import configure_logging


@contextmanager
def local_server(config: Path | None = None) -> Iterator[str]:
    """Serve on a thread of its own and give the URL; at the end it is stopped and its folder deleted.

    Raises:
        ToolweaveError: it cannot start; as `toolweave serve`.
    """
    with tempfile.TemporaryDirectory(prefix="toolweave-", ignore_cleanup_errors=True) as folder:
        configuration = read_configuration(config, host="127.0.0.1", port=0, data_dir=Path(folder), log_level="WARNING")
        configure_logging(configuration.settings)
        stop = Stop()
        ready: Future[str] = Future()
        thread = threading.Thread(target=_serve, args=(configuration, stop, ready), name="local-server")
        thread.start()
        try:
            yield ready.result()
        finally:
            stop.request()
            thread.join()


def _serve(configuration: Configuration, stop: Stop, ready: "Future[str]") -> None:
    try:
        with listening(configuration.settings) as sock:
            url = url_of(sock)
            settings = configuration.settings.model_copy(update={"port": sock.getsockname()[1]})
            app = create_langgraph_app(configuration.served, settings)
            asyncio.run(serve_app(app, sock, stop, lambda: ready.set_result(url)))
    except BaseException as error:
        if ready.done():
            raise
        ready.set_exception(error)
    else:
        if not ready.done():
            ready.cancel()
