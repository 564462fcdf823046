/** Crons: scheduled runs. */
import type { Client, Cron } from "@langchain/langgraph-sdk";
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";

import { langgraph, useAssistantNames, useAssistants, useChange } from "../client";
import {
  Ago, CheckBox, DeleteButton, DialogButton, Empty, ErrorBox, Head, JsonSection, Loaded, path, SchemaInput, shortId,
} from "../ui";

const MAX_CRONS = 200;

export default function CronsPage() {
  const nameOf = useAssistantNames();
  const query = useQuery({
    queryKey: ["crons"],
    queryFn: () => langgraph().crons.search({ limit: MAX_CRONS, sortBy: "created_at", sortOrder: "desc" }),
    refetchInterval: 10_000,
  });
  return (
    <div className="page">
      <Head title="Crons">
        <DialogButton kind="primary" title="New cron">{(close) => <NewCron onDone={close} />}</DialogButton>
      </Head>
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

type Values = NonNullable<Parameters<Client["crons"]["create"]>[1]> & { assistant: string; thread?: string };

const EXAMPLE: Partial<Values> = {
  schedule: "0 9 * * *",
  timezone: Intl.DateTimeFormat().resolvedOptions().timeZone,
  input: { messages: [{ role: "user", content: "What is due today?" }] },
};

function schemaOf(assistants: { assistant_id: string; name: string }[]): object {
  return {
    type: "object",
    required: ["assistant", "schedule", "timezone"],
    properties: {
      assistant: { type: "string", title: "Assistant", oneOf: assistants.map((each) => ({ const: each.assistant_id, title: each.name })) },
      schedule: { type: "string", title: "Schedule: minute, hour, day, month, day of week" },
      timezone: { type: "string", title: "Time zone", examples: ["UTC", ...Intl.supportedValuesOf("timeZone")] },
      thread: { type: "string", title: "Thread (empty: a new one for each run)" },
      onRunCompleted: { title: "New threads of ended runs", enum: ["delete", "keep"], default: "delete" },
      input: { type: "object", title: "Input of each run" },
    },
  };
}

function NewCron({ onDone }: { onDone: () => void }) {
  const create = useChange(async (values: unknown) => {
    const { assistant, thread, onRunCompleted = "delete", ...payload } = values as Values;
    const { crons } = langgraph();
    if (thread) await crons.createForThread(thread, assistant, payload);
    else await crons.create(assistant, { ...payload, onRunCompleted });
  }, ["crons"], onDone);
  return (
    <Loaded query={useAssistants()} what="the assistants">
      {(assistants) => (
        <SchemaInput label="Settings" schema={schemaOf(assistants)} uiSchema={{ input: { "ui:field": "json" } }}
          value={{ assistant: assistants[0]?.assistant_id, ...EXAMPLE }} submit="Create the cron" isDisabled={create.isPending}
          error={create.error} onSubmit={create.mutate} />
      )}
    </Loaded>
  );
}
