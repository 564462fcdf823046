/** What a waiting run wants from a person: approvals of tool calls, forms, or any JSON. */
import { useState } from "react";

import { Button, Form, Head, JsonEditor, JsonView, SchemaInput, TextArea } from "../ui";
import { type Decision, problemIn, readInterrupt, type Request } from "./interrupts";

type Decisions = Record<number, Decision | undefined>;

export interface Waiting {
  id: string;
  value: unknown;
}

interface PanelProps {
  waiting: Waiting[];
  isBusy: boolean;
  /** Receives the answers of all interrupts by id, once each has one. */
  onAnswer: (answers: Record<string, unknown>) => void;
}

/** A run continues when all its interrupts are answered, so the answers are collected and sent together. */
export function InterruptPanel({ waiting, isBusy, onAnswer }: PanelProps) {
  const [answers, setAnswers] = useState<Record<string, unknown>>({});
  const answer = (id: string, value: unknown) => {
    const collected = { ...answers, [id]: value };
    setAnswers(collected);
    if (waiting.every((each) => each.id in collected)) onAnswer(collected);
  };
  const open = waiting.filter((each) => !(each.id in answers));
  const shown = open.length === 0 ? waiting : open;
  return (
    <section className="interrupts" aria-label="Waiting for you">
      {waiting.length > 1 && (
        <p className="hint" role="status">
          {waiting.length - open.length} of {waiting.length} answered; the run continues when all are.
        </p>
      )}
      {shown.map((each) => <OneInterrupt key={each.id} value={each.value} isBusy={isBusy} onAnswer={(value) => answer(each.id, value)} />)}
    </section>
  );
}

interface InterruptProps {
  value: unknown;
  isBusy: boolean;
  onAnswer: (value: unknown) => void;
}

function OneInterrupt({ value, isBusy, onAnswer }: InterruptProps) {
  const { requests, answer } = readInterrupt(value);
  const [decisions, setDecisions] = useState<Decisions>({});
  if (requests === undefined) return <JsonAnswer value={value} isBusy={isBusy} onAnswer={onAnswer} />;
  const decided = requests.filter((_, index) => decisions[index] !== undefined).length;
  const send = (all: Decisions) => onAnswer(answer(requests.flatMap((_, index) => all[index] ?? [])));
  const decide = (index: number, decision: Decision | undefined) => {
    const all = { ...decisions, [index]: decision };
    setDecisions(all);
    if (requests.length === 1) send(all);
  };
  const approveAll = () => onAnswer(answer(requests.map(() => ({ kind: "approve" }))));
  const approvable = requests.every((request) => request.allowed.has("approve") && request.schema === undefined);
  return (
    <>
      {requests.map((request, index) => (
        <RequestCard key={index} request={request} decision={requests.length > 1 ? decisions[index] : undefined} isBusy={isBusy}
          onDecide={(next) => decide(index, next)} />
      ))}
      {requests.length > 1 && (
        <div className="row end">
          <span className="hint grow" role="status">{decided} of {requests.length} decided</span>
          {approvable && <Button disabled={isBusy} onClick={approveAll}>Approve all</Button>}
          <Button kind="primary" disabled={isBusy || decided < requests.length} onClick={() => send(decisions)}>Send decisions</Button>
        </div>
      )}
    </>
  );
}

interface RequestProps {
  request: Request;
  decision: Decision | undefined;
  isBusy: boolean;
  /** Receives undefined to decide anew. */
  onDecide: (decision: Decision | undefined) => void;
}

const DECIDED = { approve: "approved", edit: "edited", reject: "rejected", respond: "answered" };

function RequestCard({ request, decision, isBusy, onDecide }: RequestProps) {
  const problem = problemIn(request);
  const title = request.schema ? `${request.action || "The run"} asks` : `Approve ${request.action}?`;
  return (
    <article className="card interrupt" aria-label={title}>
      <Head title={title} level={2} status={decision ? DECIDED[decision.kind] : "pending"} />
      {problem !== "" && <p className="problem" role="alert">{problem}</p>}
      {decision && <div className="row end"><Button kind="quiet" onClick={() => onDecide(undefined)}>Change</Button></div>}
      {!decision && (request.schema
        ? <Question request={request} isBusy={isBusy} onDecide={onDecide} />
        : <Approval request={request} isBusy={isBusy} onDecide={onDecide} />)}
    </article>
  );
}

type BodyProps = Omit<RequestProps, "decision">;

function Question({ request, isBusy, onDecide }: BodyProps) {
  const { allowed } = request;
  return (
    <>
      {request.question && <p className="prose">{request.question}</p>}
      <SchemaInput label="Answer" schema={request.schema} submit="Send answer" isDisabled={isBusy}
        onSubmit={(value) => onDecide({ kind: "respond", value })} actions={
          <>
            {allowed.has("reject") && <Button disabled={isBusy} onClick={() => onDecide({ kind: "reject", reason: "" })}>Decline</Button>}
            {allowed.has("approve") && <Button disabled={isBusy} onClick={() => onDecide({ kind: "approve" })}>Use the defaults</Button>}
          </>
        } />
    </>
  );
}

const TEXTS = {
  reject: { label: "Reason (optional; the model reads it)", submit: "Reject the call" },
  respond: { label: "What the model reads as the result", submit: "Send instead of calling" },
};

function Approval({ request: { args: proposed, allowed }, isBusy, onDecide }: BodyProps) {
  const [mode, setMode] = useState<"edit" | "reject" | "respond">();
  const [args, setArgs] = useState(proposed);
  const [text, setText] = useState("");
  const back = <Button onClick={() => setMode(undefined)}>Back</Button>;
  if (mode === "edit") {
    return (
      <Form submit="Run with these arguments" isDisabled={isBusy || args === undefined} actions={back}
        onSubmit={() => onDecide({ kind: "edit", args })}>
        <JsonEditor label="Arguments" value={args} onChange={setArgs} />
      </Form>
    );
  }
  if (mode !== undefined) {
    const decide = () => onDecide(mode === "reject" ? { kind: mode, reason: text.trim() } : { kind: mode, value: text });
    return (
      <Form submit={TEXTS[mode].submit} isDisabled={isBusy || (mode === "respond" && text.trim() === "")} actions={back} onSubmit={decide}>
        <TextArea label={TEXTS[mode].label} autoFocus rows={2} value={text} onChange={setText} />
      </Form>
    );
  }
  return (
    <>
      <JsonView value={proposed} label="Arguments" />
      <div className="row end">
        {allowed.has("respond") && <Button disabled={isBusy} onClick={() => setMode("respond")}>Respond</Button>}
        {allowed.has("reject") && <Button disabled={isBusy} onClick={() => setMode("reject")}>Reject</Button>}
        {allowed.has("edit") && <Button disabled={isBusy} onClick={() => setMode("edit")}>Edit</Button>}
        {allowed.has("approve") && (
          <Button kind="primary" disabled={isBusy} onClick={() => onDecide({ kind: "approve" })}>Approve</Button>
        )}
      </div>
    </>
  );
}

function JsonAnswer({ value, isBusy, onAnswer }: InterruptProps) {
  return (
    <article className="card interrupt" aria-label="The run waits for an answer">
      <Head title="The run waits for an answer" level={2} status="pending" />
      {typeof value === "string" ? <p className="prose">{value}</p> : <JsonView value={value} label="Interrupt" />}
      <SchemaInput label="Answer" schema={undefined} value="" submit="Resume" isDisabled={isBusy} onSubmit={onAnswer} />
    </article>
  );
}
