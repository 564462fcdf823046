/** Import the operations of an OpenAPI document as tools. The API has no preview: it reports what it did. */
import { useState } from "react";

import { splitWords, submitTo, TextField, useChange } from "../admin/parts";
import { request } from "../client/server";
import { Button } from "../ui/button";
import { ErrorBox } from "../ui/states";
import type { StoredTools } from "./types";

export function ImportForm() {
  const [isUrl, setUrlChosen] = useState(true);
  const [source, setSource] = useState("");
  const [options, setOptions] = useState({ base_url: "", prefix: "", tags: "", operations: "", on_conflict: "error" });
  const change = useChange(() => {
    const { base_url: baseUrl, prefix, tags, operations, on_conflict: onConflict } = options;
    return request<StoredTools>("/tools/import/openapi", {
      method: "POST",
      json: {
        [isUrl ? "url" : "document"]: source,
        ...(baseUrl === "" ? {} : { base_url: baseUrl }),
        prefix, tags: splitWords(tags), operations: splitWords(operations), on_conflict: onConflict,
      },
    });
  }, "http-tools");
  const chooseFile = async (file: File | undefined) => {
    if (file !== undefined) setSource(await file.text());
  };
  const field = (name: keyof typeof options, label: string) => (
    <label>{label}<input value={options[name]} onChange={(event) => setOptions({ ...options, [name]: event.target.value })} /></label>
  );
  return (
    <form className="stack" onSubmit={submitTo(() => change.mutate(undefined))}>
      <h1>Import an OpenAPI document</h1>
      <p className="muted">Each operation of the document becomes a tool. Credentials become references to variables, never values.</p>
      <fieldset className="plain">
        <legend>The document is</legend>
        <div className="row">
          <label className="inline"><input type="radio" name="source" checked={isUrl} onChange={() => setUrlChosen(true)} /> behind a URL</label>
          <label className="inline"><input type="radio" name="source" checked={!isUrl} onChange={() => setUrlChosen(false)} /> a text or file</label>
        </div>
      </fieldset>
      {isUrl ? (
        <TextField label="URL" key="url" type="url" required value={source} onChange={setSource} />
      ) : (
        <>
          <label>File<input type="file" accept=".json,.yaml,.yml" onChange={(event) => void chooseFile(event.target.files?.[0])} /></label>
          <label>Document (JSON or YAML)<textarea className="json" required rows={10} spellCheck={false} value={source} onChange={(event) => setSource(event.target.value)} /></label>
        </>
      )}
      <div className="form-grid">
        {field("base_url", "Base URL, instead of the document’s")}
        {field("prefix", "Prefix of every id, such as shop_")}
        {field("tags", "Only operations with one of these tags")}
        {field("operations", "Only these operations, such as GET /pets*")}
        <label>
          If a tool of the id exists
          <select value={options.on_conflict} onChange={(event) => setOptions({ ...options, on_conflict: event.target.value })}>
            <option value="error">Stop and import nothing</option>
            <option value="skip">Keep the stored tool</option>
            <option value="replace">Replace it</option>
          </select>
        </label>
      </div>
      <div><Button kind="primary" type="submit" disabled={change.isPending}>{change.isPending ? "Importing…" : "Import"}</Button></div>
      {change.isError && <ErrorBox error={change.error} />}
      {change.isSuccess && <ImportReport report={change.data} />}
    </form>
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
