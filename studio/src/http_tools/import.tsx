/** Import the operations of an OpenAPI document as tools. The API has no preview: it reports what it did. */
import { useState } from "react";

import { useChange } from "../client/queries";
import { request } from "../client/server";
import { CheckBox, Form, Head, Select, splitWords, TextArea, TextField } from "../ui";
import type { StoredTools } from "./types";

const CONFLICTS = [["error", "Stop and import nothing"], ["skip", "Keep the stored tool"], ["replace", "Replace it"]] as const;

export function ImportForm() {
  const [isText, setText] = useState(false);
  const [source, setSource] = useState("");
  const [options, setOptions] = useState({ base_url: "", prefix: "", tags: "", operations: "", on_conflict: "error" });
  const change = useChange(() => {
    const { base_url: baseUrl, tags, operations, ...rest } = options;
    const json = {
      ...rest, [isText ? "document" : "url"]: source, tags: splitWords(tags), operations: splitWords(operations),
      ...(baseUrl === "" ? {} : { base_url: baseUrl }),
    };
    return request<StoredTools>("/tools/import/openapi", { method: "POST", json });
  }, ["http-tools"]);
  const field = (name: keyof typeof options, label: string) => (
    <TextField label={label} value={options[name]} onChange={(text) => setOptions({ ...options, [name]: text })} />
  );
  const read = async (files: FileList | null) => setSource(await files?.[0]?.text() ?? "");
  return (
    <>
      <Head title="Import an OpenAPI document" level={2} />
      <p className="muted">
        Each operation of the document becomes a tool. Credentials become references to variables, never values.
      </p>
      <Form submit={change.isPending ? "Importing…" : "Import"} isDisabled={change.isPending} error={change.error}
        onSubmit={change.mutate}>
        <CheckBox label="The document is a text or a file" value={isText} onChange={setText} />
        {isText ? (
          <>
            <label>File<input type="file" accept=".json,.yaml,.yml" onChange={(event) => void read(event.target.files)} /></label>
            <TextArea label="Document (JSON or YAML)" className="json" required rows={10} spellCheck={false} value={source}
              onChange={setSource} />
          </>
        ) : <TextField label="URL" type="url" required value={source} onChange={setSource} />}
        {field("base_url", "Base URL, instead of the document’s")}
        {field("prefix", "Prefix of every id, such as shop_")}
        {field("tags", "Only operations with one of these tags")}
        {field("operations", "Only these operations, such as GET /pets*")}
        <Select label="If a tool of the id exists" options={[...CONFLICTS]} value={options.on_conflict}
          onChange={(choice) => setOptions({ ...options, on_conflict: choice })} />
      </Form>
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
