import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";

import { isActive, isRecorded, readThreadEvents, type StoredRun, type ThreadEvent } from "../client/protocol";
import { errorStatus, langgraph } from "../client/server";
import { type Timeline, timelineOfCheckpoints, timelineOfEvents } from "./timeline";

const RETRY_MS = 1000;
const GRACE_MS = 1000;

/** What a run has done so far; it grows while the run executes. */
export function useTimeline(run: StoredRun | undefined): Timeline {
  const recorded = run !== undefined && isRecorded(run);
  const events = useThreadEvents(recorded ? run : undefined);
  const states = useQuery({
    queryKey: ["run-checkpoints", run?.run_id, run?.status],
    enabled: run !== undefined && !recorded,
    queryFn: () => langgraph().threads.getHistory(run?.thread_id ?? "", { limit: 200, metadata: { run_id: run?.run_id } }),
    refetchInterval: run && isActive(run) ? 1000 : false,
  });
  if (run === undefined) return { spans: [] };
  if (recorded) return timelineOfEvents(events, run.run_id);
  return endOf(timelineOfCheckpoints(states.data ?? []), run);
}

/** A failed or cancelled run has no checkpoint at its end. */
function endOf(timeline: Timeline, run: StoredRun): Timeline {
  if (isActive(run)) return timeline;
  const end = Math.max(timeline.end ?? 0, Date.parse(run.updated_at));
  const spans = timeline.spans.map((span) => ({
    ...span, end: span.end ?? end, status: span.status === "running" ? ("interrupted" as const) : span.status,
  }));
  return { ...timeline, end, spans };
}

function useThreadEvents(run: StoredRun | undefined): ThreadEvent[] {
  const queries = useQueryClient();
  const [read, setRead] = useState<{ runId: string; events: ThreadEvent[] }>({ runId: "", events: [] });
  const threadId = run?.thread_id;
  const runId = run?.run_id;
  useEffect(() => {
    if (threadId === undefined || runId === undefined) return;
    const stop = new AbortController();
    const isStopped = () => stop.signal.aborted;
    void (async () => {
      const events: ThreadEvent[] = [];
      let isPlanned = false;
      const show = () => {
        isPlanned = false;
        setRead({ runId, events: [...events] });
      };
      while (!isStopped()) {
        try {
          for await (const event of readThreadEvents(threadId, events.at(-1)?.seq ?? 0, stop.signal)) {
            events.push(event);
            if (!isPlanned) requestAnimationFrame(show);
            isPlanned = true;
            if (isEndOf(event, runId)) {
              void queries.invalidateQueries({ queryKey: ["run", threadId, runId] });
              // The result of an interrupted node follows.
              setTimeout(() => stop.abort(), GRACE_MS);
            }
          }
        } catch (error) {
          // Otherwise the connection was cut.
          if (isStopped() || errorStatus(error) !== undefined) return;
        }
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    })();
    return () => stop.abort();
  }, [threadId, runId, queries]);
  return read.runId === runId ? read.events : [];
}

function isEndOf(event: ThreadEvent, runId: string): boolean {
  return event.event_id.startsWith(`synth:${runId}:lc||`) && event.params.data["event"] !== "running";
}
