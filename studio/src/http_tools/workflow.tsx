/** Let the workflow turn an instruction into one request, and show what each stage did. */
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";

import { CheckBox, submitTo, TextField } from "../admin/parts";
import { request } from "../client/server";
import { Badge } from "../ui/badge";
import { Button } from "../ui/button";
import { JsonView } from "../ui/json";
import { Markdown } from "../ui/markdown";
import { ErrorBox } from "../ui/states";
import type { ToolConfig, WorkflowAnswer } from "./types";

const STAGES = [
  ["tool_retrieval", "Find tools"],
  ["llm_selection", "Choose a tool"],
  ["api_execution", "Send the request"],
  ["response_formatting", "Format the answer"],
] as const;

export function WorkflowForm({ tools }: { tools: ToolConfig[] }) {
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState<string[]>([]);
  const [isFormatted, setFormatted] = useState(false);
  const [format, setFormat] = useState("");
  const run = useMutation({
    mutationFn: () => request<WorkflowAnswer>("/workflow", {
      method: "POST",
      json: {
        user_instructions: text,
        tool_ids: chosen.length === 0 ? null : chosen,
        format_response: isFormatted,
        response_format_instructions: isFormatted && format !== "" ? format : null,
      },
    }),
  });
  const toggle = (id: string) => setChosen(chosen.includes(id) ? chosen.filter((each) => each !== id) : [...chosen, id]);
  return (
    <>
      <h1>Workflow</h1>
      <form className="stack" onSubmit={submitTo(() => run.mutate())}>
        <label>
          Instruction
          <textarea required rows={3} placeholder="Lend book 2 to reader Ada" value={text} onChange={(event) => setText(event.target.value)} />
        </label>
        <details>
          <summary>Tools: {chosen.length === 0 ? "all" : chosen.join(", ")}</summary>
          <div className="choices">
            {tools.map((tool) => (
              <label key={tool.tool_id} className="inline">
                <input type="checkbox" checked={chosen.includes(tool.tool_id)} onChange={() => toggle(tool.tool_id)} /> {tool.name}
              </label>
            ))}
          </div>
        </details>
        <CheckBox label="Format the answer as text" checked={isFormatted} onChange={setFormatted} />
        {isFormatted && <TextField label="How (optional)" value={format} onChange={setFormat} />}
        <div><Button kind="primary" type="submit" disabled={run.isPending}>{run.isPending ? "Running…" : "Run the workflow"}</Button></div>
      </form>
      {run.isError && <ErrorBox error={run.error} />}
      {run.isSuccess && <Answer answer={run.data} wasFormatted={run.data.formatted_response !== null} />}
    </>
  );
}

function Answer({ answer, wasFormatted }: { answer: WorkflowAnswer; wasFormatted: boolean }) {
  const failed = STAGES.findIndex(([stage]) => stage === answer.error_stage);
  const stateOf = (index: number) => {
    if (index === failed) return "failed";
    if (failed !== -1 && index > failed) return "not reached";
    return index === 3 && !wasFormatted ? "not requested" : "success";
  };
  const response = answer.raw_response;
  return (
    <section className="stack" aria-label="Outcome" aria-live="polite">
      <ol className="stages">
        {STAGES.map(([stage, label], index) => <li key={stage} className="card">{label} <Badge status={stateOf(index)} /></li>)}
      </ol>
      {answer.error !== null && <p className="error-box">{answer.error}</p>}
      {answer.warning !== null && <p className="card">Warning: {answer.warning}</p>}
      {answer.selected_tool !== null && <p>Selected tool: <strong>{answer.selected_tool}</strong></p>}
      {answer.formatted_response !== null && <div className="card"><Markdown text={answer.formatted_response} /></div>}
      {answer.status === "success" && <><h2>Output</h2><JsonView value={answer.output} label="Output" /></>}
      <div className="two">
        {answer.http_spec !== null && <div className="stack"><h2>Request</h2><JsonView value={answer.http_spec} label="Request" /></div>}
        {response !== null && (
          <div className="stack">
            <h2>Response {response.status_code}</h2>
            <JsonView value={response} label="Response" />
          </div>
        )}
      </div>
      <details><summary>Usage</summary><JsonView value={answer.metadata.usage} label="Usage" /></details>
    </section>
  );
}
