/** Registered HTTP tools. The path is /http-tools/workflow, /new, /import or /tool/ID. */
import { useQuery } from "@tanstack/react-query";
import { useDeferredValue, useState } from "react";
import { Link, useLocation } from "wouter";

import { DeleteButton, ListHead, path, RouteError, SearchField, usePath } from "../admin/parts";
import { request } from "../client/server";
import { ToolEditor } from "../http_tools/editor";
import { ImportForm } from "../http_tools/import";
import { newTool, type ToolConfig } from "../http_tools/types";
import { WorkflowForm } from "../http_tools/workflow";
import { Loaded, Loading } from "../ui/states";

const PAGE_SIZE = 200;
const ACTIONS = [["workflow", "Run a workflow"], ["new", "Register a tool"], ["import", "Import from OpenAPI"]] as const;

export default function HttpToolsPage() {
  const [kind = "workflow", id = ""] = usePath();
  const [text, setText] = useState("");
  const search = useDeferredValue(text.trim());
  const query = useQuery({
    queryKey: ["http-tools", search],
    queryFn: ({ signal }) => request<ToolConfig[]>(`/tools?limit=${PAGE_SIZE}&query=${encodeURIComponent(search)}`, { signal }),
    placeholderData: (previous) => previous,
  });
  if (query.isError) {
    return (
      <div className="page">
        <h1>HTTP tools</h1>
        <RouteError error={query.error} what="HTTP tools" onRetry={() => void query.refetch()} />
      </div>
    );
  }
  return (
    <div className="split">
      <aside aria-label="HTTP tools">
        <ListHead title="HTTP tools" />
        <ul className="list">
          {ACTIONS.map(([action, label]) => (
            <li key={action}><Link href={path("http-tools", action)} aria-current={kind === action ? "page" : undefined}>{label}</Link></li>
          ))}
        </ul>
        <SearchField label="Search the tools" value={text} onChange={setText} />
        {query.data === undefined ? <Loading /> : <ToolList tools={query.data} open={kind === "tool" ? id : ""} isSearch={search !== ""} />}
      </aside>
      <section aria-label="Tool">
        <div className="page">
          {kind === "workflow" && <WorkflowForm tools={query.data ?? []} />}
          {kind === "new" && <NewTool />}
          {kind === "import" && <ImportForm />}
          {kind === "tool" && <StoredTool key={id} id={id} />}
        </div>
      </section>
    </div>
  );
}

function ToolList({ tools, open, isSearch }: { tools: ToolConfig[]; open: string; isSearch: boolean }) {
  if (tools.length === 0) return <p className="muted">{isSearch ? "No tool matches." : "No tool yet: register one, or import an OpenAPI document."}</p>;
  return (
    <>
      <ul className="list">
        {tools.map((tool) => (
          <li key={tool.tool_id}>
            <Link href={path("http-tools", "tool", tool.tool_id)} aria-current={tool.tool_id === open ? "page" : undefined}>
              <span className="entry">{tool.name} <small className="mono cut">{tool.api.method} {tool.api.path}</small></span>
            </Link>
          </li>
        ))}
      </ul>
      {tools.length === PAGE_SIZE && <p className="hint">Only the first {PAGE_SIZE} are listed: search for others.</p>}
    </>
  );
}

function NewTool() {
  const [, navigate] = useLocation();
  return (
    <>
      <h1>Register a tool</h1>
      <p className="muted">One operation of an HTTP API. The workflow, and agents with its id, may call it.</p>
      <ToolEditor tool={newTool()} isNew onSaved={(tool) => navigate(path("http-tools", "tool", tool.tool_id))} />
    </>
  );
}

function StoredTool({ id }: { id: string }) {
  const [, navigate] = useLocation();
  const url = `/tools${path(id)}`;
  const query = useQuery({ queryKey: ["http-tools", "tool", id], queryFn: ({ signal }) => request<ToolConfig>(url, { signal }) });
  return (
    <Loaded query={query} what="the tool">
      {(tool) => (
        <>
          <div className="row between">
            <div><h1>{tool.name}</h1><p className="mono muted">{tool.tool_id}</p></div>
            <DeleteButton what={tool.name} changed="http-tools" onDelete={() => request(url, { method: "DELETE" })} onDone={() => navigate("/http-tools")} />
          </div>
          <ToolEditor tool={tool} isNew={false} onSaved={() => undefined} />
        </>
      )}
    </Loaded>
  );
}
