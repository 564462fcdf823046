/** Script jobs: runs of the assistant script_writer, each on its own thread. The path is /scripts/THREAD. */
import type { Run } from "@langchain/langgraph-sdk";
import { useQuery } from "@tanstack/react-query";
import { Link, useLocation } from "wouter";

import { isActive, langgraph, textIn, useChange, useLastRun, useThreads } from "../client";
import {
  Ago, Button, CopyButton, DeleteButton, Empty, ErrorBox, Facts, Head, Loaded, NavList, path, SchemaInput, SplitPage, usePath,
} from "../ui";

const GRAPH = "script_writer";
const MAX_JOBS = 50;

interface Script {
  title: string;
  description: string;
  sections: { title: string; narrations: { text: string; persona_id?: string | null }[]; slide_prompt: string | null }[];
}

export default function ScriptsPage() {
  const [open] = usePath();
  return (
    <SplitPage title="Script jobs" label="Job" actions={open !== undefined && <Link href="/scripts">New job</Link>} list={
      <Loaded query={useThreads(MAX_JOBS, { graph_id: GRAPH })} what="the jobs">
        {(threads) => (
          <NavList limit={MAX_JOBS} empty="No job yet." items={threads.map(({ thread_id: id, status, metadata, updated_at: time }) => ({
            href: path("scripts", id), title: textIn(metadata?.["url"]).replace(/^https?:\/\//, "") || id, hint: <Ago time={time} />,
            status: status === "idle" ? "success" : status, isOpen: id === open,
          }))} />
        )}
      </Loaded>
    }>
      {open === undefined ? <NewJob /> : <Job key={open} id={open} />}
    </SplitPage>
  );
}

async function startJob(values: unknown): Promise<string> {
  const input = values as { url: string; language?: string };
  const client = langgraph();
  const { thread_id: id } = await client.threads.create({ graphId: GRAPH, metadata: { url: input.url } });
  await client.runs.create(id, GRAPH, { input });
  return id;
}

const JOB_SCHEMA = {
  type: "object",
  required: ["url"],
  properties: {
    url: { type: "string", title: "Address of the page", pattern: "^https?://." },
    language: { type: "string", title: "Language (the page’s if empty)" },
  },
};

function NewJob() {
  const [, navigate] = useLocation();
  const start = useChange(startJob, ["threads"], (id) => navigate(path("scripts", id)));
  return (
    <>
      <Head title="New job" level={2} />
      <p className="muted">The script writer reads a web page and writes the script of a narrated video.</p>
      <SchemaInput label="Page" schema={JOB_SCHEMA} submit="Start the job" isDisabled={start.isPending} error={start.error}
        onSubmit={start.mutate} />
    </>
  );
}

function Job({ id }: { id: string }) {
  const [, navigate] = useLocation();
  const query = useLastRun(id);
  const cancel = useChange((runId: string) => langgraph().runs.cancel(id, runId, true), ["threads", "run"]);
  return (
    <Loaded query={query} what="the job">
      {(run) => (
        <>
          <Head title="Job" level={2} status={run?.status}>
            {run && isActive(run) && <Button disabled={cancel.isPending} onClick={() => cancel.mutate(run.run_id)}>Cancel</Button>}
            <DeleteButton what="the job" changed={["threads"]} onDelete={() => langgraph().threads.delete(id)}
              onDone={() => navigate("/scripts")} />
          </Head>
          <ErrorBox error={cancel.error} />
          {run === null ? <Empty title="This job has no run"><p>Start a new one.</p></Empty> : <RunState run={run} />}
        </>
      )}
    </Loaded>
  );
}

function RunState({ run }: { run: Run }) {
  const metadata = (run.metadata ?? {}) as { progress?: { percent: number; message: string }; error?: string };
  const { percent = 0, message = "The job waits for its turn." } = metadata.progress ?? {};
  return (
    <>
      <Facts facts={{ Started: <Ago time={run.created_at} />, Progress: `${Math.round(percent)} %` }} />
      {isActive(run) && (
        <div className="stack" role="status">
          <progress max={100} value={percent} aria-label="Progress of the job" />
          <p>{message}</p>
        </div>
      )}
      {metadata.error !== undefined && <p className="error-box">{metadata.error}</p>}
      {run.status === "interrupted" && <p className="muted">The job was cancelled.</p>}
      {run.status === "success" && <Result threadId={run.thread_id} runId={run.run_id} />}
    </>
  );
}

interface JobValues {
  script?: Script;
  source?: { url: string; title: string };
}

function Result({ threadId, runId }: { threadId: string; runId: string }) {
  const query = useQuery({
    queryKey: ["script-result", threadId, runId],
    queryFn: async () => (await langgraph().threads.getState<JobValues>(threadId)).values,
    staleTime: Infinity,
  });
  return (
    <Loaded query={query} what="the script">
      {({ script, source }) => (
        <>
          {source && (
            <p>From <a href={source.url} target="_blank" rel="noreferrer noopener">{source.title || source.url}</a></p>
          )}
          {script === undefined ? <Empty title="The job wrote no script" /> : <ScriptView script={script} />}
        </>
      )}
    </Loaded>
  );
}

function ScriptView({ script }: { script: Script }) {
  const name = script.title.toLowerCase().replace(/[^\p{Letter}\p{Number}]+/gu, "-").slice(0, 60);
  const text = scriptText(script);
  const json = JSON.stringify(script, null, 2);
  return (
    <article className="stack" aria-label="Script">
      <Head title={script.title} level={2}>
        <CopyButton text={text} />
        <a className="button" href={addressOf(text, "text/plain")} download={`${name}.txt`}>Save as text</a>
        <a className="button" href={addressOf(json, "application/json")} download={`${name}.json`}>Save as JSON</a>
      </Head>
      <p className="muted">{script.description}</p>
      {script.sections.map((section, index) => (
        <section key={index} className="card">
          <h3>{index + 1}. {section.title}</h3>
          {section.narrations.map((narration, line) => (
            <p key={line} className="prose">
              {narration.persona_id ? <strong>{narration.persona_id}: </strong> : null}{narration.text}
            </p>
          ))}
          {section.slide_prompt !== null && <p className="hint">Slide: {section.slide_prompt}</p>}
        </section>
      ))}
    </article>
  );
}

function scriptText(script: Script): string {
  const sections = script.sections.map((section) => {
    const lines = section.narrations.map(({ persona_id: persona, text }) => (persona ? `${persona}: ${text}` : text));
    return [section.title, ...lines, ...(section.slide_prompt === null ? [] : [`[Slide: ${section.slide_prompt}]`])].join("\n\n");
  });
  return [script.title, script.description, ...sections].join("\n\n\n");
}

function addressOf(text: string, type: string): string {
  return `data:${type};charset=utf-8,${encodeURIComponent(text)}`;
}
