/** Assistants: graphs with a configuration, in versions. The path is /assistants/ID, or /assistants/new. */
import type { Assistant, AssistantVersion } from "@langchain/langgraph-sdk";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation } from "wouter";

import { type Json, langgraph, MAX_ASSISTANTS, useAssistants, useChange, useSchemas } from "../client";
import {
  Ago, Badge, Button, DeleteButton, Empty, ErrorBox, Facts, Head, Loaded, NavList, path, SchemaInput, Select, SplitPage, usePath,
} from "../ui";
import { DiffView } from "../ui/diff";

const NEW = "new";

export default function AssistantsPage() {
  const [open] = usePath();
  return (
    <SplitPage title="Assistants" label="Assistant" actions={<Link href={path("assistants", NEW)}>New</Link>} list={
      <Loaded query={useAssistants()} what="the assistants">
        {(assistants) => (
          <NavList search="Search by name" limit={MAX_ASSISTANTS} items={assistants.map((each) => ({
            href: path("assistants", each.assistant_id), title: each.name, isOpen: each.assistant_id === open,
            hint: `${each.graph_id}, version ${each.version}`,
          }))} />
        )}
      </Loaded>
    }>
      {open === undefined && (
        <Empty title="No assistant chosen"><p>An assistant is a graph with a configuration. Choose one, or create one.</p></Empty>
      )}
      {open === NEW && <NewAssistant />}
      {open !== undefined && open !== NEW && <OpenAssistant key={open} id={open} />}
    </SplitPage>
  );
}

/** Whether the server made the assistant for a graph. */
function isSystem({ metadata }: Assistant): boolean {
  return metadata?.["created_by"] === "system";
}

function NewAssistant() {
  const [, navigate] = useLocation();
  const [chosen, setChosen] = useState<string>();
  return (
    <>
      <Head title="New assistant" level={2} />
      <Loaded query={useAssistants()} what="the graphs">
        {(assistants) => {
          const graphs = assistants.filter(isSystem);
          const graph = graphs.find((each) => each.assistant_id === chosen) ?? graphs[0];
          if (graph === undefined) return <Empty title="No graph"><p>This server serves no graph that you may use.</p></Empty>;
          return (
            <>
              <Select label="Graph" value={graph.assistant_id} onChange={setChosen}
                options={graphs.map((each) => [each.assistant_id, each.graph_id])} />
              <AssistantEditor key={graph.assistant_id} assistant={graph} isNew
                onSaved={(made) => navigate(path("assistants", made.assistant_id))} />
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
      {(assistant) => (
        <>
          <Head title={assistant.name} level={2}>
            {!isSystem(assistant) && (
              <DeleteButton what={assistant.name} changed={["assistants"]} onDone={() => navigate("/assistants")}
                onDelete={() => langgraph().assistants.delete(id)} />
            )}
          </Head>
          {isSystem(assistant) && <p className="hint">The server made this assistant for the graph; it cannot be deleted.</p>}
          <Facts facts={{
            Graph: assistant.graph_id,
            "Active version": assistant.version,
            Changed: <Ago time={assistant.updated_at} />,
            Id: <code>{id}</code>,
          }} />
          <AssistantEditor key={assistant.version} assistant={assistant} isNew={false} onSaved={() => undefined} />
          <Versions assistant={assistant} />
        </>
      )}
    </Loaded>
  );
}

/** The schema of what can be changed; `context` has the graph's own schema if there is one. */
function settingsSchema(context: Json | undefined): object {
  return {
    type: "object",
    required: ["name"],
    properties: {
      name: { type: "string", title: "Name" },
      description: { type: "string", title: "Description" },
      context: { type: "object", ...context, title: "Context (also “configurable”)" },
      config: { type: "object", title: "Configuration" },
      metadata: { type: "object", title: "Metadata" },
    },
    $defs: context?.["$defs"],
  };
}

interface EditorProps {
  /** The assistant to edit, or the graph's own one as the model of a new one. */
  assistant: Assistant;
  isNew: boolean;
  onSaved: (assistant: Assistant) => void;
}

/** Create an assistant, or edit one, which makes a new version. */
function AssistantEditor({ assistant, isNew, onSaved }: EditorProps) {
  const schemas = useSchemas(assistant.assistant_id);
  const save = useChange((settings: unknown) => {
    const { assistants } = langgraph();
    const payload = settings as Parameters<typeof assistants.update>[1];
    return isNew ? assistants.create({ graphId: assistant.graph_id, ...payload }) : assistants.update(assistant.assistant_id, payload);
  }, ["assistants"], onSaved);
  // `context` and `config.configurable` are two names of the same values: one field shows them.
  const { configurable, ...config } = assistant.config;
  const { name, description, metadata } = assistant;
  const settings = { name, description: description ?? undefined, config, context: configurable ?? assistant.context ?? {}, metadata };
  return (
    <Loaded query={schemas} what="the settings">
      {({ context_schema: context, config_schema: configurables }) => {
        const schema = [context, configurables].find((each) => Object.keys(each?.properties ?? {}).length > 0);
        const json = { "ui:field": "json" };
        const fields = { config: json, metadata: json, description: { "ui:widget": "textarea" }, ...(schema ? {} : { context: json }) };
        return (
          <SchemaInput label="Settings" schema={settingsSchema(schema as Json | undefined)} uiSchema={fields}
            value={isNew ? { config: {}, metadata: {}, context: {} } : settings} isDisabled={save.isPending} error={save.error}
            submit={isNew ? "Create the assistant" : "Save as a new version"} onSubmit={save.mutate} />
        );
      }}
    </Loaded>
  );
}

const MAX_VERSIONS = 100;

/** The versions of an assistant: compare one with the active version, and switch to it. */
function Versions({ assistant }: { assistant: Assistant }) {
  const id = assistant.assistant_id;
  const [compared, setCompared] = useState<number>();
  const query = useQuery({
    queryKey: ["assistants", id, "versions"],
    queryFn: () => langgraph().assistants.getVersions(id, { limit: MAX_VERSIONS }),
  });
  const activate = useChange((version: number) => langgraph().assistants.setLatest(id, version), ["assistants"]);
  return (
    <section className="stack" aria-label="Versions">
      <h3>Versions</h3>
      <ErrorBox error={activate.error} />
      <Loaded query={query} what="the versions">
        {(versions) => (
          <ul className="list stack">
            {versions.map((each) => {
              const { version } = each;
              const isCompared = compared === version;
              return (
                <li key={version} className="card">
                  <div className="row between">
                    <span className="row">
                      Version {version} {version === assistant.version && <Badge status="active" />}
                      <span className="muted"><Ago time={each.created_at} /></span>
                    </span>
                    {version !== assistant.version && (
                      <span className="row">
                        <Button aria-expanded={isCompared} onClick={() => setCompared(isCompared ? undefined : version)}>
                          Compare with the active one
                        </Button>
                        <Button disabled={activate.isPending} onClick={() => activate.mutate(version)}>Use this version</Button>
                      </span>
                    )}
                  </div>
                  {isCompared && <DiffView title="Changes since this version" before={settingsOf(each)} after={settingsOf(assistant)} />}
                </li>
              );
            })}
          </ul>
        )}
      </Loaded>
    </section>
  );
}

function settingsOf({ name, description, config, context, metadata }: AssistantVersion): object {
  return { name, description, config, context, metadata };
}
