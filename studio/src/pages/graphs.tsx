export default function GraphsPage() {
  return <div className="page"><h1>Graphs</h1></div>;
}
