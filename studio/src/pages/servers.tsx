/** The MCP servers: their state, tools to call, and recent calls. The path is /servers/NAME/tools/TOOL or /servers/NAME/calls. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";

import { Facts, ListHead, path, RouteError, SearchField, Tabs, useChange, usePath } from "../admin/parts";
import { request } from "../client/server";
import { CallLog } from "../servers/calls";
import { Tool } from "../servers/tool";
import type { ServerDetails, ServerSummary, ToolDetails } from "../servers/types";
import { Badge } from "../ui/badge";
import { Button } from "../ui/button";
import { Empty, ErrorBox, Loaded, Loading } from "../ui/states";
import { Ago, duration } from "../ui/time";

const STATE_INTERVAL_MS = 3000;

export default function ServersPage() {
  const [name] = usePath();
  const query = useQuery({
    queryKey: ["servers"],
    queryFn: ({ signal }) => request<ServerSummary[]>("/servers", { signal }),
    refetchInterval: STATE_INTERVAL_MS,
  });
  if (query.data === undefined) {
    return (
      <div className="page">
        <h1>MCP servers</h1>
        {query.isError ? <RouteError error={query.error} what="MCP servers" onRetry={() => void query.refetch()} /> : <Loading />}
      </div>
    );
  }
  const servers = query.data;
  const open = name ?? (servers.find((server) => server.enabled) ?? servers[0])?.name;
  return (
    <div className="split">
      <aside aria-label="Servers">
        <ListHead title="MCP servers" />
        <ServerList servers={servers.filter((server) => server.enabled)} open={open} />
        {servers.some((server) => !server.enabled) && (
          <details open={servers.some((server) => !server.enabled && server.name === name)}>
            <summary>Disabled</summary>
            <ServerList servers={servers.filter((server) => !server.enabled)} open={open} />
          </details>
        )}
      </aside>
      <section aria-label="Server">
        {open === undefined
          ? <Empty title="No MCP server"><p>Add one to mcp.jsonc, or with <code>toolweave servers add NAME</code>.</p></Empty>
          : <Server key={open} name={open} />}
      </section>
    </div>
  );
}

function ServerList({ servers, open }: { servers: ServerSummary[]; open: string | undefined }) {
  return (
    <ul className="list">
      {servers.map((server) => (
        <li key={server.name}>
          <Link href={path("servers", server.name)} aria-current={server.name === open ? "page" : undefined}>
            <span className="row between">{server.name} <Badge status={server.state} /></span>
          </Link>
        </li>
      ))}
    </ul>
  );
}

function Server({ name }: { name: string }) {
  const query = useQuery({
    queryKey: ["servers", name],
    queryFn: ({ signal }) => request<ServerDetails>(`/servers${path(name)}`, { signal }),
    refetchInterval: STATE_INTERVAL_MS,
  });
  return <div className="page"><Loaded query={query} what="the server">{(server) => <Details server={server} />}</Loaded></div>;
}

function Details({ server }: { server: ServerDetails }) {
  const [, tab = "tools", tool] = usePath();
  const reconnect = useChange(() => request(`/servers${path(server.name)}/reconnect`, { method: "POST" }), "servers");
  const breaker = server.breaker.toLowerCase();
  const [lastError] = server.errors;
  const limit = server.max_concurrency === null ? "any number" : String(server.max_concurrency);
  return (
    <>
      <div className="row between">
        <div className="row">
          <h1>{server.name}</h1>
          <Badge status={server.state} />
          <span className="muted">for {sinceText(server.since)}</span>
        </div>
        {server.enabled && server.state !== "misconfigured" && (
          <Button disabled={reconnect.isPending} onClick={() => reconnect.mutate(undefined)}>
            {reconnect.isPending ? "Reconnecting…" : "Reconnect"}
          </Button>
        )}
      </div>
      {reconnect.isError && <ErrorBox error={reconnect.error} />}
      {server.last_error !== null && server.state !== "ready" && <p className="error-box">{server.last_error}</p>}
      {tool === undefined && <Facts
        facts={[
          ["Breaker", <Badge key="breaker" status={breaker} />],
          ["Latency", server.latency_ms ? `${duration(server.latency_ms.p50)} (p99 ${duration(server.latency_ms.p99)})` : "no call yet"],
          ["Calls", `${server.calls}, ${server.failures} failed`],
          ["Retries", server.retries],
          ["In flight", `${server.in_flight} of ${limit}`],
          ["Deadline of a call", `${server.timeout_s} s`],
          ["Transport", server.transport],
          ["Target", <span key="target" className="mono">{server.target}</span>],
          ["Breaker opens after", `${server.breaker_rules.failures} failures, for ${server.breaker_rules.recovery_s} s`],
          ["Failed connects", server.failed_connects],
          ["Last error", lastError === undefined ? "none" : <span key="error">{lastError.reason || lastError.outcome} (<Ago time={lastError.time} />)</span>],
        ]}
      />}
      <Tabs
        label="Of this server"
        tabs={[["tools", `Tools (${server.offers.length})`], ["calls", "Recent calls"]].map(
          ([id = "", text = ""]) => ({ href: path("servers", server.name, id), text, isOpen: tab === id }),
        )}
      />
      {tab === "calls" && <CallLog server={server.name} />}
      {tab === "tools" && <Tools server={server} />}
    </>
  );
}

function sinceText(since: string): string {
  return duration(Math.max(Date.now() - Date.parse(since), 1000)).replace(/\.\d+/, "");
}

function Tools({ server }: { server: ServerDetails }) {
  const [, , open] = usePath();
  const [text, setText] = useState("");
  const tool = server.offers.find((offer) => offer.name === open);
  if (tool !== undefined) {
    return (
      <>
        <div><Link href={path("servers", server.name, "tools")}>← All tools of {server.name}</Link></div>
        <Tool key={tool.name} server={server.name} tool={tool} />
      </>
    );
  }
  if (open !== undefined) return <Empty title={`No tool ${open}`}><Link href={path("servers", server.name, "tools")}>All tools</Link></Empty>;
  if (server.offers.length === 0) {
    const hint = server.enabled ? "Its tools appear here once it is connected." : "Enable it in mcp.jsonc to use its tools.";
    return <Empty title="No tools"><p>{hint}</p></Empty>;
  }
  const found = server.offers.filter((offer) => `${offer.name} ${offer.description ?? ""}`.toLowerCase().includes(text.toLowerCase()));
  return (
    <div className="stack">
      <SearchField label="Search the tools" value={text} onChange={setText} />
      {found.length === 0 && <p className="muted">No tool matches.</p>}
      <ul className="list">{found.map((offer) => <li key={offer.name}><ToolLink server={server.name} tool={offer} /></li>)}</ul>
    </div>
  );
}

function ToolLink({ server, tool }: { server: string; tool: ToolDetails }) {
  return (
    <Link href={path("servers", server, "tools", tool.name)}>
      <span className="entry">
        <span className="row">
          <span className="mono">{tool.name}</span>
          {tool.requires_approval && <span className="badge warn">asks a user</span>}
          {tool.annotations["readOnlyHint"] === true && <span className="badge">read only</span>}
        </span>
        <small>{tool.description?.split("\n")[0]}</small>
        {tool.calls > 0 && <small>Called {tool.calls} ×{tool.failures > 0 && `, ${tool.failures} failed`}</small>}
      </span>
    </Link>
  );
}
