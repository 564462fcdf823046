/** Create an assistant, or edit one, which makes a new version. */
import type { Assistant, Config } from "@langchain/langgraph-sdk";
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";

import { submitTo, TextField, useChange } from "../admin/parts";
import { langgraph } from "../client/server";
import { Button } from "../ui/button";
import { JsonEditor } from "../ui/json";
import { ErrorBox, Loading } from "../ui/states";

const SchemaForm = lazy(() => import("../ui/schema_form"));
type Settings = Record<string, unknown>;

interface EditorProps {
  /** The assistant to edit, or the graph's own one as the model of a new one. */
  assistant: Assistant;
  isNew: boolean;
  onSaved: (assistant: Assistant) => void;
}

export function AssistantEditor({ assistant, isNew, onSaved }: EditorProps) {
  const [name, setName] = useState(isNew ? "" : assistant.name);
  const [description, setDescription] = useState(isNew ? "" : (assistant.description ?? ""));
  // `context` and `config.configurable` are two names of the same values: one editor shows them.
  const { configurable, ...limits } = isNew ? {} : assistant.config;
  const [config, setConfig] = useState<unknown>(limits);
  const [context, setContext] = useState<unknown>(isNew ? {} : (configurable ?? assistant.context ?? {}));
  const [metadata, setMetadata] = useState<unknown>(isNew ? {} : assistant.metadata);
  const schema = useSettingsSchema(assistant.assistant_id);
  const save = useChange((settings: unknown) => {
    const payload = { name, description, config: config as Config, context: settings, metadata: metadata as Settings };
    const { assistants } = langgraph();
    return isNew ? assistants.create({ graphId: assistant.graph_id, ...payload }) : assistants.update(assistant.assistant_id, payload);
  }, "assistants", onSaved);
  const label = isNew ? "Create the assistant" : "Save as a new version";
  const isInvalid = [config, context, metadata].includes(undefined) || name.trim() === "";
  return (
    <div className="stack">
      <form id="assistant" className="stack" onSubmit={submitTo(() => save.mutate(context))}>
        <TextField label="Name" required value={name} onChange={setName} />
        <label>Description<textarea rows={2} value={description} onChange={(event) => setDescription(event.target.value)} /></label>
        {schema === undefined && (
          <div className="two">
            <JsonEditor label="Configuration" rows={6} value={config} onChange={setConfig} />
            <JsonEditor label="Context (also “configurable”)" rows={6} value={context} onChange={setContext} />
          </div>
        )}
        <details>
          <summary>Metadata</summary>
          <JsonEditor label="Metadata" rows={4} value={metadata} onChange={setMetadata} />
        </details>
        {save.isError && <ErrorBox error={save.error} />}
        {schema === undefined && <div className="row end"><Button kind="primary" type="submit" disabled={save.isPending || isInvalid}>{label}</Button></div>}
      </form>
      {schema !== undefined && (
        <Suspense fallback={<Loading what="the form" />}>
          <SchemaForm schema={schema} value={context} submitLabel={label} isBusy={save.isPending || isInvalid}
            onSubmit={(value) => { setContext(value); save.mutate(value); }} />
        </Suspense>
      )}
    </div>
  );
}

/** The schema of the graph's settings, undefined while there is none to draw a form from. */
function useSettingsSchema(assistantId: string): object | undefined {
  const { data } = useQuery({
    queryKey: ["assistants", assistantId, "schemas"],
    queryFn: () => langgraph().assistants.getSchemas(assistantId),
    staleTime: 60_000,
  });
  const found = [data?.context_schema, data?.config_schema].find((schema) => Object.keys(schema?.properties ?? {}).length > 0);
  return found ?? undefined;
}
