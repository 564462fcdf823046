import { useParams } from "wouter";

import { RunList } from "../runs/run_list";
import { RunPage } from "../runs/run_page";
import "../runs/runs.css";

export default function RunsPage() {
  const [threadId = "", runId = ""] = (useParams()["*"] ?? "").split("/");
  return threadId !== "" && runId !== "" ? <RunPage key={runId} threadId={threadId} runId={runId} /> : <RunList />;
}
