/** The MCP servers: their state, tools to call, and recent calls. /servers/NAME/tools/TOOL or /servers/NAME/calls */
import { useQuery } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { Link } from "wouter";

import { App } from "../apps/app";
import { request, useChange } from "../client";
import {
  Ago, Badge, Button, CheckBox, duration, Empty, ErrorBox, Facts, Head, JsonSection, Links, Loaded, NavList, path,
  SchemaInput, shortId, SplitPage, Table, usePath,
} from "../ui";
import { type ContentBlock, ToolResult } from "../ui/content";

function useServers<T>(...parts: string[]) {
  return useQuery({
    queryKey: ["servers", ...parts],
    queryFn: ({ signal }) => request<T>(parts.length === 0 ? "/servers" : `/servers${path(...parts)}`, { signal }),
    refetchInterval: 3000,
  });
}

export default function ServersPage() {
  const [name] = usePath();
  const query = useServers<ServerSummary[]>();
  const enabled = query.data?.filter((server) => server.enabled) ?? [];
  const disabled = query.data?.filter((server) => !server.enabled) ?? [];
  const open = name ?? [...enabled, ...disabled][0]?.name;
  const items = (servers: ServerSummary[]) => servers.map((server) => ({
    href: path("servers", server.name), title: server.name, status: server.state, isOpen: server.name === open,
  }));
  return (
    <SplitPage title="MCP servers" label="Server" list={query.data && (
      <>
        <NavList items={items(enabled)} empty="No server is enabled." />
        {disabled.length > 0 && (
          <details open={disabled.some((server) => server.name === name)}>
            <summary>Disabled</summary>
            <NavList items={items(disabled)} />
          </details>
        )}
      </>
    )}>
      <Loaded query={query} what="MCP servers" isOurs>
        {() => (open === undefined
          ? <Empty title="No MCP server"><p>Add one to mcp.jsonc, or with <code>toolweave servers add NAME</code>.</p></Empty>
          : <Server key={open} name={open} />)}
      </Loaded>
    </SplitPage>
  );
}

function Server({ name }: { name: string }) {
  const query = useServers<ServerDetails>(name);
  return <Loaded query={query} what="the server">{(server) => <Details server={server} />}</Loaded>;
}

function Details({ server }: { server: ServerDetails }) {
  const [, tab = "tools", tool] = usePath();
  const reconnect = useChange(() => request(`/servers${path(server.name)}/reconnect`, { method: "POST" }), ["servers"]);
  return (
    <>
      <Head title={server.name} level={2} status={server.state} hint={<>since <Ago time={server.since} /></>}>
        {server.enabled && server.state !== "misconfigured" && (
          <Button disabled={reconnect.isPending} onClick={() => reconnect.mutate()}>
            {reconnect.isPending ? "Reconnecting…" : "Reconnect"}
          </Button>
        )}
      </Head>
      <ErrorBox error={reconnect.error} />
      {server.last_error !== null && server.state !== "ready" && <p className="error-box">{server.last_error}</p>}
      {tool === undefined && <ServerFacts server={server} />}
      <Links label="Of this server" open={tab === "calls" ? "Recent calls" : "Tools"} links={{
        Tools: path("servers", server.name, "tools"), "Recent calls": path("servers", server.name, "calls"),
      }} />
      {tab === "calls" ? <CallLog server={server.name} /> : <Tools server={server} open={tool} />}
    </>
  );
}

function ServerFacts({ server }: { server: ServerDetails }) {
  const { latency_ms: latency, max_concurrency: limit, errors: [error] } = server;
  return (
    <Facts facts={{
      Breaker: <Badge status={server.breaker.toLowerCase()} />,
      Latency: latency ? `${duration(latency.p50)} (p99 ${duration(latency.p99)})` : "no call yet",
      Calls: `${server.calls}, ${server.failures} failed`,
      Retries: server.retries,
      "In flight": `${server.in_flight} of ${limit ?? "any number"}`,
      Transport: server.transport,
      Target: <span className="mono">{server.target}</span>,
      "Last error": error ? <>{error.reason || error.outcome} (<Ago time={error.time} />)</> : "none",
    }} />
  );
}

function Tools({ server, open }: { server: ServerDetails; open: string | undefined }) {
  const tool = server.offers.find((offer) => offer.name === open);
  const all = <Link href={path("servers", server.name, "tools")}>← All tools of {server.name}</Link>;
  if (tool !== undefined) return <><div>{all}</div><Tool key={tool.name} server={server.name} tool={tool} /></>;
  if (open !== undefined) return <Empty title={`No tool ${open}`}>{all}</Empty>;
  const hint = server.enabled ? "Its tools appear here once it is connected." : "Enable it in mcp.jsonc to use its tools.";
  return (
    <NavList search="Search the tools" empty={`No tools. ${hint}`} items={server.offers.map((offer) => ({
      href: path("servers", server.name, "tools", offer.name), title: offer.name, words: offer.description,
      hint: <ToolHint tool={offer} />,
    }))} />
  );
}

function ToolHint({ tool }: { tool: ToolDetails }) {
  return (
    <span className="row">
      {tool.requires_approval && <span className="badge warn">asks a user</span>}
      {tool.annotations["readOnlyHint"] === true && <span className="badge">read only</span>}
      {tool.description?.split("\n")[0]}
      {tool.calls > 0 && <span>Called {tool.calls} ×{tool.failures > 0 && `, ${tool.failures} failed`}</span>}
    </span>
  );
}

/** The log of a server's recent calls; it has no arguments and no results. */
function CallLog({ server }: { server: string }) {
  const [isFailuresOnly, setFailuresOnly] = useState(false);
  const query = useServers<RecentCall[]>(server, "calls");
  return (
    <Loaded query={query} what="recent calls" isOurs>
      {(calls) => (calls.length === 0
        ? <Empty title="No calls yet"><p>Call a tool here, or start a run that uses one.</p></Empty>
        : (
          <>
            <CheckBox label="Failures only" value={isFailuresOnly} onChange={setFailuresOnly} />
            <Table label="Recent calls" head={["Time", "Tool", "Outcome", "Duration", "Retries", "Thread", "Caller"]}>
              {calls.filter(({ outcome }) => !isFailuresOnly || outcome !== "ok").map((call, index) => (
                <tr key={`${call.time} ${index}`}>
                  <td className="nowrap"><Ago time={call.time} /></td>
                  <td className="mono">{call.tool}</td>
                  <td><Badge status={call.outcome} />{call.reason !== "" && <div className="hint">{call.reason}</div>}</td>
                  <td className="nowrap">{duration(call.duration_ms)}</td>
                  <td>{call.retries}</td>
                  <td>
                    {call.thread_id === null ? "–"
                      : <Link href={path("chat", call.thread_id)} className="mono">{shortId(call.thread_id)}</Link>}
                  </td>
                  <td>{call.caller ?? "–"}</td>
                </tr>
              ))}
            </Table>
          </>
        ))}
    </Loaded>
  );
}

function Tool({ server, tool }: { server: string; tool: ToolDetails }) {
  const stop = useRef<AbortController>(null);
  const call = useChange((value: unknown) => {
    stop.current = new AbortController();
    const json = { tool: tool.own_name, arguments: value };
    return request<CallAnswer>(`/servers${path(server)}/call`, { json, signal: stop.current.signal });
  }, ["servers"]);
  const uri = tool._meta?.ui?.resourceUri;
  return (
    <>
      <Head title={tool.name} level={2} />
      <p className="prose">{tool.description ?? "The server gives no description."}</p>
      {tool.requires_approval && (
        <p className="hint">Graphs ask a user before they call this tool; here your click is the approval.</p>
      )}
      {tool.annotations["destructiveHint"] === true && <p className="problem">This tool may delete or overwrite data.</p>}
      <div className="card">
        <SchemaInput label="Arguments" schema={tool.input_schema} submit="Call the tool" isDisabled={call.isPending}
          onSubmit={call.mutate} actions={call.isPending && (
            <>
              <span role="status">Waiting for the tool…</span>
              <Button onClick={() => stop.current?.abort()}>Stop</Button>
            </>
          )} />
      </div>
      <ErrorBox error={call.error} />
      {call.isSuccess && <CallResult answer={call.data} />}
      {call.isSuccess && typeof uri === "string" && (
        <App key={call.submittedAt} server={server} uri={uri} input={call.variables} result={call.data.result} />
      )}
      <JsonSection label="Schema" value={tool.input_schema} isFolded />
    </>
  );
}

function CallResult({ answer: { result, duration_ms: milliseconds } }: { answer: CallAnswer }) {
  return (
    <section className="stack" aria-label="Result" aria-live="polite">
      <div className="row">
        <h3>Result</h3>
        <Badge status={result.isError === true ? "error" : "success"} />
        <span className="muted">{duration(milliseconds)}</span>
      </div>
      {result._meta?.["toolweave/questions"]?.map(({ message }) => (
        <p key={message}>The server asked “{message}” and got no answer: a graph can ask you in the chat.</p>
      ))}
      <ToolResult content={result.content} structured={result.structuredContent} />
    </section>
  );
}

interface ServerSummary {
  name: string;
  transport: string;
  enabled: boolean;
  state: "connecting" | "ready" | "down" | "misconfigured" | "disabled";
  breaker: string;
  last_error: string | null;
  since: string;
  latency_ms?: { p50: number; p99: number };
}

interface ToolDetails {
  name: string;
  own_name: string;
  description: string | null;
  input_schema: { properties?: Record<string, unknown> };
  annotations: Record<string, unknown>;
  _meta?: { ui?: { resourceUri?: unknown } } | null;
  requires_approval: boolean;
  calls: number;
  failures: number;
}

export interface ServerDetails extends ServerSummary {
  target: string;
  max_concurrency: number | null;
  calls: number;
  failures: number;
  retries: number;
  in_flight: number;
  offers: ToolDetails[];
  errors: { time: string; outcome: string; reason: string }[];
}

interface RecentCall {
  time: string;
  tool: string;
  outcome: string;
  reason: string;
  duration_ms: number;
  retries: number;
  thread_id: string | null;
  caller: string | null;
}

export interface CallAnswer {
  result: {
    content: ContentBlock[];
    structuredContent?: unknown;
    isError?: boolean;
    _meta?: { "toolweave/questions"?: { message: string }[]; [key: string]: unknown };
  };
  duration_ms: number;
}
