/** JSON as text: to read, and to edit with a message that names the mistake. */
import { useId, useState } from "react";

import type { Json } from "../client";

interface JsonProps {
  label: string;
  value: unknown;
}

export function JsonView({ value, label }: JsonProps) {
  return <pre className="json" tabIndex={0} aria-label={label}>{JSON.stringify(value, null, 2)}</pre>;
}

/** JSON under its heading, which opens it if it is folded. */
export function JsonSection({ label, value, isFolded = false }: JsonProps & { isFolded?: boolean }) {
  const view = <JsonView value={value} label={label} />;
  if (isFolded) return <details><summary>{label}</summary>{view}</details>;
  return <section className="stack"><h3>{label}</h3>{view}</section>;
}

const EMPTY: Json = { object: {}, array: [], boolean: false, string: "" };

/** The value of a form that nobody has filled in; null if it is no value of the schema. */
export function emptyOf(schema: object): unknown {
  return "type" in schema ? EMPTY[String(schema.type)] ?? null : null;
}

interface JsonEditorProps extends JsonProps {
  /** Receives each valid value, `undefined` while the text is no JSON. */
  onChange: (value: unknown) => void;
  rows?: number;
}

export function JsonEditor({ label, value, onChange, rows = 8 }: JsonEditorProps) {
  const id = useId();
  const [text, setText] = useState(() => JSON.stringify(value === undefined ? {} : value, null, 2));
  const [problem, setProblem] = useState("");
  const edit = (edited: string) => {
    setText(edited);
    try {
      onChange(JSON.parse(edited));
      setProblem("");
    } catch (error) {
      onChange(undefined);
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <textarea id={id} className="json" rows={rows} spellCheck={false} value={text} aria-invalid={problem !== ""}
        aria-describedby={`${id}-problem`} onChange={(event) => edit(event.target.value)} />
      <p id={`${id}-problem`} className="problem" role="status">{problem}</p>
    </div>
  );
}
