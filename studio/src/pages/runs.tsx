import { RunList } from "../runs/run_list";
import { RunPage } from "../runs/run_page";
import "../runs/runs.css";
import { usePath } from "../ui";

export default function RunsPage() {
  const [threadId, runId] = usePath();
  return threadId && runId ? <RunPage key={runId} threadId={threadId} runId={runId} /> : <RunList />;
}
