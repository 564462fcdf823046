/** Registered HTTP tools. The path is /http-tools/workflow, /new, /import or /tool/ID. */
import { useQuery } from "@tanstack/react-query";
import { useDeferredValue, useState } from "react";
import { useLocation } from "wouter";

import { useChange } from "../client/queries";
import { request } from "../client/server";
import { ImportForm } from "../http_tools/import";
import { TOOL_SCHEMA, TOOL_UI, type ToolConfig } from "../http_tools/types";
import { WorkflowForm } from "../http_tools/workflow";
import { DeleteButton, Head, Loaded, NavList, path, SchemaInput, SearchField, SplitPage, usePath } from "../ui";

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
  const none = search === "" ? "No tool yet: register one, or import an OpenAPI document." : "No tool matches.";
  return (
    <SplitPage title="HTTP tools" label="Tool" list={query.data && (
      <>
        <NavList items={ACTIONS.map(([name, title]) => ({ href: path("http-tools", name), title, isOpen: kind === name }))} />
        <SearchField label="Search the tools" value={text} onChange={setText} />
        <NavList limit={PAGE_SIZE} empty={none} items={query.data.map(({ tool_id: tool, name, api }) => ({
          href: path("http-tools", "tool", tool), title: name, hint: <code>{api.method} {api.path}</code>, isOpen: tool === id,
        }))} />
      </>
    )}>
      <Loaded query={query} what="HTTP tools" isOurs>
        {(tools) => (
          <>
            {kind === "workflow" && <WorkflowForm tools={tools} />}
            {kind === "new" && <NewTool />}
            {kind === "import" && <ImportForm />}
            {kind === "tool" && <StoredTool key={id} id={id} />}
          </>
        )}
      </Loaded>
    </SplitPage>
  );
}

function NewTool() {
  const [, navigate] = useLocation();
  const save = useChange((tool: unknown) => request<ToolConfig>("/tools", { method: "POST", json: tool }), ["http-tools"],
    (tool) => navigate(path("http-tools", "tool", tool.tool_id)));
  return (
    <>
      <Head title="Register a tool" level={2} />
      <p className="muted">One operation of an HTTP API. The workflow, and agents with its id, may call it.</p>
      <SchemaInput label="Tool" schema={TOOL_SCHEMA} uiSchema={TOOL_UI} submit="Register the tool" isDisabled={save.isPending}
        value={{ api: { path: "/" }, input_schema: { type: "object", properties: {} } }} error={save.error} onSubmit={save.mutate} />
    </>
  );
}

function StoredTool({ id }: { id: string }) {
  const [, navigate] = useLocation();
  const url = `/tools${path(id)}`;
  const query = useQuery({
    queryKey: ["http-tools", "tool", id], queryFn: ({ signal }) => request<ToolConfig>(url, { signal }),
  });
  const save = useChange((json: unknown) => request(url, { method: "PUT", json }), ["http-tools"]);
  return (
    <Loaded query={query} what="the tool">
      {(tool) => (
        <>
          <Head title={tool.name} level={2} hint={<code>{tool.tool_id}</code>}>
            <DeleteButton what={tool.name} changed={["http-tools"]} onDelete={() => request(url, { method: "DELETE" })}
              onDone={() => navigate("/http-tools")} />
          </Head>
          <SchemaInput label="Tool" schema={TOOL_SCHEMA} uiSchema={{ ...TOOL_UI, tool_id: { "ui:widget": "hidden" } }} value={tool}
            submit="Save" isDisabled={save.isPending} error={save.error} onSubmit={save.mutate}
            actions={save.isSuccess && <span role="status" className="muted">Saved</span>} />
        </>
      )}
    </Loaded>
  );
}
