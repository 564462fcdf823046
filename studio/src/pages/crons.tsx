/** Crons: scheduled runs. */
import type { Cron } from "@langchain/langgraph-sdk";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";

import { DeleteButton, path, useChange } from "../admin/parts";
import { langgraph } from "../client/server";
import { CronEditor } from "../crons/editor";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { JsonView } from "../ui/json";
import { Empty, ErrorBox, Loaded } from "../ui/states";
import { Ago } from "../ui/time";

const PAGE_SIZE = 200;

export default function CronsPage() {
  const [isOpen, setOpen] = useState(false);
  const query = useQuery({
    queryKey: ["crons"],
    queryFn: () => langgraph().crons.search({ limit: PAGE_SIZE, sortBy: "created_at", sortOrder: "desc" }),
    refetchInterval: 10_000,
  });
  const names = useQuery({
    queryKey: ["assistants", "all"],
    queryFn: () => langgraph().assistants.search({ limit: 1000, sortBy: "name", sortOrder: "asc" }),
  });
  const nameOf = (id: string) => names.data?.find((each) => each.assistant_id === id)?.name ?? id;
  return (
    <div className="page">
      <div className="row between"><h1>Crons</h1><Button kind="primary" onClick={() => setOpen(true)}>New cron</Button></div>
      <Dialog title="New cron" isOpen={isOpen} onClose={() => setOpen(false)}><CronEditor onSaved={() => setOpen(false)} /></Dialog>
      <Loaded query={query} what="the crons">
        {(crons) => (crons.length === 0
          ? <Empty title="No crons"><p>A cron starts a run at scheduled times. Create one with “New cron”.</p></Empty>
          : <ul className="list stack">{crons.map((cron) => <li key={cron.cron_id}><CronCard cron={cron} assistant={nameOf(cron.assistant_id)} /></li>)}</ul>)}
      </Loaded>
      {query.data?.length === PAGE_SIZE && <p className="hint">Only the newest {PAGE_SIZE} are listed.</p>}
    </div>
  );
}

function CronCard({ cron, assistant }: { cron: Cron; assistant: string }) {
  const enable = useChange((enabled: boolean) => langgraph().crons.update(cron.cron_id, { enabled }), "crons");
  const keeps = cron.on_run_completed === "keep";
  return (
    <article className="card" aria-label={`${assistant}, ${cron.schedule}`}>
      <div className="row between">
        <span className="row"><strong>{assistant}</strong> <code>{cron.schedule}</code> <span className="muted">{cron.timezone ?? "UTC"}</span></span>
        <span className="row">
          <label className="inline">
            <input type="checkbox" role="switch" checked={enable.isPending ? enable.variables : cron.enabled} disabled={enable.isPending} onChange={(event) => enable.mutate(event.target.checked)} />
            Enabled
          </label>
          <DeleteButton what={`the cron ${cron.schedule}`} changed="crons" onDelete={() => langgraph().crons.delete(cron.cron_id)} />
        </span>
      </div>
      {enable.isError && <ErrorBox error={enable.error} />}
      <p className="muted">
        {cron.enabled && cron.next_run_date ? <>Next run <Ago time={cron.next_run_date} />, {new Date(cron.next_run_date).toLocaleString()}. </> : "No next run. "}
        {cron.thread_id
          ? <>On thread <Link href={path("chat", cron.thread_id)} className="mono">{cron.thread_id.slice(0, 8)}</Link>.</>
          : `Each run has a new thread, which is ${keeps ? "kept" : "deleted afterwards"}.`}
      </p>
      <details><summary>Input</summary><JsonView value={cron.payload["input"]} label="Input of each run" /></details>
    </article>
  );
}
