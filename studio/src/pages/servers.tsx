/** The MCP servers: their state, tools to call, and recent calls. /servers/NAME/tools/TOOL or /servers/NAME/calls */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";

import { useChange } from "../client/queries";
import { request } from "../client/server";
import { Tool } from "../servers/tool";
import type { RecentCall, ServerDetails, ServerSummary, ToolDetails } from "../servers/types";
import {
  Ago, Badge, Button, CheckBox, duration, Empty, ErrorBox, Facts, Head, Loaded, NavList, path, SearchField, shortId,
  SplitPage, Table, Tabs, usePath,
} from "../ui";

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
      <Tabs label="Of this server" tabs={[
        { href: path("servers", server.name, "tools"), text: `Tools (${server.offers.length})`, isOpen: tab === "tools" },
        { href: path("servers", server.name, "calls"), text: "Recent calls", isOpen: tab === "calls" },
      ]} />
      {tab === "calls" ? <CallLog server={server.name} /> : <Tools server={server} open={tool} />}
    </>
  );
}

function ServerFacts({ server }: { server: ServerDetails }) {
  const { latency_ms: latency, max_concurrency: limit, breaker_rules: rules, errors: [error] } = server;
  return (
    <Facts facts={{
      Breaker: <Badge status={server.breaker.toLowerCase()} />,
      Latency: latency ? `${duration(latency.p50)} (p99 ${duration(latency.p99)})` : "no call yet",
      Calls: `${server.calls}, ${server.failures} failed`,
      Retries: server.retries,
      "In flight": `${server.in_flight} of ${limit ?? "any number"}`,
      "Deadline of a call": `${server.timeout_s} s`,
      Transport: server.transport,
      Target: <span className="mono">{server.target}</span>,
      "Breaker opens after": `${rules.failures} failures, for ${rules.recovery_s} s`,
      "Failed connects": server.failed_connects,
      "Last error": error ? <>{error.reason || error.outcome} (<Ago time={error.time} />)</> : "none",
    }} />
  );
}

function Tools({ server, open }: { server: ServerDetails; open: string | undefined }) {
  const [text, setText] = useState("");
  const tool = server.offers.find((offer) => offer.name === open);
  const all = <Link href={path("servers", server.name, "tools")}>← All tools of {server.name}</Link>;
  if (tool !== undefined) return <><div>{all}</div><Tool key={tool.name} server={server.name} tool={tool} /></>;
  if (open !== undefined) return <Empty title={`No tool ${open}`}>{all}</Empty>;
  if (server.offers.length === 0) {
    const hint = server.enabled ? "Its tools appear here once it is connected." : "Enable it in mcp.jsonc to use its tools.";
    return <Empty title="No tools"><p>{hint}</p></Empty>;
  }
  const isFound = ({ name, description }: ToolDetails) => `${name} ${description ?? ""}`.toLowerCase().includes(text.toLowerCase());
  return (
    <>
      <SearchField label="Search the tools" value={text} onChange={setText} />
      <NavList empty="No tool matches." items={server.offers.filter(isFound).map((offer) => ({
        href: path("servers", server.name, "tools", offer.name), title: offer.name, hint: <ToolHint tool={offer} />,
      }))} />
    </>
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
  const [text, setText] = useState("");
  const [isFailuresOnly, setFailuresOnly] = useState(false);
  const query = useServers<RecentCall[]>(server, "calls");
  const isShown = ({ tool, outcome }: RecentCall) =>
    tool.toLowerCase().includes(text.toLowerCase()) && (!isFailuresOnly || outcome !== "ok");
  return (
    <Loaded query={query} what="recent calls" isOurs>
      {(calls) => (calls.length === 0
        ? <Empty title="No calls yet"><p>Call a tool here, or start a run that uses one.</p></Empty>
        : (
          <>
            <div className="row">
              <div className="grow"><SearchField label="Search by tool" value={text} onChange={setText} /></div>
              <CheckBox label="Failures only" value={isFailuresOnly} onChange={setFailuresOnly} />
            </div>
            <Table label="Recent calls" head={["Time", "Tool", "Outcome", "Duration", "Retries", "Thread", "Caller"]}>
              {calls.filter(isShown).map((call, index) => (
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
