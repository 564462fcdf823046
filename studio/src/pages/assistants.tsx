export default function AssistantsPage() {
  return <div className="page"><h1>Assistants</h1></div>;
}
