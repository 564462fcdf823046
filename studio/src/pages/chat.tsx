/** Chat with an assistant. The address has the thread, and as parameters the assistant and the branch that is shown. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation, useRoute, useSearchParams } from "wouter";

import "../chat/chat.css";
import { Conversation } from "../chat/conversation";
import { ThreadList } from "../chat/threads";
import { readThread } from "../chat/use_thread";
import { langgraph } from "../client/server";
import { Button } from "../ui/button";
import { Empty, ErrorBox, Loaded, Loading } from "../ui/states";

const MAX_ASSISTANTS = 200;

export default function ChatPage() {
  const [, params] = useRoute("/chat/:threadId?");
  const [search, setSearch] = useSearchParams();
  const [, navigate] = useLocation();
  const [isListOpen, setListOpen] = useState(false);
  const threadId = params?.threadId;
  const named = search.get("assistant");
  const thread = useQuery({
    queryKey: ["thread", threadId],
    queryFn: () => readThread(langgraph(), threadId ?? ""),
    enabled: threadId !== undefined && named === null,
  });
  const assistants = useQuery({
    queryKey: ["assistants", "chat"],
    queryFn: () => langgraph().assistants.search({ limit: MAX_ASSISTANTS, sortBy: "name", sortOrder: "asc" }),
  });
  const wanted = named ?? thread.data?.assistantId;
  const assistant = assistants.data?.find((each) => each.assistant_id === wanted || each.graph_id === wanted) ?? assistants.data?.[0];
  const assistantId = assistant?.assistant_id;
  const schemas = useQuery({
    queryKey: ["schemas", assistantId],
    queryFn: () => langgraph().assistants.getSchemas(assistantId ?? ""),
    enabled: assistantId !== undefined,
    staleTime: Infinity,
  });
  const choose = (id: string) => setSearch((before) => {
    before.set("assistant", id);
    return before;
  });
  const view = (checkpoint: string | undefined) => setSearch((before) => {
    if (checkpoint === undefined) before.delete("checkpoint");
    else before.set("checkpoint", checkpoint);
    return before;
  });
  const isUnknown = threadId !== undefined && named === null && thread.isError;
  const isLoading = threadId !== undefined && named === null && thread.isPending;
  return (
    <div className="chat">
      <aside className={isListOpen ? "is-open" : ""} aria-label="Threads">
        <Link className="button primary new-chat" onClick={() => setListOpen(false)}
          href={`/chat${assistantId === undefined ? "" : `?assistant=${assistantId}`}`}>
          New chat
        </Link>
        <ThreadList current={threadId} onOpen={() => setListOpen(false)} />
      </aside>
      <section className="conversation">
        <header className="chat-head">
          <h1>Chat</h1>
          <Button className="list-toggle" aria-expanded={isListOpen} onClick={() => setListOpen(!isListOpen)}>Threads</Button>
          <select aria-label="Assistant" value={assistantId ?? ""} onChange={(event) => choose(event.target.value)}>
            {assistants.data?.map((each) => <option key={each.assistant_id} value={each.assistant_id}>{each.name}</option>)}
          </select>
          <span className="hint cut grow" title={assistant?.description}>{assistant?.description}</span>
        </header>
        {isUnknown && <div className="stack chat-problem"><ErrorBox error={thread.error} onRetry={() => void thread.refetch()} /></div>}
        {isLoading && <Loading what="the thread" />}
        {assistants.data?.length === 0 && <Empty title="No assistants"><p>Add a graph to langgraph.json and start the server again.</p></Empty>}
        {assistants.isError && <ErrorBox error={assistants.error} onRetry={() => void assistants.refetch()} />}
        {!isUnknown && !isLoading && assistant && (
          <Loaded query={schemas} what="the assistant">
            {({ input_schema: inputSchema }) => (
              <Conversation threadId={threadId} inputSchema={inputSchema ?? {}}
                assistantId={assistant.assistant_id} assistantName={assistant.name}
                viewed={search.get("checkpoint") ?? undefined} onView={view}
                onThread={(id) => navigate(`/chat/${id}?assistant=${assistant.assistant_id}`, { replace: threadId !== undefined })} />
            )}
          </Loaded>
        )}
      </section>
    </div>
  );
}
