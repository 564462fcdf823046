/** The forms of interrupts: ours (Agent Inbox), LangChain's middleware, a value with a schema, anything else. */
import { isObject, type Json, textIn } from "../client/json";

export type Decision =
  | { kind: "approve" }
  | { kind: "edit"; args: unknown }
  | { kind: "reject"; reason: string }
  | { kind: "respond"; value: unknown };

export interface Request {
  action: string;
  args: unknown;
  description: string;
  /** The schema of the answer, if the request is a question and not a call to approve. */
  schema?: object;
  question?: string;
  allowed: Set<Decision["kind"]>;
}

export interface Interrupt {
  /** The requests of one interrupt, or undefined if only JSON can answer it. */
  requests: Request[] | undefined;
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
  const schema = isObject(value) ? (value["response_schema"] ?? value["requestedSchema"]) : undefined;
  if (isObject(value) && isObject(schema)) {
    const question = [value["message"], value["question"], value["description"]].map(textIn).find((text) => text !== "") ?? "";
    return {
      requests: [{ action: "", args: undefined, description: "", schema, question, allowed: new Set(["respond"]) }],
      answer: ([decision]) => (decision?.kind === "respond" ? decision.value : null),
    };
  }
  return { requests: undefined, answer: () => null };
}

function inboxRequest(request: Json): Request {
  const { action, args } = request["action_request"] as Json;
  const config = isObject(request["config"]) ? request["config"] : {};
  const kinds: [string, Decision["kind"]][] = [["accept", "approve"], ["edit", "edit"], ["respond", "respond"], ["ignore", "reject"]];
  const allowed = new Set(kinds.filter(([name]) => config[`allow_${name}`] === true).map(([, kind]) => kind));
  const schema = isObject(args) && isObject(args["requestedSchema"]) ? args["requestedSchema"] : undefined;
  const question = isObject(args) ? textIn(args["message"]) : "";
  const description = textIn(request["description"]);
  return { action: textIn(action), args, description, allowed, ...(schema ? { schema, question } : {}) };
}

function inboxAnswer(decision: Decision): unknown {
  switch (decision.kind) {
    case "approve": return { type: "accept", args: null };
    case "edit": return { type: "edit", args: decision.args };
    case "reject": return { type: "ignore", args: decision.reason || null };
    case "respond": return { type: "response", args: decision.value };
  }
}

function middlewareRequest(request: Json, reviews: Json[]): Request {
  const action = textIn(request["name"]);
  const review = reviews.find((each) => each["action_name"] === action);
  const kinds = (review?.["allowed_decisions"] ?? ["approve", "edit", "reject"]) as Decision["kind"][];
  const args = request["args"] ?? request["arguments"];
  return { action, args, description: textIn(request["description"]), allowed: new Set(kinds) };
}

function middlewareAnswer(decision: Decision, name: string): unknown {
  switch (decision.kind) {
    case "approve": return { type: "approve" };
    case "edit": return { type: "edit", edited_action: { name, args: decision.args } };
    case "reject": return { type: "reject", ...(decision.reason ? { message: decision.reason } : {}) };
    case "respond": return { type: "respond", message: decision.value };
  }
}

/** Our server repeats a request whose answer was invalid, and puts the reason first. */
export function problemIn(request: Request): string {
  return /^The answer could not be used: (?<problem>[^]*?)\n\n/.exec(request.description)?.groups?.["problem"] ?? "";
}
