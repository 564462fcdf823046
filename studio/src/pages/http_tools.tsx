/** Registered HTTP tools. The path is /http-tools/workflow, /new, /import or /tool/ID. */
import { useQuery } from "@tanstack/react-query";
import { useLocation } from "wouter";

import { request, useChange } from "../client";
import { Badge, DeleteButton, Empty, Head, JsonSection, Loaded, NavList, path, SchemaInput, SplitPage, usePath } from "../ui";
import { Markdown } from "../ui/content";

const MAX_TOOLS = 1000;
const ACTIONS = [["workflow", "Run a workflow"], ["new", "Register a tool"], ["import", "Import from OpenAPI"]] as const;

interface ToolConfig {
  tool_id: string;
  name: string;
  api: { method: string; path: string };
}

export default function HttpToolsPage() {
  const [kind = "workflow", id = ""] = usePath();
  const query = useQuery({
    queryKey: ["http-tools"],
    queryFn: ({ signal }) => request<ToolConfig[]>(`/tools?limit=${MAX_TOOLS}`, { signal }),
  });
  return (
    <SplitPage title="HTTP tools" label="Tool" list={query.data && (
      <>
        <NavList items={ACTIONS.map(([name, title]) => ({ href: path("http-tools", name), title, isOpen: kind === name }))} />
        <NavList search="Search the tools" limit={MAX_TOOLS} empty="No tool yet: register one, or import an OpenAPI document."
          items={query.data.map(({ tool_id: tool, name, api }) => ({
            href: path("http-tools", "tool", tool), title: name, words: api.path, hint: <code>{api.method} {api.path}</code>,
            isOpen: tool === id,
          }))} />
      </>
    )}>
      <Loaded query={query} what="HTTP tools" isOurs>
        {(tools) => (
          <>
            {kind === "workflow" && <WorkflowForm tools={tools} />}
            {kind === "new" && <ToolEditor />}
            {kind === "import" && <ImportForm />}
            {kind === "tool" && <StoredTool key={id} id={id} />}
            {kind !== "tool" && !ACTIONS.some(([name]) => name === kind) && <Empty title={`There is no page “${kind}”`} />}
          </>
        )}
      </Loaded>
    </SplitPage>
  );
}

const NEW_TOOL = { api: { path: "/" }, input_schema: { type: "object", properties: {} } };

/** Register a tool, or change a stored one. */
function ToolEditor({ tool }: { tool?: ToolConfig }) {
  const [, navigate] = useLocation();
  const [url, method] = tool ? [`/tools${path(tool.tool_id)}`, "PUT"] : ["/tools", "POST"];
  const save = useChange((json: unknown) => request<ToolConfig>(url, { method, json }), ["http-tools"],
    (saved) => navigate(path("http-tools", "tool", saved.tool_id)));
  return (
    <>
      <Head title={tool?.name ?? "Register a tool"} level={2} hint={tool && <code>{tool.tool_id}</code>}>
        {tool && (
          <DeleteButton what={tool.name} changed={["http-tools"]} onDelete={() => request(url, { method: "DELETE" })}
            onDone={() => navigate("/http-tools")} />
        )}
      </Head>
      <p className="muted">One operation of an HTTP API. The workflow, and agents with its id, may call it.</p>
      <SchemaInput label="Tool" schema={TOOL_SCHEMA} uiSchema={tool ? { ...TOOL_UI, tool_id: { "ui:widget": "hidden" } } : TOOL_UI}
        value={tool ?? NEW_TOOL} submit={tool ? "Save" : "Register the tool"} isDisabled={save.isPending} error={save.error}
        onSubmit={save.mutate} actions={save.isSuccess && <span role="status" className="muted">Saved</span>} />
    </>
  );
}

function StoredTool({ id }: { id: string }) {
  const query = useQuery({
    queryKey: ["http-tools", "tool", id], queryFn: ({ signal }) => request<ToolConfig>(`/tools${path(id)}`, { signal }),
  });
  return <Loaded query={query} what="the tool">{(tool) => <ToolEditor tool={tool} />}</Loaded>;
}

interface StoredTools {
  created: string[];
  replaced: string[];
  skipped: { operation: string; reason: string }[];
  warnings: string[];
}

/** Import the operations of an OpenAPI document as tools. The API has no preview: it reports what it did. */
function ImportForm() {
  const change = useChange(
    (json: unknown) => request<StoredTools>("/tools/import/openapi", { json }), ["http-tools"],
  );
  return (
    <>
      <Head title="Import an OpenAPI document" level={2} />
      <p className="muted">
        Each operation of the document becomes a tool. Credentials become references to variables, never values.
      </p>
      <SchemaInput label="Document" schema={IMPORT_SCHEMA} uiSchema={{ document: { "ui:widget": "textarea" } }}
        submit={change.isPending ? "Importing…" : "Import"} isDisabled={change.isPending} error={change.error} onSubmit={change.mutate} />
      {change.isSuccess && <ImportReport report={change.data} />}
    </>
  );
}

function ImportReport({ report }: { report: StoredTools }) {
  return (
    <section className="card" aria-label="What was imported" role="status">
      <p>{report.created.length} new, {report.replaced.length} replaced, {report.skipped.length} skipped.</p>
      {report.skipped.length > 0 && (
        <ul>{report.skipped.map((each) => <li key={each.operation}><code>{each.operation}</code>: {each.reason}</li>)}</ul>
      )}
      {report.warnings.map((warning) => <p key={warning} className="problem">{warning}</p>)}
    </section>
  );
}

interface WorkflowAnswer {
  status: "success" | "error";
  selected_tool: string | null;
  http_spec: unknown;
  raw_response: unknown;
  output: unknown;
  formatted_response: string | null;
  warning: string | null;
  error: string | null;
  error_stage: string | null;
  metadata: { usage: unknown };
}

/** Let the workflow turn an instruction into one request, and show what each stage did. */
function WorkflowForm({ tools }: { tools: ToolConfig[] }) {
  const run = useChange((values: unknown) => {
    const { tool_ids: chosen, ...json } = values as { tool_ids?: string[] };
    return request<WorkflowAnswer>("/workflow", { json: { ...json, tool_ids: chosen?.length ? chosen : null } });
  }, []);
  return (
    <>
      <Head title="Workflow" level={2} />
      <SchemaInput label="Task" schema={workflowSchema(tools)} submit={run.isPending ? "Running…" : "Run the workflow"}
        uiSchema={{ user_instructions: { "ui:widget": "textarea" }, tool_ids: { "ui:widget": "checkboxes" } }}
        isDisabled={run.isPending} error={run.error} onSubmit={run.mutate} />
      {run.isSuccess && <Answer answer={run.data} />}
    </>
  );
}

const STAGES = [
  ["tool_retrieval", "Find tools"],
  ["llm_selection", "Choose a tool"],
  ["api_execution", "Send the request"],
  ["response_formatting", "Format the answer"],
] as const;

function Answer({ answer }: { answer: WorkflowAnswer }) {
  const failed = STAGES.findIndex(([stage]) => stage === answer.error_stage);
  const stateOf = (index: number) => {
    if (index === failed) return "failed";
    if (failed !== -1 && index > failed) return "not reached";
    return index === 3 && answer.formatted_response === null ? "not requested" : "success";
  };
  return (
    <section className="stack" aria-label="Outcome" aria-live="polite">
      <ol className="row">
        {STAGES.map(([stage, label], index) => <li key={stage} className="card">{label} <Badge status={stateOf(index)} /></li>)}
      </ol>
      {answer.error !== null && <p className="error-box">{answer.error}</p>}
      {answer.warning !== null && <p className="card">Warning: {answer.warning}</p>}
      {answer.selected_tool !== null && <p>Selected tool: <strong>{answer.selected_tool}</strong></p>}
      {answer.formatted_response !== null && <div className="card"><Markdown text={answer.formatted_response} /></div>}
      {answer.status === "success" && <JsonSection label="Output" value={answer.output} />}
      {answer.http_spec !== null && <JsonSection label="Request" value={answer.http_spec} />}
      {answer.raw_response !== null && <JsonSection label="Response" value={answer.raw_response} />}
      <JsonSection label="Usage" value={answer.metadata.usage} isFolded />
    </section>
  );
}

const TOOL_SCHEMA = {
  type: "object",
  required: ["name", "description", "api"],
  properties: {
    name: { type: "string", title: "Name" },
    tool_id: { type: "string", title: "Id (made from the name if empty)", pattern: "^([A-Za-z0-9][A-Za-z0-9_-]{0,63})?$" },
    description: { type: "string", title: "Description: a model chooses the tool by it" },
    tags: { type: "array", title: "Tags", items: { type: "string" } },
    api: {
      type: "object",
      title: "Request",
      required: ["base_url", "path"],
      properties: {
        method: { title: "Method", enum: ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"], default: "GET" },
        base_url: { type: "string", title: "Base URL", pattern: "^https?://" },
        path: { type: "string", title: "Path, with {placeholders}" },
        timeout_s: { type: "number", title: "Time limit in seconds", minimum: 0.1, maximum: 120, default: 30 },
        headers: { type: "object", title: "Headers", additionalProperties: { type: "string" } },
        auth: {
          type: "object",
          title: "Credential",
          properties: {
            type: { title: "Kind", enum: ["none", "bearer", "basic", "api_key"], default: "none" },
            value: { type: ["string", "null"], title: "Value, such as {env:TOOL_SHOP_KEY} or, if basic, name:password" },
            location: { title: "An API key is sent in", enum: ["header", "query"], default: "header" },
            name: { type: ["string", "null"], title: "Name of the header or parameter of an API key" },
          },
        },
      },
    },
    input_schema: { type: "object", title: "Schema of the arguments (JSON Schema)" },
    field_mappings: { type: "object", title: "Field mappings" },
    output_schema: { type: "object", title: "Schema of the output (JSON Schema)" },
  },
};

const JSON_FIELD = { "ui:field": "json" };
const TOOL_UI = {
  description: { "ui:widget": "textarea" },
  api: { headers: JSON_FIELD },
  input_schema: JSON_FIELD,
  field_mappings: JSON_FIELD,
  output_schema: JSON_FIELD,
};

const IMPORT_SCHEMA = {
  type: "object",
  properties: {
    url: { type: "string", title: "URL", format: "uri" },
    document: { type: "string", title: "Document (JSON or YAML), instead of the URL" },
    base_url: { type: "string", title: "Base URL, instead of the document’s" },
    prefix: { type: "string", title: "Prefix of every id, such as shop_" },
    tags: { type: "array", title: "Only operations with one of these tags", items: { type: "string" } },
    operations: { type: "array", title: "Only these operations, such as GET /pets*", items: { type: "string" } },
    on_conflict: {
      title: "If a tool of the id exists: import nothing, skip it or replace it", enum: ["error", "skip", "replace"], default: "error",
    },
  },
};

function workflowSchema(tools: { tool_id: string; name: string }[]): object {
  const choices = tools.map(({ tool_id: id, name }) => ({ const: id, title: name }));
  const chosen = { type: "array", title: "Tools (all if none is chosen)", uniqueItems: true, items: { type: "string", oneOf: choices } };
  return {
    type: "object",
    required: ["user_instructions"],
    properties: {
      user_instructions: { type: "string", title: "Instruction", minLength: 1 },
      ...(tools.length > 0 ? { tool_ids: chosen } : {}),
      format_response: { type: "boolean", title: "Format the answer as text", default: false },
      response_format_instructions: { type: "string", title: "How to format it (optional)" },
    },
  };
}
