/** Script jobs: runs of the assistant script_writer, each on its own thread. The path is /scripts/THREAD. */
import type { Run, Thread } from "@langchain/langgraph-sdk";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation } from "wouter";

import { useChange } from "../client/queries";
import { isActive } from "../client/protocol";
import { langgraph } from "../client/server";
import {
  Ago, Button, CopyButton, DeleteButton, Empty, ErrorBox, Facts, Form, Head, Loaded, NavList, path, SplitPage,
  TextField, usePath,
} from "../ui";

const GRAPH = "script_writer";
const MAX_JOBS = 50;
const PROGRESS_INTERVAL_MS = 1000;

interface Script {
  title: string;
  description: string;
  sections: { title: string; narrations: { text: string; persona_id?: string | null }[]; slide_prompt: string | null }[];
}

export default function ScriptsPage() {
  const [open] = usePath();
  const query = useQuery({
    queryKey: ["scripts"],
    queryFn: () => langgraph().threads.search({
      metadata: { graph_id: GRAPH }, limit: MAX_JOBS, sortBy: "created_at", sortOrder: "desc",
      select: ["thread_id", "created_at", "status", "metadata"],
    }),
    refetchInterval: ({ state }) => (state.data?.some(({ status }) => status === "busy") ? PROGRESS_INTERVAL_MS : false),
  });
  const itemOf = ({ thread_id: id, status, metadata, created_at: time }: Thread) => {
    const url = metadata?.["url"];
    return {
      href: path("scripts", id), title: typeof url === "string" ? url.replace(/^https?:\/\//, "") : id,
      hint: <Ago time={time} />, status: status === "idle" ? "success" : status, isOpen: id === open,
    };
  };
  return (
    <SplitPage title="Script jobs" label="Job" actions={open !== undefined && <Link href="/scripts">New job</Link>} list={
      <Loaded query={query} what="the jobs">
        {(threads) => <NavList items={threads.map(itemOf)} limit={MAX_JOBS} empty="No job yet." />}
      </Loaded>
    }>
      {open === undefined ? <NewJob /> : <Job key={open} id={open} />}
    </SplitPage>
  );
}

async function startJob({ url, language }: { url: string; language: string }): Promise<string> {
  const client = langgraph();
  const { thread_id: id } = await client.threads.create({ graphId: GRAPH, metadata: { url } });
  await client.runs.create(id, GRAPH, { input: { url, language: language === "" ? null : language } });
  return id;
}

function NewJob() {
  const [, navigate] = useLocation();
  const [url, setUrl] = useState("");
  const [language, setLanguage] = useState("");
  const start = useChange(startJob, ["scripts"], (id) => navigate(path("scripts", id)));
  return (
    <>
      <Head title="New job" level={2} />
      <p className="muted">The script writer reads a web page and writes the script of a narrated video.</p>
      <Form submit="Start the job" isDisabled={start.isPending} error={start.error}
        onSubmit={() => start.mutate({ url, language })}>
        <TextField label="Address of the page" type="url" required pattern="https?://.+" value={url} onChange={setUrl}
          placeholder="https://example.org/article" />
        <TextField label="Language (the page’s if empty)" placeholder="German" value={language} onChange={setLanguage} />
      </Form>
    </>
  );
}

function Job({ id }: { id: string }) {
  const [, navigate] = useLocation();
  const query = useQuery({
    queryKey: ["scripts", id],
    queryFn: async () => (await langgraph().runs.list(id, { limit: 1 }))[0] ?? null,
    refetchInterval: ({ state }) => (state.data && isActive(state.data) ? PROGRESS_INTERVAL_MS : false),
  });
  const cancel = useChange((runId: string) => langgraph().runs.cancel(id, runId, true), ["scripts"]);
  return (
    <Loaded query={query} what="the job">
      {(run) => (
        <>
          <Head title="Job" level={2} status={run?.status}>
            {run && isActive(run) && <Button disabled={cancel.isPending} onClick={() => cancel.mutate(run.run_id)}>Cancel</Button>}
            <DeleteButton what="the job" changed={["scripts"]} onDelete={() => langgraph().threads.delete(id)}
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
  return (
    <article className="stack" aria-label="Script">
      <Head title={script.title} level={2}>
        <CopyButton text={text} />
        <Button onClick={() => download(`${name}.txt`, text, "text/plain")}>Save as text</Button>
        <Button onClick={() => download(`${name}.json`, JSON.stringify(script, null, 2), "application/json")}>Save as JSON</Button>
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

/** Save a text as a file; nothing is sent anywhere. */
function download(name: string, text: string, type: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
