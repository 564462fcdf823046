/** The list of conversations: newest first, with search and deletion. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation } from "wouter";

import { langgraph } from "../client/server";
import { Badge } from "../ui/badge";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { ErrorBox, Loaded } from "../ui/states";
import { Ago } from "../ui/time";
import { textOf } from "./messages";

const MAX_THREADS = 200;
const REFRESH_MS = 5000;

interface Listed {
  id: string;
  title: string;
  status: string;
  updated: string;
}

async function listThreads(): Promise<Listed[]> {
  const threads = await langgraph().threads.search({
    limit: MAX_THREADS,
    sortBy: "updated_at",
    sortOrder: "desc",
    select: ["thread_id", "status", "updated_at", "metadata"],
    extract: { first: "values.messages[0].content" },
  });
  return threads.map((thread) => ({
    id: thread.thread_id,
    title: titleOf(thread.extracted?.["first"], thread.metadata),
    status: thread.status,
    updated: thread.updated_at,
  }));
}

function titleOf(first: unknown, metadata: unknown): string {
  const graph = (metadata as { graph_id?: string } | null)?.graph_id;
  return textOf(first).trim().slice(0, 120) || (Array.isArray(first) ? "Files" : graph ? `Run of ${graph}` : "Empty thread");
}

export function ThreadList({ current, onOpen }: { current: string | undefined; onOpen: () => void }) {
  const threads = useQuery({ queryKey: ["threads", "chat"], queryFn: listThreads, refetchInterval: REFRESH_MS });
  const [text, setText] = useState("");
  const [doomed, setDoomed] = useState<Listed>();
  const matches = (thread: Listed) => thread.title.toLowerCase().includes(text.trim().toLowerCase());
  return (
    <>
      <input type="search" aria-label="Search threads" placeholder="Search threads" value={text}
        onChange={(event) => setText(event.target.value)} />
      <Loaded query={threads} what="threads">
        {(all) => {
          const found = all.filter(matches);
          if (all.length === 0) return <p className="hint">Threads appear here once you have sent a message.</p>;
          if (found.length === 0) return <p className="hint" role="status">No thread contains “{text}”.</p>;
          return (
            <ul className="list thread-list" aria-label="Threads">
              {found.map((thread) => (
                <li key={thread.id}>
                  <Link href={`/chat/${thread.id}`} aria-current={thread.id === current ? "page" : undefined} onClick={onOpen}>
                    <span className="cut" title={thread.title}>{thread.title}</span>
                    <span className="row hint">
                      <Ago time={thread.updated} />
                      {thread.status !== "idle" && <Badge status={thread.status} />}
                    </span>
                  </Link>
                  <Button kind="quiet" aria-label={`Delete ${thread.title}`} onClick={() => setDoomed(thread)}>×</Button>
                </li>
              ))}
              {all.length === MAX_THREADS && <li className="hint">The newest {MAX_THREADS} threads.</li>}
            </ul>
          );
        }}
      </Loaded>
      <DeleteDialog thread={doomed} current={current} onClose={() => setDoomed(undefined)} />
    </>
  );
}

function DeleteDialog({ thread, current, onClose }: { thread: Listed | undefined; current: string | undefined; onClose: () => void }) {
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const [error, setError] = useState<unknown>();
  const close = () => {
    setError(undefined);
    onClose();
  };
  const remove = async (id: string) => {
    try {
      await langgraph().threads.delete(id);
      if (id === current) navigate("/chat");
      await queries.invalidateQueries({ queryKey: ["threads"] });
      close();
    } catch (problem) {
      setError(problem);
    }
  };
  return (
    <Dialog title="Delete thread" isOpen={thread !== undefined} onClose={close}>
      <p>“{thread?.title}” is deleted with all its checkpoints. This cannot be undone.</p>
      {error !== undefined && <ErrorBox error={error} />}
      <div className="row end">
        <Button onClick={close}>Keep it</Button>
        <Button kind="danger" onClick={() => thread && void remove(thread.id)}>Delete</Button>
      </div>
    </Dialog>
  );
}
