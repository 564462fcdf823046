/** Crons: scheduled runs. */
import type { Cron } from "@langchain/langgraph-sdk";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";

import type { Json } from "../client/json";
import { useAssistantNames, useAssistants, useChange } from "../client/queries";
import { langgraph } from "../client/server";
import {
  Ago, Button, CheckBox, DeleteButton, Dialog, Empty, ErrorBox, Form, Head, JsonEditor, JsonSection, Loaded, path, Select,
  shortId, TextField,
} from "../ui";

const MAX_CRONS = 200;
const TIME_ZONES = ["UTC", ...Intl.supportedValuesOf("timeZone")];
const EXAMPLE: unknown = { messages: [{ role: "user", content: "What is due today?" }] };

export default function CronsPage() {
  const [isOpen, setOpen] = useState(false);
  const nameOf = useAssistantNames();
  const query = useQuery({
    queryKey: ["crons"],
    queryFn: () => langgraph().crons.search({ limit: MAX_CRONS, sortBy: "created_at", sortOrder: "desc" }),
    refetchInterval: 10_000,
  });
  return (
    <div className="page">
      <Head title="Crons"><Button kind="primary" onClick={() => setOpen(true)}>New cron</Button></Head>
      <Dialog title="New cron" isOpen={isOpen} onClose={() => setOpen(false)}><NewCron onDone={() => setOpen(false)} /></Dialog>
      <Loaded query={query} what="the crons">
        {(crons) => (crons.length === 0
          ? <Empty title="No crons"><p>A cron starts a run at scheduled times. Create one with “New cron”.</p></Empty>
          : crons.map((cron) => <CronCard key={cron.cron_id} cron={cron} assistant={nameOf(cron.assistant_id)} />))}
      </Loaded>
      {query.data?.length === MAX_CRONS && <p className="hint">Only the newest {MAX_CRONS} are listed.</p>}
    </div>
  );
}

function CronCard({ cron, assistant }: { cron: Cron; assistant: string }) {
  const enable = useChange((enabled: boolean) => langgraph().crons.update(cron.cron_id, { enabled }), ["crons"]);
  const { next_run_date: next, thread_id: thread } = cron;
  return (
    <article className="card" aria-label={`${assistant}, ${cron.schedule}`}>
      <Head title={assistant} level={2} hint={<><code>{cron.schedule}</code> {cron.timezone ?? "UTC"}</>}>
        <CheckBox label="Enabled" role="switch" disabled={enable.isPending} onChange={enable.mutate}
          value={enable.isPending ? enable.variables : cron.enabled} />
        <DeleteButton what={`the cron ${cron.schedule}`} changed={["crons"]} onDelete={() => langgraph().crons.delete(cron.cron_id)} />
      </Head>
      <ErrorBox error={enable.error} />
      <p className="muted">
        {cron.enabled && next ? <>Next run <Ago time={next} />, {new Date(next).toLocaleString()}. </> : "No next run. "}
        {thread
          ? <>On thread <Link href={path("chat", thread)} className="mono">{shortId(thread)}</Link>.</>
          : `Each run has a new thread, which is ${cron.on_run_completed === "keep" ? "kept" : "deleted afterwards"}.`}
      </p>
      <JsonSection label="Input" value={cron.payload["input"]} isFolded />
    </article>
  );
}

function NewCron({ onDone }: { onDone: () => void }) {
  const assistants = useAssistants();
  const [assistantId, setAssistantId] = useState("");
  const [schedule, setSchedule] = useState("0 9 * * *");
  const [timezone, setTimezone] = useState(Intl.DateTimeFormat().resolvedOptions().timeZone);
  const [threadId, setThreadId] = useState("");
  const [isKept, setKept] = useState(false);
  const [input, setInput] = useState(EXAMPLE);
  const chosen = assistantId || (assistants.data?.[0]?.assistant_id ?? "");
  const create = useChange(async () => {
    const payload = { schedule, timezone, input: input as Json };
    const { crons } = langgraph();
    if (threadId !== "") await crons.createForThread(threadId, chosen, payload);
    else await crons.create(chosen, { ...payload, onRunCompleted: isKept ? "keep" : "delete" });
  }, ["crons"], onDone);
  return (
    <Form submit="Create the cron" isDisabled={create.isPending || input === undefined || chosen === ""}
      error={assistants.error ?? create.error} onSubmit={create.mutate}>
      <Select label="Assistant" value={chosen} onChange={setAssistantId}
        options={(assistants.data ?? []).map((each) => [each.assistant_id, each.name])} />
      <TextField label="Schedule: minute, hour, day, month, day of week" required className="mono" value={schedule} onChange={setSchedule} />
      <TextField label="Time zone" required list="time-zones" value={timezone} onChange={setTimezone} />
      <datalist id="time-zones">{TIME_ZONES.map((zone) => <option key={zone} value={zone} />)}</datalist>
      <TextField label="Thread (empty: a new one for each run)" className="mono" value={threadId} onChange={setThreadId} />
      {threadId === "" && <CheckBox label="Keep the threads of ended runs" value={isKept} onChange={setKept} />}
      <JsonEditor label="Input of each run" rows={6} value={EXAMPLE} onChange={setInput} />
    </Form>
  );
}
