/** Chat with an assistant. The address has the thread, and as parameters the assistant and the branch that is shown. */
import { useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";

import { Conversation } from "../chat/conversation";
import { assistantOptions, langgraph, useAssistants, useSchemas, useThread, useThreads } from "../client";
import { Ago, Button, DeleteButton, Empty, ErrorBox, Head, Loaded, Loading, NavList, Select, usePath } from "../ui";

const THREADS = 200;

export default function ChatPage() {
  const [threadId] = usePath();
  const [search, setSearch] = useSearchParams();
  const [, navigate] = useLocation();
  const [isListOpen, setListOpen] = useState(false);
  const named = search.get("assistant");
  // A link from the chat itself names the assistant; other links say the thread only.
  const asked = named === null ? threadId : undefined;
  const thread = useThread(asked);
  const threads = useThreads(THREADS);
  const assistants = useAssistants();
  const wanted = named ?? thread.data?.assistantId;
  const all = assistants.data ?? [];
  const assistant = wanted === undefined ? all[0] : all.find((each) => [each.assistant_id, each.graph_id].includes(wanted));
  const isMissing = all.length > 0 && assistant === undefined;
  const assistantId = assistant?.assistant_id;
  const schemas = useSchemas(assistantId);
  const setParameter = (name: string, value: string | undefined) => setSearch((before) => {
    if (value === undefined) before.delete(name);
    else before.set(name, value);
    return before;
  });
  return (
    <div className="split chat">
      <aside className={isListOpen ? "is-open" : ""} aria-label="Threads">
        <Link className="button primary" onClick={() => setListOpen(false)}
          href={`/chat${assistantId === undefined ? "" : `?assistant=${assistantId}`}`}>
          New chat
        </Link>
        <Loaded query={threads} what="threads">
          {(found) => (
            <NavList label="Threads" search="Search threads" query={threads} onOpen={() => setListOpen(false)}
              empty="Threads appear here once you have sent a message." items={found.map(({ thread_id: id, title, status, ...rest }) => ({
                href: `/chat/${id}`, title, hint: <Ago time={rest.updated_at} />, isOpen: id === threadId,
                ...(status === "idle" ? {} : { status }),
                action: (
                  <DeleteButton what={title} kind="quiet" text="×" changed={["threads"]} onDelete={() => langgraph().threads.delete(id)}
                    onDone={() => { if (id === threadId) navigate("/chat"); }} />
                ),
              }))} />
          )}
        </Loaded>
      </aside>
      <section className="conversation">
        <div className="bar stack">
          <Head title="Chat" hint={assistant?.description}>
            <Button className="list-toggle" aria-expanded={isListOpen} onClick={() => setListOpen(!isListOpen)}>Threads</Button>
            <Select label="Assistant" className="inline" value={assistantId ?? ""} onChange={(id) => setParameter("assistant", id)}
              options={[...(isMissing ? [["", "Choose an assistant"] as const] : []), ...assistantOptions(all)]} />
          </Head>
          <ErrorBox error={thread.data ? undefined : thread.error} onRetry={() => void thread.refetch()} />
          <ErrorBox error={assistants.error} onRetry={() => void assistants.refetch()} />
        </div>
        {asked !== undefined && thread.isPending && <Loading what="the thread" />}
        {assistants.isSuccess && all.length === 0 && (
          <Empty title="No assistants"><p>Add a graph to langgraph.json and start the server again.</p></Empty>
        )}
        {isMissing && (
          <Empty title="No such assistant">
            <p>The assistant {wanted} does not exist. It may have been deleted. Choose another one above to continue.</p>
          </Empty>
        )}
        {(asked === undefined || thread.data) && assistant && (
          <Loaded query={schemas} what="the assistant">
            {({ input_schema: inputSchema }) => (
              <Conversation threadId={threadId} assistant={assistant} inputSchema={inputSchema ?? {}}
                viewed={search.get("checkpoint") ?? undefined} onView={(checkpoint) => setParameter("checkpoint", checkpoint)}
                onThread={(id) => navigate(`/chat/${id}?assistant=${assistant.assistant_id}`, { replace: threadId !== undefined })} />
            )}
          </Loaded>
        )}
      </section>
    </div>
  );
}
