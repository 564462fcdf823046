/** The log of a server's recent calls; it has no arguments and no results. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";

import { CheckBox, path, RouteError, SearchField } from "../admin/parts";
import { request } from "../client/server";
import { Badge } from "../ui/badge";
import { Empty, Loading } from "../ui/states";
import { Ago, duration } from "../ui/time";
import type { RecentCall } from "./types";

export function CallLog({ server }: { server: string }) {
  const [text, setText] = useState("");
  const [isFailuresOnly, setFailuresOnly] = useState(false);
  const query = useQuery({
    queryKey: ["servers", server, "calls"],
    queryFn: ({ signal }) => request<RecentCall[]>(`/servers${path(server)}/calls`, { signal }),
    refetchInterval: 3000,
  });
  if (query.isError) return <RouteError error={query.error} what="recent calls" onRetry={() => void query.refetch()} />;
  if (query.data === undefined) return <Loading what="the calls" />;
  if (query.data.length === 0) return <Empty title="No calls yet"><p>Call a tool here, or start a run that uses one.</p></Empty>;
  const shown = query.data.filter(
    (call) => call.tool.toLowerCase().includes(text.toLowerCase()) && (!isFailuresOnly || call.outcome !== "ok"),
  );
  return (
    <div className="stack">
      <div className="row">
        <div className="grow"><SearchField label="Search by tool" value={text} onChange={setText} /></div>
        <CheckBox label="Failures only" checked={isFailuresOnly} onChange={setFailuresOnly} />
      </div>
      {shown.length === 0 ? <p className="muted">No call matches.</p> : <CallTable calls={shown} />}
    </div>
  );
}

function CallTable({ calls }: { calls: RecentCall[] }) {
  return (
    <div className="table-scroll" tabIndex={0} role="region" aria-label="Recent calls">
      <table>
        <thead>
          <tr><th>Time</th><th>Tool</th><th>Outcome</th><th>Duration</th><th>Retries</th><th>Thread</th><th>Caller</th></tr>
        </thead>
        <tbody>
          {calls.map((call, index) => (
            <tr key={`${call.time} ${index}`}>
              <td className="nowrap"><Ago time={call.time} /></td>
              <td className="mono">{call.tool}</td>
              <td><Badge status={call.outcome} />{call.reason !== "" && <div className="hint">{call.reason}</div>}</td>
              <td className="nowrap">{duration(call.duration_ms)}</td>
              <td>{call.retries}</td>
              <td>{call.thread_id === null ? "–" : <Link href={path("chat", call.thread_id)} className="mono">{call.thread_id.slice(0, 8)}</Link>}</td>
              <td>{call.caller ?? "–"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
