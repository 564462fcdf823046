/** What a waiting run wants from a person: approvals of tool calls, forms, or any JSON. */
import { lazy, Suspense, useState } from "react";

import { Badge } from "../ui/badge";
import { Button } from "../ui/button";
import { JsonEditor, JsonView } from "../ui/json";
import { Loading } from "../ui/states";
import { type Decision, problemIn, readInterrupt, type Request } from "./interrupts";

const SchemaForm = lazy(() => import("../ui/schema_form"));

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
        <p className="hint" role="status">{waiting.length - open.length} of {waiting.length} answered; the run continues when all are.</p>
      )}
      {shown.map((each) => <OneInterrupt key={each.id} value={each.value} isBusy={isBusy} onAnswer={(value) => answer(each.id, value)} />)}
    </section>
  );
}

function OneInterrupt({ value, isBusy, onAnswer }: { value: unknown; isBusy: boolean; onAnswer: (value: unknown) => void }) {
  const { requests, answer } = readInterrupt(value);
  const [decisions, setDecisions] = useState<Record<number, Decision>>({});
  if (requests === undefined) return <JsonAnswer value={value} isBusy={isBusy} onAnswer={onAnswer} />;
  const isComplete = (decided: Record<number, Decision>) => requests.every((_, index) => decided[index] !== undefined);
  const send = (decided: Record<number, Decision>) => onAnswer(answer(requests.flatMap((_, index) => decided[index] ?? [])));
  const decide = (index: number, decision: Decision) => {
    const decided = { ...decisions, [index]: decision };
    setDecisions(decided);
    if (requests.length === 1) send(decided);
  };
  const undo = (index: number) => setDecisions(Object.fromEntries(Object.entries(decisions).filter(([key]) => key !== String(index))));
  const approveAll = () => onAnswer(answer(requests.map(() => ({ kind: "approve" }))));
  const approvable = requests.every((request) => request.allowed.has("approve") && request.schema === undefined);
  return (
    <>
      {requests.map((request, index) => (
        <RequestCard key={index} request={request} decision={requests.length > 1 ? decisions[index] : undefined} isBusy={isBusy}
          onDecide={(decision) => decide(index, decision)} onUndo={() => undo(index)} />
      ))}
      {requests.length > 1 && (
        <div className="row end">
          <span className="hint grow" role="status">{Object.keys(decisions).length} of {requests.length} decided</span>
          {approvable && <Button disabled={isBusy} onClick={approveAll}>Approve all</Button>}
          <Button kind="primary" disabled={isBusy || !isComplete(decisions)} onClick={() => send(decisions)}>Send decisions</Button>
        </div>
      )}
    </>
  );
}

interface RequestProps {
  request: Request;
  decision: Decision | undefined;
  isBusy: boolean;
  onDecide: (decision: Decision) => void;
  onUndo: () => void;
}

const DECIDED = { approve: "approved", edit: "edited", reject: "rejected", respond: "answered" };

function RequestCard({ request, decision, isBusy, onDecide, onUndo }: RequestProps) {
  const problem = problemIn(request);
  const title = request.schema ? `${request.action || "The run"} asks` : `Approve ${request.action}?`;
  return (
    <article className="card interrupt" aria-label={title}>
      <div className="row between">
        <h2>{title}</h2>
        {decision ? <Badge status={DECIDED[decision.kind]} /> : <Badge status="pending" />}
      </div>
      {problem !== "" && <p className="problem" role="alert">{problem}</p>}
      {decision && <div className="row end"><Button kind="quiet" onClick={onUndo}>Change</Button></div>}
      {!decision && (request.schema
        ? <Question request={request} isBusy={isBusy} onDecide={onDecide} />
        : <Approval request={request} isBusy={isBusy} onDecide={onDecide} />)}
    </article>
  );
}

type BodyProps = Omit<RequestProps, "decision" | "onUndo">;

function Question({ request, isBusy, onDecide }: BodyProps) {
  return (
    <>
      {request.question && <p className="plain-text">{request.question}</p>}
      <Suspense fallback={<Loading what="the form" />}>
        <SchemaForm schema={request.schema ?? {}} submitLabel="Send answer" isBusy={isBusy}
          onSubmit={(value) => onDecide({ kind: "respond", value })} />
      </Suspense>
      <div className="row">
        {request.allowed.has("approve") && <Button disabled={isBusy} onClick={() => onDecide({ kind: "approve" })}>Use the defaults</Button>}
        {request.allowed.has("reject") && <Button disabled={isBusy} onClick={() => onDecide({ kind: "reject", reason: "" })}>Decline</Button>}
      </div>
    </>
  );
}

function Approval({ request, isBusy, onDecide }: BodyProps) {
  const [mode, setMode] = useState<"edit" | "reject" | "respond">();
  const [args, setArgs] = useState<unknown>(request.args);
  const [text, setText] = useState("");
  const { allowed } = request;
  const back = <Button onClick={() => setMode(undefined)}>Back</Button>;
  if (mode === "edit") {
    return (
      <form className="stack" onSubmit={(event) => { event.preventDefault(); onDecide({ kind: "edit", args }); }}>
        <JsonEditor label="Arguments" value={request.args} onChange={setArgs} />
        <div className="row end">{back}<Button kind="primary" type="submit" disabled={isBusy || args === undefined}>Run with these arguments</Button></div>
      </form>
    );
  }
  if (mode !== undefined) {
    const decision: Decision = mode === "reject" ? { kind: "reject", reason: text.trim() } : { kind: "respond", value: text };
    return (
      <form className="stack" onSubmit={(event) => { event.preventDefault(); onDecide(decision); }}>
        <label>
          {mode === "reject" ? "Reason (optional; the model reads it)" : "What the model reads as the result"}
          <textarea autoFocus rows={2} value={text} onChange={(event) => setText(event.target.value)} />
        </label>
        <div className="row end">
          {back}
          <Button kind={mode === "reject" ? "danger" : "primary"} type="submit" disabled={isBusy || (mode === "respond" && text.trim() === "")}>
            {mode === "reject" ? "Reject the call" : "Send instead of calling"}
          </Button>
        </div>
      </form>
    );
  }
  return (
    <>
      <JsonView value={request.args} label="Arguments" />
      <div className="row">
        {allowed.has("approve") && <Button kind="primary" disabled={isBusy} onClick={() => onDecide({ kind: "approve" })}>Approve</Button>}
        {allowed.has("edit") && <Button disabled={isBusy} onClick={() => setMode("edit")}>Edit</Button>}
        {allowed.has("reject") && <Button disabled={isBusy} onClick={() => setMode("reject")}>Reject</Button>}
        {allowed.has("respond") && <Button disabled={isBusy} onClick={() => setMode("respond")}>Respond</Button>}
      </div>
    </>
  );
}

function JsonAnswer({ value, isBusy, onAnswer }: { value: unknown; isBusy: boolean; onAnswer: (value: unknown) => void }) {
  const [answer, setAnswer] = useState<unknown>("");
  return (
    <form className="card interrupt" aria-label="The run waits for an answer"
      onSubmit={(event) => { event.preventDefault(); onAnswer(answer); }}>
      <div className="row between"><h2>The run waits for an answer</h2><Badge status="pending" /></div>
      {typeof value === "string" ? <p className="plain-text">{value}</p> : <JsonView value={value} label="Interrupt" />}
      <JsonEditor label="Answer (JSON)" value="" rows={3} onChange={setAnswer} />
      <div className="row end"><Button kind="primary" type="submit" disabled={isBusy || answer === undefined}>Resume</Button></div>
    </form>
  );
}
