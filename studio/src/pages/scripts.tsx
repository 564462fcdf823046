export default function ScriptsPage() {
  return <div className="page"><h1>Script jobs</h1></div>;
}
