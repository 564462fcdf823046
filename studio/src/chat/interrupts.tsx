/** What a waiting run wants from a person: approvals of tool calls, forms, or any JSON. */
import { useState } from "react";

import { isObject, type Json, textIn } from "../client";
import { Button, Form, Head, JsonEditor, JsonView, SchemaInput } from "../ui";
import { Markdown } from "../ui/content";

type Decisions = Record<number, Decision | undefined>;

interface PanelProps {
  waiting: { id: string; value: unknown }[];
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
    <section className="stack" aria-label="Waiting for you">
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
  const decided = requests.filter((_, index) => decisions[index] !== undefined).length;
  const send = (all: Decisions) => onAnswer(answer(requests.flatMap((_, index) => all[index] ?? [])));
  const decide = (index: number, decision: Decision | undefined) => {
    const all = { ...decisions, [index]: decision };
    setDecisions(all);
    if (requests.length === 1) send(all);
  };
  return (
    <>
      {requests.map((request, index) => (
        <RequestCard key={index} request={request} decision={requests.length > 1 ? decisions[index] : undefined} isBusy={isBusy}
          onDecide={(next) => decide(index, next)} />
      ))}
      {requests.length > 1 && (
        <div className="row end">
          <span className="hint grow" role="status">{decided} of {requests.length} decided</span>
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
  const { problem = "", text = "" } = PROBLEM.exec(request.description)?.groups ?? {};
  const isQuestion = request.question !== undefined;
  const asks = request.schema ? `${request.action || "The run"} asks` : "The run waits for an answer";
  const title = isQuestion ? asks : `Approve ${request.action}?`;
  return (
    <article className="card interrupt" aria-label={title}>
      <Head title={title} level={2} status={decision ? DECIDED[decision.kind] : "pending"} />
      {problem !== "" && <p className="problem" role="alert">{problem}</p>}
      {!isQuestion && text !== "" && <Markdown text={text} />}
      {decision && <div className="row end"><Button kind="quiet" onClick={() => onDecide(undefined)}>Change</Button></div>}
      {!decision && (isQuestion
        ? <Question request={request} isBusy={isBusy} onDecide={onDecide} />
        : <Approval request={request} isBusy={isBusy} onDecide={onDecide} />)}
    </article>
  );
}

type BodyProps = Omit<RequestProps, "decision">;

function Question({ request: { question, schema, allowed }, isBusy, onDecide }: BodyProps) {
  return (
    <>
      {typeof question === "string" ? <p className="prose">{question}</p> : <JsonView value={question} label="Interrupt" />}
      <SchemaInput label="Answer" schema={schema} {...(schema ? {} : { value: "" })} submit={schema ? "Send answer" : "Resume"}
        isDisabled={isBusy} onSubmit={(value) => onDecide({ kind: "respond", value })} actions={
          <>
            {allowed.has("reject") && <Button disabled={isBusy} onClick={() => onDecide({ kind: "reject" })}>Decline</Button>}
            {allowed.has("approve") && <Button disabled={isBusy} onClick={() => onDecide({ kind: "approve" })}>Use the defaults</Button>}
          </>
        } />
    </>
  );
}

const MODES = {
  respond: { button: "Respond", label: "What the model reads as the result", submit: "Send instead of calling" },
  reject: { button: "Reject", label: "Reason (optional; the model reads it)", submit: "Reject the call" },
  edit: { button: "Edit", label: "Arguments", submit: "Run with these arguments" },
};
const CHOICES = ["respond", "reject", "edit"] as const;

function Approval({ request: { args, allowed }, isBusy, onDecide }: BodyProps) {
  const [mode, setMode] = useState<keyof typeof MODES>();
  const [value, setValue] = useState<unknown>();
  const open = (kind: keyof typeof MODES) => {
    setMode(kind);
    setValue(kind === "edit" ? args : "");
  };
  if (mode !== undefined) {
    const { label, submit } = MODES[mode];
    const isMissing = value === undefined || (mode === "respond" && textIn(value).trim() === "");
    return (
      <Form submit={submit} isDisabled={isBusy || isMissing} onSubmit={() => onDecide({ kind: mode, value })}
        actions={<Button onClick={() => setMode(undefined)}>Back</Button>}>
        {mode === "edit" ? <JsonEditor label={label} value={value} onChange={setValue} />
          : <label>{label}<textarea autoFocus rows={2} value={textIn(value)} onChange={(event) => setValue(event.target.value)} /></label>}
      </Form>
    );
  }
  return (
    <>
      <JsonView value={args} label="Arguments" />
      <div className="row end">
        {CHOICES.filter((kind) => allowed.has(kind)).map((kind) => (
          <Button key={kind} disabled={isBusy} onClick={() => open(kind)}>{MODES[kind].button}</Button>
        ))}
        {allowed.has("approve") && (
          <Button kind="primary" disabled={isBusy} onClick={() => onDecide({ kind: "approve" })}>Approve</Button>
        )}
      </div>
    </>
  );
}

interface Decision {
  kind: "approve" | "edit" | "reject" | "respond";
  /** The changed arguments, the reason of a rejection, or the response. */
  value?: unknown;
}

interface Request {
  action: string;
  args: unknown;
  description: string;
  /** A text or any JSON, if the request is a question and not a call to approve. */
  question?: unknown;
  /** The schema of the answer to a question; without one it is any JSON. */
  schema?: object;
  allowed: Set<Decision["kind"]>;
}

interface Interrupt {
  requests: Request[];
  /** Build the value that resumes the run from one decision for each request. */
  answer: (decisions: Decision[]) => unknown;
}

export function readInterrupt(value: unknown): Interrupt {
  const list = Array.isArray(value) ? value : [value];
  if (list.length > 0 && list.every((each) => isObject(each) && isObject(each["action_request"]))) {
    return {
      requests: (list as Json[]).map(inboxRequest),
      answer: (decisions) => (Array.isArray(value) ? decisions.map(inboxAnswer) : decisions.slice(0, 1).map(inboxAnswer)[0]),
    };
  }
  if (isObject(value) && Array.isArray(value["action_requests"])) {
    const requests = value["action_requests"] as Json[];
    const reviews = (value["review_configs"] ?? []) as Json[];
    return {
      requests: requests.map((request) => middlewareRequest(request, reviews)),
      answer: (decisions) => ({
        decisions: decisions.map((decision, index) => middlewareAnswer(decision, textIn(requests[index]?.["name"]))),
      }),
    };
  }
  const question = { action: "", args: undefined, description: "", question: value, allowed: new Set(["respond"] as const) };
  const answer = ([decision]: Decision[]) => decision?.value;
  const schema = isObject(value) ? (value["response_schema"] ?? value["requestedSchema"]) : undefined;
  if (!isObject(value) || !isObject(schema)) return { requests: [question], answer };
  const text = [value["message"], value["question"], value["description"]].map(textIn).find((each) => each !== "") ?? "";
  return { requests: [{ ...question, schema, question: text }], answer };
}

function inboxRequest(request: Json): Request {
  const { action, args } = request["action_request"] as Json;
  const config = isObject(request["config"]) ? request["config"] : {};
  const kinds = { allow_accept: "approve", allow_edit: "edit", allow_respond: "respond", allow_ignore: "reject" } as const;
  const allowed = new Set(Object.entries(kinds).filter(([name]) => config[name] === true).map(([, kind]) => kind));
  const schema = isObject(args) && isObject(args["requestedSchema"]) ? args["requestedSchema"] : undefined;
  const question = isObject(args) ? textIn(args["message"]) : "";
  const description = textIn(request["description"]);
  return { action: textIn(action), args, description, allowed, ...(schema ? { schema, question } : {}) };
}

const INBOX_TYPES = { approve: "accept", edit: "edit", reject: "ignore", respond: "response" };

function inboxAnswer({ kind, value }: Decision): unknown {
  return { type: INBOX_TYPES[kind], args: value === "" ? null : (value ?? null) };
}

function middlewareRequest(request: Json, reviews: Json[]): Request {
  const action = textIn(request["name"]);
  const review = reviews.find((each) => each["action_name"] === action);
  const kinds = (review?.["allowed_decisions"] ?? ["approve", "edit", "reject"]) as Decision["kind"][];
  const args = request["args"] ?? request["arguments"];
  return { action, args, description: textIn(request["description"]), allowed: new Set(kinds) };
}

function middlewareAnswer({ kind, value }: Decision, name: string): unknown {
  if (kind === "edit") return { type: kind, edited_action: { name, args: value } };
  return value === undefined || value === "" ? { type: kind } : { type: kind, message: value };
}

/** Our server repeats a request whose answer was invalid, and puts the reason before the description. */
const PROBLEM = /^(?:The answer could not be used: (?<problem>[^]*?)\n\n)?(?<text>[^]*)$/;
