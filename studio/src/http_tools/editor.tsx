/** A form for one registered tool, new or stored. */
import { useState } from "react";

import { splitWords, submitTo, TextField, useChange } from "../admin/parts";
import { request } from "../client/server";
import { Button } from "../ui/button";
import { JsonEditor } from "../ui/json";
import { ErrorBox } from "../ui/states";
import { METHODS, type ToolConfig } from "./types";

interface EditorProps {
  tool: ToolConfig;
  isNew: boolean;
  onSaved: (tool: ToolConfig) => void;
}

const JSON_FIELDS = [
  ["input_schema", "Schema of the arguments (JSON Schema)"],
  ["field_mappings", "Field mappings"],
  ["output_schema", "Schema of the output (JSON Schema)"],
] as const;

export function ToolEditor({ tool, isNew, onSaved }: EditorProps) {
  const [draft, setDraft] = useState(tool);
  const [tags, setTags] = useState((tool.tags ?? []).join(", "));
  const [invalid, setInvalid] = useState<string[]>([]);
  const save = useChange(() => {
    const { tool_id: id, ...rest } = { ...draft, tags: splitWords(tags) };
    if (isNew) return request<ToolConfig>("/tools", { method: "POST", json: id === "" ? rest : { tool_id: id, ...rest } });
    return request<ToolConfig>(`/tools/${encodeURIComponent(id)}`, { method: "PUT", json: { tool_id: id, ...rest } });
  }, "http-tools", onSaved);
  const set = (part: Partial<ToolConfig>) => setDraft({ ...draft, ...part });
  const setApi = (part: Partial<ToolConfig["api"]>) => set({ api: { ...draft.api, ...part } });
  const setJson = (name: string, value: unknown, apply: (value: object) => void) => {
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    setInvalid([...invalid.filter((each) => each !== name), ...(isObject ? [] : [name])]);
    if (isObject) apply(value);
  };
  return (
    <form className="stack" onSubmit={submitTo(() => save.mutate(undefined))}>
      <div className="form-grid">
        <TextField label="Name" required value={draft.name} onChange={(name) => set({ name })} />
        {isNew && (
          <label>
            Id (made from the name if empty)
            <input className="mono" pattern="[A-Za-z0-9][A-Za-z0-9_\-]{0,63}" value={draft.tool_id} onChange={(event) => set({ tool_id: event.target.value })} />
          </label>
        )}
        <label className="wide">
          Description: a model chooses the tool by it
          <textarea required rows={3} value={draft.description} onChange={(event) => set({ description: event.target.value })} />
        </label>
        <label>
          Method
          <select value={draft.api.method} onChange={(event) => setApi({ method: event.target.value })}>
            {METHODS.map((method) => <option key={method}>{method}</option>)}
          </select>
        </label>
        <TextField label="Base URL" required type="url" value={draft.api.base_url} onChange={(text) => setApi({ base_url: text })} />
        <label>Path, with {"{placeholders}"}<input required value={draft.api.path} onChange={(event) => setApi({ path: event.target.value })} /></label>
        <TextField label="Time limit in seconds" type="number" min={0.1} max={120} step="any" value={String(draft.api.timeout_s)}
          onChange={(limit) => setApi({ timeout_s: Number(limit) })} />
        <TextField label="Tags, separated by commas" value={tags} onChange={setTags} />
      </div>
      <AuthFields auth={draft.api.auth} onChange={(auth) => setApi({ auth })} />
      <div className="two">
        <JsonEditor label="Headers" rows={4} value={draft.api.headers}
          onChange={(value) => setJson("headers", value, (headers) => setApi({ headers: headers as Record<string, string> }))} />
        {JSON_FIELDS.map(([name, label]) => (
          <JsonEditor key={name} label={label} rows={name === "input_schema" ? 10 : 4} value={draft[name]}
            onChange={(value) => setJson(name, value, (json) => set({ [name]: json }))} />
        ))}
      </div>
      {save.isError && <ErrorBox error={save.error} />}
      <div className="row end">
        {save.isSuccess && <span role="status" className="muted">Saved</span>}
        <Button kind="primary" type="submit" disabled={save.isPending || invalid.length > 0}>{isNew ? "Register the tool" : "Save"}</Button>
      </div>
    </form>
  );
}

type Auth = ToolConfig["api"]["auth"];

function AuthFields({ auth, onChange }: { auth: Auth; onChange: (auth: Auth) => void }) {
  return (
    <div className="form-grid">
      <label>
        Credential
        <select value={auth.type} onChange={(event) => onChange({ ...auth, type: event.target.value })}>
          <option value="none">None</option>
          <option value="bearer">Bearer token</option>
          <option value="basic">Name and password</option>
          <option value="api_key">API key</option>
        </select>
      </label>
      {auth.type === "api_key" && (
        <>
          <label>
            Sent in
            <select value={auth.location} onChange={(event) => onChange({ ...auth, location: event.target.value })}>
              <option value="header">a header</option>
              <option value="query">the query</option>
            </select>
          </label>
          <label>Its name<input required value={auth.name ?? ""} onChange={(event) => onChange({ ...auth, name: event.target.value })} /></label>
        </>
      )}
      {auth.type !== "none" && (
        <label>
          Value, such as {"{env:TOOL_SHOP_KEY}"}
          <input required autoComplete="off" value={auth.value ?? ""} onChange={(event) => onChange({ ...auth, value: event.target.value })} />
        </label>
      )}
    </div>
  );
}
