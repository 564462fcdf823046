/** Assistants: graphs with a configuration, in versions. The path is /assistants/ID, or /assistants/new. */
import type { Assistant } from "@langchain/langgraph-sdk";
import { useQuery } from "@tanstack/react-query";
import { useDeferredValue, useState } from "react";
import { Link, useLocation } from "wouter";

import { DeleteButton, Facts, ListHead, path, SearchField, usePath } from "../admin/parts";
import { AssistantEditor } from "../assistants/editor";
import { Versions } from "../assistants/versions";
import { langgraph } from "../client/server";
import { Empty, Loaded } from "../ui/states";
import { Ago } from "../ui/time";

const PAGE_SIZE = 100;
const NEW = "new";

export default function AssistantsPage() {
  const [open] = usePath();
  const [text, setText] = useState("");
  const name = useDeferredValue(text.trim());
  const query = useQuery({
    queryKey: ["assistants", "search", name],
    queryFn: () => langgraph().assistants.search({ ...(name === "" ? {} : { name }), limit: PAGE_SIZE, sortBy: "name", sortOrder: "asc" }),
    placeholderData: (previous) => previous,
  });
  return (
    <div className="split">
      <aside aria-label="Assistants">
        <ListHead title="Assistants"><Link href={path("assistants", NEW)}>New</Link></ListHead>
        <SearchField label="Search by name" value={text} onChange={setText} />
        <Loaded query={query} what="the assistants">{(assistants) => <AssistantList assistants={assistants} open={open} />}</Loaded>
      </aside>
      <section aria-label="Assistant">
        <div className="page">
          {open === undefined && <Empty title="No assistant chosen"><p>An assistant is a graph with a configuration. Choose one, or create one.</p></Empty>}
          {open === NEW && <NewAssistant />}
          {open !== undefined && open !== NEW && <OpenAssistant key={open} id={open} />}
        </div>
      </section>
    </div>
  );
}

function AssistantList({ assistants, open }: { assistants: Assistant[]; open: string | undefined }) {
  if (assistants.length === 0) return <p className="muted">No assistant matches.</p>;
  return (
    <>
      <ul className="list">
        {assistants.map((assistant) => (
          <li key={assistant.assistant_id}>
            <Link href={path("assistants", assistant.assistant_id)} aria-current={assistant.assistant_id === open ? "page" : undefined}>
              <span className="entry">{assistant.name} <small>{assistant.graph_id}, version {assistant.version}</small></span>
            </Link>
          </li>
        ))}
      </ul>
      {assistants.length === PAGE_SIZE && <p className="hint">Only the first {PAGE_SIZE} are listed: search for others.</p>}
    </>
  );
}

function NewAssistant() {
  const [, navigate] = useLocation();
  const [chosen, setChosen] = useState<string>();
  const query = useQuery({
    queryKey: ["assistants", "graphs"],
    queryFn: () => langgraph().assistants.search({ metadata: { created_by: "system" }, limit: 1000, sortBy: "name", sortOrder: "asc" }),
  });
  return (
    <>
      <h2>New assistant</h2>
      <Loaded query={query} what="the graphs">
        {(graphs) => {
          const graph = graphs.find((each) => each.assistant_id === chosen) ?? graphs[0];
          if (graph === undefined) return <Empty title="No graph"><p>This server serves no graph that you may use.</p></Empty>;
          return (
            <>
              <label>
                Graph
                <select value={graph.assistant_id} onChange={(event) => setChosen(event.target.value)}>
                  {graphs.map((each) => <option key={each.assistant_id} value={each.assistant_id}>{each.graph_id}</option>)}
                </select>
              </label>
              <AssistantEditor key={graph.assistant_id} assistant={graph} isNew
                onSaved={(assistant) => navigate(path("assistants", assistant.assistant_id))} />
            </>
          );
        }}
      </Loaded>
    </>
  );
}

function OpenAssistant({ id }: { id: string }) {
  const [, navigate] = useLocation();
  const query = useQuery({ queryKey: ["assistants", id], queryFn: () => langgraph().assistants.get(id) });
  return (
    <Loaded query={query} what="the assistant">
      {(assistant) => {
        const isSystem = assistant.metadata?.["created_by"] === "system";
        return (
          <>
            <div className="row between">
              <h2>{assistant.name}</h2>
              {!isSystem && (
                <DeleteButton what={assistant.name} changed="assistants" onDelete={() => langgraph().assistants.delete(id)} onDone={() => navigate("/assistants")} />
              )}
            </div>
            {isSystem && <p className="hint">The server made this assistant for the graph; it cannot be deleted.</p>}
            <Facts
              facts={[
                ["Graph", assistant.graph_id],
                ["Active version", assistant.version],
                ["Changed", <Ago key="changed" time={assistant.updated_at} />],
                ["Id", <code key="id">{assistant.assistant_id}</code>],
              ]}
            />
            <AssistantEditor key={assistant.version} assistant={assistant} isNew={false} onSaved={() => undefined} />
            <Versions assistant={assistant} />
          </>
        );
      }}
    </Loaded>
  );
}
