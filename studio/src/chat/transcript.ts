/** What a conversation shows: messages with their tool results, in order. */
import { callsOf, type ChatMessage, textOf } from "./messages";
import type { CallState } from "./tool_card";

/** An answer that was cut off: the thread does not have it, so the page keeps it behind the message that it followed. */
export interface Partial {
  threadId: string | null;
  afterId: string | undefined;
  message: ChatMessage;
}

/** A run that started from an earlier checkpoint: until its first state arrives, the stream still has the other branch. */
export interface Fork {
  threadId: string | null;
  base: ChatMessage[];
  hidden: Set<string | undefined>;
}

export interface Row {
  message: ChatMessage;
  results: ChatMessage[];
  callStates: CallState[];
  isPartial: boolean;
  isTurnEnd: boolean;
  /** At the end of an assistant's turn: the ids of the turn's messages. */
  turn: string[];
}

export function joinFork(streamed: ChatMessage[], fork: Fork | undefined): ChatMessage[] {
  if (!fork) return streamed;
  return [...fork.base, ...streamed.filter((message) => !fork.hidden.has(message.id))];
}

export function rowsOf(messages: ChatMessage[], partials: Partial[], openCall: CallState): Row[] {
  const results = new Map(messages.filter((message) => message.type === "tool").map((message) => [message.tool_call_id, message]));
  const called = new Set(messages.flatMap(callsOf).map((call) => call.id));
  const present = new Set(messages.map((message) => message.id));
  const rows: Row[] = [];
  for (const message of messages) {
    if (message.type !== "tool" || !called.has(message.tool_call_id)) rows.push(rowOf(message, results, openCall, false));
    const cut = partials.filter((partial) => partial.afterId === message.id && !present.has(partial.message.id));
    rows.push(...cut.map((partial) => rowOf(partial.message, results, "no result", true)));
  }
  let turn: string[] = [];
  return rows.map((row, index) => {
    turn = isAi(row.message) ? [...turn, row.message.id ?? ""] : [];
    const isTurnEnd = isAi(row.message) && !isAi(rows[index + 1]?.message);
    return { ...row, isTurnEnd, turn: isTurnEnd ? turn : [] };
  });
}

function rowOf(message: ChatMessage, all: Map<string | undefined, ChatMessage>, openCall: CallState, isPartial: boolean): Row {
  const calls = callsOf(message);
  const results = calls.flatMap((call) => all.get(call.id) ?? []);
  const callStates = calls.map((call) => {
    const result = all.get(call.id);
    return result === undefined ? openCall : (result.status ?? "success");
  });
  return { message, results, callStates, isPartial, isTurnEnd: false, turn: [] };
}

export function isAi(message: ChatMessage | undefined): boolean {
  return message?.type === "ai";
}

/** Whether the last message is an answer, so that nothing was cut off. */
export function isAnswered(messages: ChatMessage[]): boolean {
  const last = messages.at(-1);
  return isAi(last) && last !== undefined && callsOf(last).length === 0 && textOf(last.content) !== "";
}
