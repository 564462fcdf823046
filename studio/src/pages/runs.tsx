export default function RunsPage() {
  return <div className="page"><h1>Runs</h1></div>;
}
