/** The input of a graph that is no chat: a form from its schema, or JSON. */
import { lazy, Suspense, useState } from "react";

import { Button } from "../ui/button";
import { JsonEditor } from "../ui/json";
import { Loading } from "../ui/states";

const SchemaForm = lazy(() => import("../ui/schema_form"));

interface InputFormProps {
  schema: object;
  isRunning: boolean;
  isBlocked: boolean;
  onRun: (input: Record<string, unknown>) => void;
  onStop: () => void;
}

export function InputForm({ schema, isRunning, isBlocked, onRun, onStop }: InputFormProps) {
  const [isJson, setJson] = useState(false);
  const [input, setInput] = useState<unknown>({});
  const isObject = typeof input === "object" && input !== null && !Array.isArray(input);
  const run = (value: unknown) => {
    setInput(value);
    onRun(value as Record<string, unknown>);
  };
  return (
    <section className="input-form" aria-label="Input of the graph">
      <div className="row between">
        <h2>Input</h2>
        <span className="row">
          <Button kind="quiet" onClick={() => setJson(!isJson)}>{isJson ? "Use the form" : "Use JSON"}</Button>
          {isRunning && <Button onClick={onStop}>Stop</Button>}
        </span>
      </div>
      {isJson ? (
        <form className="stack" onSubmit={(event) => { event.preventDefault(); run(input); }}>
          <JsonEditor label="Input (JSON)" value={input} onChange={setInput} />
          <div className="row end"><Button kind="primary" type="submit" disabled={!isObject || isRunning || isBlocked}>Run</Button></div>
        </form>
      ) : (
        <Suspense fallback={<Loading what="the form" />}>
          <SchemaForm schema={{ ...schema, title: "", description: "" }} value={input} submitLabel="Run" isBusy={isRunning || isBlocked} onSubmit={run} />
        </Suspense>
      )}
    </section>
  );
}
