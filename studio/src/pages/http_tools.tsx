export default function HttpToolsPage() {
  return <div className="page"><h1>HTTP tools</h1></div>;
}
