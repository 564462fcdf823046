// @vitest-environment jsdom
import { expect, test } from "vitest";

import { readInterrupt } from "./interrupts";
import { type ChatMessage, joinFork, markdownBlocks, reasoningOf, rowsOf } from "./messages";

test("Markdown is cut between blocks, never inside a fence or a list", () => {
  const fence = "```py\na\n\nb\n```";
  expect(markdownBlocks(`one\n\n${fence}\n\n- x\n\n- y\n\nend`)).toEqual(["one\n", `${fence}\n\n- x\n\n- y\n`, "end"]);
  expect(markdownBlocks("")).toEqual([""]);
});

test("reasoning is read in each provider's form", () => {
  const content = [{ type: "reasoning", reasoning: "a" }, { type: "thinking", thinking: "b" }, { type: "text", text: "c" }];
  expect(reasoningOf({ type: "ai", content })).toBe("ab");
});

const human: ChatMessage = { type: "human", id: "h", content: "?" };
const calling: ChatMessage = { type: "ai", id: "c", content: "", tool_calls: [{ id: "1", name: "t", args: {} }, { id: "2", name: "t", args: {} }] };
const result: ChatMessage = { type: "tool", id: "r", content: "!", tool_call_id: "1" };

test("results are shown with their calls, and a cut answer behind the message that it followed", () => {
  const cut = { threadId: "t", afterId: "h", message: { type: "ai", id: "x", content: "par" } };
  const rows = rowsOf([human, calling, result], [cut], "running");
  expect(rows.map((row) => [row.message.id, row.callStates, row.isPartial])).toEqual([
    ["h", [], false], ["x", [], true], ["c", ["success", "running"], false],
  ]);
});

test("while a fork starts, the messages of the other branch are hidden", () => {
  const shown = joinFork([human, calling, { ...human, id: "new" }], { threadId: "t", base: [], hidden: new Set(["h", "c"]) });
  expect(shown.map((message) => message.id)).toEqual(["new"]);
});

test("an answer has the form of its interrupt", () => {
  const request = { action_request: { action: "t", args: {} }, config: { allow_accept: true } };
  expect(readInterrupt([request]).answer([{ kind: "approve" }])).toEqual([{ type: "accept", args: null }]);
  expect(readInterrupt(request).answer([{ kind: "reject", value: "no" }])).toEqual({ type: "ignore", args: "no" });
  const middleware = { action_requests: [{ name: "t", args: {} }], review_configs: [{ action_name: "t", allowed_decisions: ["edit"] }] };
  const { requests, answer } = readInterrupt(middleware);
  expect(requests[0]?.allowed).toEqual(new Set(["edit"]));
  expect(answer([{ kind: "edit", value: { a: 1 } }])).toEqual({ decisions: [{ type: "edit", edited_action: { name: "t", args: { a: 1 } } }] });
  expect(readInterrupt({ question: "?" }).requests[0]?.schema).toBeUndefined();
});
