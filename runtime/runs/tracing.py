"""Send a trace of each run to an OpenTelemetry collector (S-12); only imported if an endpoint is configured.

The run's span is ours, those of nodes, models and tools are openinference's, and those of MCP calls the tool plane's.
Without `with_content` no span has text of messages, arguments, results or errors.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from threading import Thread
from typing import Any, cast
from urllib.parse import urlsplit

from langchain_core.tracers.schemas import Run as LangChainRun
from loguru import logger
from openinference.instrumentation import OITracer, TraceConfig

# Not its LangChainInstrumentor, which also records graphs outside of runs, and encodes content to drop it.
from openinference.instrumentation.langchain._tracer import OpenInferenceTracer
from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import NoOpTracer, Status, StatusCode, Tracer
from opentelemetry.util.types import AttributeValue

from toolweave import __version__
from toolweave.runtime.caller import TRACE_HEADERS
from toolweave.runtime.models import Outcome, Run
from toolweave.runtime.runs.execution import OpenTrace, RunTrace, run_log_ids

# The keys, and beginnings of keys, of openinference's attributes that quote nothing.
CONTENT_FREE_KEYS = (
    *("openinference.span.kind", "llm.model_name", "llm.provider", "llm.system", "llm.token_count."),
    *("llm.finish_reason", "tool.name", "embedding.model_name", "error.type"),
)
LANGCHAIN_SCOPE = "openinference.instrumentation.langchain"
OWN_SCOPES, SERVER_SCOPES = ("toolweave", LANGCHAIN_SCOPE), ("fastapi", "fastmcp", "starlette")
ERROR_TYPE, EXCEPTION_TYPE, CANCELLED = "error.type", "exception.type", "CancelledError"
RUN_SPAN, OWN_PREFIX = "run {}", "toolweave."
CLOSE_TIMEOUT_S = 2.0


class ContentFreeConfig(TraceConfig):
    """A configuration of openinference that drops all attributes but `CONTENT_FREE_KEYS`."""

    def mask(
        self, key: str, value: AttributeValue | Callable[[], AttributeValue], *, externalize: bool = True
    ) -> AttributeValue | None:
        """Return the value to record, None to drop it."""
        return super().mask(key, value, externalize=externalize) if key.startswith(CONTENT_FREE_KEYS) else None


class OwnTracerProvider(TracerProvider):
    """A provider that records the spans of Toolweave and openinference, and with content those of an application.

    FastAPI and FastMCP would begin a trace per request, and their spans quote URLs, arguments and errors.
    """

    def __init__(self, resource: Resource, *, with_content: bool) -> None:
        super().__init__(resource=resource, shutdown_on_exit=False)
        self._with_content = with_content

    def get_tracer(self, instrumenting_module_name: str, *args: Any, **options: Any) -> Tracer:
        """Return a tracer; that of another library records nothing, and its spans pass their parent on."""
        is_application = self._with_content and not instrumenting_module_name.startswith(SERVER_SCOPES)
        if is_application or instrumenting_module_name.startswith(OWN_SCOPES):
            return super().get_tracer(instrumenting_module_name, *args, **options)
        return NoOpTracer()


class RunTracer(OpenInferenceTracer):
    """The callback that records a graph's nodes, model calls and tool calls; without content it encodes none."""

    run_inline = True

    def __init__(self, tracer: OITracer, *, with_content: bool) -> None:
        super().__init__(cast("Tracer", tracer), separate_trace_from_runtime_context=False)
        self._with_content = with_content

    def on_chat_model_start(self, serialized: Any, messages: Any, **options: Any) -> Any:
        """Open the span of a model call."""
        return super().on_chat_model_start(serialized, messages if self._with_content else [[]], **options)

    def _end_trace(self, run: LangChainRun) -> None:  # type: ignore[override]  # theirs is a wrapped method
        if not self._with_content:
            # The attributes would be dropped, but only after the whole state has been encoded.
            run.inputs = {}
            if run.run_type != "llm":
                run.outputs = {}
        super()._end_trace(run)

    def end_open_spans(self) -> None:
        """End the spans without an end: LangChain reports none for a cancelled model call or a closed stream."""
        for run in list(self.run_map.values()):
            if span := self.get_span(run.id):
                span.set_attribute(ERROR_TYPE, CANCELLED)
                run.error = CANCELLED
                self._end_trace(run)
                # A thread that outlives the run reports its end later.
                self.run_map[str(run.id)] = run


class CollectorExporter(SpanExporter):
    """An exporter that logs one line when the collector fails, and one when it accepts spans again."""

    def __init__(self, url: str, *, with_content: bool) -> None:
        self._exporter = OTLPSpanExporter(url)
        self._host = urlsplit(url).netloc.rpartition("@")[2]
        self._with_content = with_content
        self._is_failing = False
        self._reason = ""
        self._log = logging.getLogger(OTLPSpanExporter.__module__)
        self._log.setLevel(logging.WARNING)
        self._log.addFilter(self._hold_reason)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans, from the exporter's own thread."""
        self._reason = ""
        result = self._exporter.export([self._prepared(span) for span in spans])
        fails = result is not SpanExportResult.SUCCESS
        if fails and not self._is_failing:
            logger.warning("traces cannot be sent to {}: {} Runs continue without them.", self._host, self._reason)
        elif self._is_failing and not fails:
            logger.info("traces are sent again")
        self._is_failing = fails
        return result

    def shutdown(self) -> None:
        """Close the connections."""
        self._log.removeFilter(self._hold_reason)
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def _hold_reason(self, record: logging.LogRecord) -> bool:
        self._reason = self._reason or record.getMessage()
        return False

    def _prepared(self, span: ReadableSpan) -> ReadableSpan:
        """Add `error.type` to a failed span, and remove the texts of errors without `with_content`."""
        if not (span.events or span.status.description):
            return span
        attributes = dict(span.attributes or {})
        types = [(event.attributes or {}).get(EXCEPTION_TYPE) for event in span.events]
        if span.status.status_code is StatusCode.ERROR:
            attributes.setdefault(ERROR_TYPE, str(types[-1]) if types else "_OTHER")
        return ReadableSpan(
            name=span.name,
            context=span.context,
            parent=span.parent,
            resource=span.resource,
            attributes=attributes,
            events=span.events if self._with_content else (),
            links=span.links,
            kind=span.kind,
            instrumentation_scope=span.instrumentation_scope,
            status=span.status if self._with_content else Status(span.status.status_code),
            start_time=span.start_time,
            end_time=span.end_time,
        )


@asynccontextmanager
async def open_tracing(url: str, *, with_content: bool) -> AsyncIterator[OpenTrace]:
    """Yield a function that opens the trace of a run.

    `url` receives the spans; the SDK's own variables (OTEL_*) set everything else.
    """
    service = Resource.create({SERVICE_NAME: "toolweave", "service.version": __version__})
    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win.
    provider = OwnTracerProvider(service.merge(OTELResourceDetector().detect()), with_content=with_content)
    provider.add_span_processor(BatchSpanProcessor(CollectorExporter(url, with_content=with_content)))
    # The tool plane uses the global provider.
    trace.set_tracer_provider(provider)
    config = (TraceConfig if with_content else ContentFreeConfig)(enable_genai_semconv=True)
    new_tracer = partial(RunTracer, OITracer(provider.get_tracer(LANGCHAIN_SCOPE), config), with_content=with_content)
    try:
        yield partial(run_span, provider.get_tracer("toolweave", __version__), new_tracer)
    finally:
        # A collector that does not answer must not hold the process.
        closing = Thread(target=provider.shutdown, name="traces-closing", daemon=True)
        closing.start()
        await asyncio.to_thread(closing.join, CLOSE_TIMEOUT_S)


@contextmanager
def run_span(tracer: Tracer, new_tracer: Callable[[], RunTracer], run: Run) -> Iterator[RunTrace]:
    """Open a run's span: the root of a trace, or a child of the span in the headers of the run's request.

    A run that is not sampled has no callback.
    """
    configurable = (run.kwargs.get("config") or {}).get("configurable") or {}
    headers = {name: configurable[name] for name in TRACE_HEADERS if isinstance(configurable.get(name), str)}
    ids = run_log_ids(run)
    attributes: dict[str, AttributeValue] = {
        f"{OWN_PREFIX}{name}": value for name, value in ids.items() if value is not None and name != "user_id"
    }
    attributes |= {"openinference.span.kind": "AGENT", "gen_ai.operation.name": "invoke_agent"}
    attributes |= {"gen_ai.agent.name": run.graph_id, "toolweave.run_attempt": run.attempt}
    # Langfuse, Phoenix and LangSmith group traces by session.
    attributes |= {"session.id": run.thread_id, "gen_ai.conversation.id": run.thread_id}
    if ids["user_id"]:
        attributes["user.id"] = ids["user_id"]
    # Not the current context: it may be that of the run before.
    parent = propagate.extract(headers, context=Context())
    with tracer.start_as_current_span(
        RUN_SPAN.format(run.graph_id),
        context=parent,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:

        def record_outcome(outcome: Outcome) -> None:
            span.set_attribute("toolweave.run_status", outcome.status)
            if outcome.status in ("error", "timeout"):
                span.set_attribute(ERROR_TYPE, str((outcome.error or {}).get("error") or outcome.status))
                span.set_status(StatusCode.ERROR)

        run_tracer = new_tracer()
        try:
            yield RunTrace(record_outcome, (run_tracer,) if span.is_recording() else ())
        finally:
            run_tracer.end_open_spans()
