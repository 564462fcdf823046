/** The versions of an assistant: compare one with the active version, and switch to it. */
import type { Assistant, AssistantVersion } from "@langchain/langgraph-sdk";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { useChange } from "../admin/parts";
import { langgraph } from "../client/server";
import { Button } from "../ui/button";
import { ErrorBox, Loaded } from "../ui/states";
import { Ago } from "../ui/time";
import { changes } from "./changes";

const MAX_VERSIONS = 100;
const COMPARED = ["name", "description", "config", "context", "metadata"] as const;

export function Versions({ assistant }: { assistant: Assistant }) {
  const id = assistant.assistant_id;
  const [compared, setCompared] = useState<number>();
  const query = useQuery({
    queryKey: ["assistants", id, "versions"],
    queryFn: () => langgraph().assistants.getVersions(id, { limit: MAX_VERSIONS }),
  });
  const activate = useChange((version: number) => langgraph().assistants.setLatest(id, version), "assistants");
  return (
    <section className="stack" aria-label="Versions">
      <h2>Versions</h2>
      {activate.isError && <ErrorBox error={activate.error} />}
      <Loaded query={query} what="the versions">
        {(versions) => (
          <ul className="list stack">
            {versions.map((version) => (
              <li key={version.version} className="card">
                <div className="row between">
                  <span className="row">
                    Version {version.version} {version.version === assistant.version && <span className="badge good">active</span>}
                    <span className="muted"><Ago time={version.created_at} /></span>
                  </span>
                  {version.version !== assistant.version && (
                    <span className="row">
                      <Button aria-expanded={compared === version.version}
                        onClick={() => setCompared(compared === version.version ? undefined : version.version)}>
                        Compare with the active one
                      </Button>
                      <Button disabled={activate.isPending} onClick={() => activate.mutate(version.version)}>Use this version</Button>
                    </span>
                  )}
                </div>
                {compared === version.version && <Comparison version={version} active={assistant} />}
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </section>
  );
}

function Comparison({ version, active }: { version: AssistantVersion; active: Assistant }) {
  const found = COMPARED.flatMap((name) => changes(version[name], active[name], name));
  if (found.length === 0) return <p className="muted">Both are equal.</p>;
  return (
    <div className="table-scroll" tabIndex={0} role="region" aria-label="Differences">
      <table>
        <thead><tr><th>Value</th><th>Version {version.version}</th><th>Active version</th></tr></thead>
        <tbody>
          {found.map((change) => (
            <tr key={change.path}><td className="mono">{change.path}</td><td>{shown(change.before)}</td><td>{shown(change.after)}</td></tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function shown(value: unknown): React.ReactNode {
  return value === undefined ? <span className="muted">absent</span> : <code className="prose">{JSON.stringify(value)}</code>;
}
