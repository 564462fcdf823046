export default function ServersPage() {
  return <div className="page"><h1>MCP servers</h1></div>;
}
