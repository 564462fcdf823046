/** Script jobs: runs of the assistant script_writer, each on its own thread. The path is /scripts/THREAD. */
import type { Run, Thread } from "@langchain/langgraph-sdk";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation } from "wouter";

import { DeleteButton, Facts, ListHead, path, submitTo, TextField, useChange, usePath } from "../admin/parts";
import { langgraph } from "../client/server";
import { ScriptView, type VideoScript } from "../scripts/script";
import { Badge } from "../ui/badge";
import { Button } from "../ui/button";
import { Empty, ErrorBox, Loaded } from "../ui/states";
import { Ago } from "../ui/time";

const GRAPH = "script_writer";
const MAX_JOBS = 50;
const PROGRESS_INTERVAL_MS = 1000;

interface JobMetadata {
  progress?: { percent: number; message: string };
  error?: string;
}

export default function ScriptsPage() {
  const [open] = usePath();
  const query = useQuery({
    queryKey: ["scripts"],
    queryFn: () => langgraph().threads.search({
      metadata: { graph_id: GRAPH }, limit: MAX_JOBS, sortBy: "created_at", sortOrder: "desc",
      select: ["thread_id", "created_at", "status", "metadata"],
    }),
    refetchInterval: (state) => (state.state.data?.some((thread) => thread.status === "busy") ? PROGRESS_INTERVAL_MS : false),
  });
  return (
    <div className="split">
      <aside aria-label="Script jobs">
        <ListHead title="Script jobs">{open !== undefined && <Link href="/scripts">New job</Link>}</ListHead>
        <Loaded query={query} what="the jobs">{(threads) => <JobList threads={threads} open={open} />}</Loaded>
      </aside>
      <section aria-label="Job">
        <div className="page">{open === undefined ? <NewJob /> : <Job key={open} id={open} />}</div>
      </section>
    </div>
  );
}

function JobList({ threads, open }: { threads: Thread[]; open: string | undefined }) {
  if (threads.length === 0) return <p className="muted">No job yet.</p>;
  return (
    <ul className="list">
      {threads.map((thread) => (
        <li key={thread.thread_id}>
          <Link href={path("scripts", thread.thread_id)} aria-current={thread.thread_id === open ? "page" : undefined}>
            <span className="entry">
              <span className="cut">{jobName(thread)}</span>
              <span className="row between">
                <small><Ago time={thread.created_at} /></small>
                <Badge status={thread.status === "idle" ? "success" : thread.status} />
              </span>
            </span>
          </Link>
        </li>
      ))}
    </ul>
  );
}

function jobName(thread: Thread): string {
  const url = thread.metadata?.["url"];
  return typeof url === "string" ? url.replace(/^https?:\/\//, "") : thread.thread_id;
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
  const start = useChange(startJob, "scripts", (id) => navigate(path("scripts", id)));
  return (
    <form className="stack" onSubmit={submitTo(() => start.mutate({ url, language }))}>
      <h2>New job</h2>
      <p className="muted">The script writer reads a web page and writes the script of a narrated video.</p>
      <TextField label="Address of the page" type="url" required pattern="https?://.+" placeholder="https://example.org/article" value={url} onChange={setUrl} />
      <TextField label="Language (the page’s if empty)" placeholder="German" value={language} onChange={setLanguage} />
      {start.isError && <ErrorBox error={start.error} />}
      <div><Button kind="primary" type="submit" disabled={start.isPending}>Start the job</Button></div>
    </form>
  );
}

function isActive(run: Run | undefined): boolean {
  return run?.status === "pending" || run?.status === "running";
}

function Job({ id }: { id: string }) {
  const [, navigate] = useLocation();
  const query = useQuery({
    queryKey: ["scripts", id],
    queryFn: async () => (await langgraph().runs.list(id, { limit: 1 }))[0] ?? null,
    refetchInterval: (state) => (isActive(state.state.data ?? undefined) ? PROGRESS_INTERVAL_MS : false),
  });
  const cancel = useChange((runId: string) => langgraph().runs.cancel(id, runId, true), "scripts");
  return (
    <Loaded query={query} what="the job">
      {(run) => (
        <>
          <div className="row between">
            <h2>Job</h2>
            <div className="row">
              {run !== null && isActive(run) && <Button disabled={cancel.isPending} onClick={() => cancel.mutate(run.run_id)}>Cancel</Button>}
              <DeleteButton what="the job" changed="scripts" onDelete={() => langgraph().threads.delete(id)} onDone={() => navigate("/scripts")} />
            </div>
          </div>
          {cancel.isError && <ErrorBox error={cancel.error} />}
          {run === null ? <Empty title="This job has no run"><p>Start a new one.</p></Empty> : <RunState run={run} />}
        </>
      )}
    </Loaded>
  );
}

function RunState({ run }: { run: Run }) {
  const { progress, error } = (run.metadata ?? {}) as JobMetadata;
  const percent = progress?.percent ?? 0;
  return (
    <>
      <Facts
        facts={[
          ["Status", <Badge key="status" status={run.status} />],
          ["Started", <Ago key="started" time={run.created_at} />],
          ["Progress", `${Math.round(percent)} %`],
        ]}
      />
      {isActive(run) && (
        <div className="stack" role="status">
          <progress max={100} value={percent} aria-label="Progress of the job" />
          <p>{progress?.message ?? "The job waits for its turn."}</p>
        </div>
      )}
      {error !== undefined && <p className="error-box">{error}</p>}
      {run.status === "interrupted" && <p className="muted">The job was cancelled.</p>}
      {run.status === "success" && <Result threadId={run.thread_id} runId={run.run_id} />}
    </>
  );
}

function Result({ threadId, runId }: { threadId: string; runId: string }) {
  const query = useQuery({
    queryKey: ["script-result", threadId, runId],
    queryFn: async () => (await langgraph().threads.getState<{ script?: VideoScript; source?: { url: string; title: string } }>(threadId)).values,
    staleTime: Infinity,
  });
  return (
    <Loaded query={query} what="the script">
      {({ script, source }) => (
        <>
          {source !== undefined && <p>From <a href={source.url} target="_blank" rel="noreferrer noopener">{source.title || source.url}</a></p>}
          {script === undefined ? <Empty title="The job wrote no script" /> : <ScriptView script={script} />}
        </>
      )}
    </Loaded>
  );
}
