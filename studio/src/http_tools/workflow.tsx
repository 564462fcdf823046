/** Let the workflow turn an instruction into one request, and show what each stage did. */
import { useState } from "react";

import { useChange } from "../client/queries";
import { request } from "../client/server";
import { Badge, CheckBox, Form, Head, JsonSection, TextArea, TextField } from "../ui";
import { Markdown } from "../ui/markdown";
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
  const run = useChange(() => request<WorkflowAnswer>("/workflow", {
    method: "POST",
    json: {
      user_instructions: text,
      tool_ids: chosen.length === 0 ? null : chosen,
      format_response: isFormatted,
      response_format_instructions: isFormatted && format !== "" ? format : null,
    },
  }), []);
  const choose = (id: string, isChosen: boolean) => setChosen(isChosen ? [...chosen, id] : chosen.filter((each) => each !== id));
  return (
    <>
      <Head title="Workflow" level={2} />
      <Form submit={run.isPending ? "Running…" : "Run the workflow"} isDisabled={run.isPending} error={run.error} onSubmit={run.mutate}>
        <TextArea label="Instruction" required rows={3} placeholder="Lend book 2 to reader Ada" value={text} onChange={setText} />
        <details>
          <summary>Tools: {chosen.length === 0 ? "all" : chosen.join(", ")}</summary>
          <div className="card choices">
            {tools.map(({ tool_id: id, name }) => (
              <CheckBox key={id} label={name} value={chosen.includes(id)} onChange={(isChosen) => choose(id, isChosen)} />
            ))}
          </div>
        </details>
        <CheckBox label="Format the answer as text" value={isFormatted} onChange={setFormatted} />
        {isFormatted && <TextField label="How (optional)" value={format} onChange={setFormat} />}
      </Form>
      {run.isSuccess && <Answer answer={run.data} />}
    </>
  );
}

function Answer({ answer }: { answer: WorkflowAnswer }) {
  const failed = STAGES.findIndex(([stage]) => stage === answer.error_stage);
  const stateOf = (index: number) => {
    if (index === failed) return "failed";
    if (failed !== -1 && index > failed) return "not reached";
    return index === 3 && answer.formatted_response === null ? "not requested" : "success";
  };
  return (
    <section className="stack" aria-label="Outcome" aria-live="polite">
      <ol className="stages">
        {STAGES.map(([stage, label], index) => <li key={stage} className="card">{label} <Badge status={stateOf(index)} /></li>)}
      </ol>
      {answer.error !== null && <p className="error-box">{answer.error}</p>}
      {answer.warning !== null && <p className="card">Warning: {answer.warning}</p>}
      {answer.selected_tool !== null && <p>Selected tool: <strong>{answer.selected_tool}</strong></p>}
      {answer.formatted_response !== null && <div className="card"><Markdown text={answer.formatted_response} /></div>}
      {answer.status === "success" && <JsonSection label="Output" value={answer.output} />}
      <div className="two">
        {answer.http_spec !== null && <JsonSection label="Request" value={answer.http_spec} />}
        {answer.raw_response !== null && <JsonSection label="Response" value={answer.raw_response} />}
      </div>
      <JsonSection label="Usage" value={answer.metadata.usage} isFolded />
    </section>
  );
}
