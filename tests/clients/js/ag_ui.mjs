// HttpAgent of @ag-ui/client 1.0 against POST /agui/{assistant_id}.

import { HttpAgent } from "@ag-ui/client";

import { assert, human, newClient, newGate, runScenarios, scenario, url } from "./scenarios.mjs";

const client = newClient();
const CITY = {
  name: "get_weather",
  description: "Get the weather of a city",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};

/** Make an agent of one assistant; its `events` are those that it received. */
function newAgent(assistant, options = {}) {
  const agent = new HttpAgent({ url: `${url}/agui/${assistant}`, threadId: crypto.randomUUID(), ...options });
  const events = [];
  agent.subscribe({ onEvent: ({ event }) => void events.push(event) });
  return { agent, events, types: () => events.map((event) => event.type), last: () => events.at(-1) };
}

/** Say something, and run the agent. */
async function say({ agent }, content, parameters = {}) {
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content });
  return agent.runAgent(parameters);
}

const withoutRepeats = (types) => types.filter((type, at) => type !== types[at - 1]);
/** The order in which messages start and end, without their contents. */
const borders = ({ events }) =>
  events.filter(({ type }) => /TEXT_MESSAGE_(START|END)/.test(type)).map(({ type, messageId }) => [type, messageId]);
const contents = ({ agent }) => agent.messages.map((message) => message.content);

scenario("an answer streams in, with the run's steps, custom data and state", async () => {
  const one = newAgent("talk");
  await say(one, "hello there", { runId: "run-1" });
  assert.deepEqual(withoutRepeats(one.types()), [
    "RUN_STARTED",
    "CUSTOM",
    "STEP_STARTED",
    "STEP_FINISHED",
    "STEP_STARTED",
    "TEXT_MESSAGE_START",
    "TEXT_MESSAGE_CONTENT",
    "TEXT_MESSAGE_END",
    "STEP_FINISHED",
    "STATE_SNAPSHOT",
    "RUN_FINISHED",
  ]);
  assert.deepEqual(contents(one), ["hello there", "you said: hello there"]);
  const [start, custom] = one.events;
  assert.deepEqual([start.runId, start.threadId], ["run-1", one.agent.threadId]);
  assert.deepEqual([custom.name, custom.value], ["custom", { message_count: 1 }]);
  assert.deepEqual([one.last().runId, one.last().outcome.type], ["run-1", "success"]);
});

scenario("a conversation continues on its thread, and no message is stored twice", async () => {
  const one = newAgent("talk");
  await say(one, "first");
  await say(one, "second");
  const talk = ["first", "you said: first", "second", "you said: second"];
  assert.deepEqual(contents(one), talk);
  const { values } = await client.threads.getState(one.agent.threadId);
  assert.deepEqual(values.messages.map((message) => message.content), talk);
  assert.deepEqual(values.messages.map((message) => message.id), one.agent.messages.map((message) => message.id));
});

scenario("a conversation that began elsewhere is stored with its first run", async () => {
  const initialMessages = [
    { id: "1", role: "user", content: "long ago" },
    { id: "2", role: "assistant", content: "far away" },
  ];
  const one = newAgent("talk", { initialMessages });
  await say(one, [{ type: "text", text: "now" }]);
  const { values } = await client.threads.getState(one.agent.threadId);
  assert.deepEqual(values.messages.map((message) => message.type), ["human", "ai", "human", "ai"]);
  assert.equal(values.messages[3].content, "you said: now");
});

scenario("calls of the server's tools are shown with their results", async () => {
  const one = newAgent("agent");
  await say(one, "double(n=21)");
  const calls = one.events.filter((event) => event.type.startsWith("TOOL_CALL"));
  assert.deepEqual(calls.map((event) => event.type), [
    "TOOL_CALL_START",
    "TOOL_CALL_ARGS",
    "TOOL_CALL_END",
    "TOOL_CALL_RESULT",
  ]);
  assert.deepEqual([calls[0].toolCallName, calls[1].delta, calls[3].content], ["double", '{"n": 21}', "42"]);
  assert.deepEqual(one.agent.messages.map((message) => message.role), ["user", "assistant", "tool", "assistant"]);
  assert.equal(contents(one).at(-1), "done: 42");
});

scenario("a call of a client's tool ends the run, and its result continues", async () => {
  const one = newAgent("agent");
  await say(one, "get_weather(city=Oslo) double(n=4)", { tools: [CITY] });
  const [callId] = one.last().outcome.pendingToolCallIds;
  const call = one.events.find((event) => event.type === "TOOL_CALL_START" && event.toolCallId === callId);
  assert.equal(call.toolCallName, "get_weather");
  one.agent.addMessage({ id: crypto.randomUUID(), role: "tool", toolCallId: callId, content: "rain" });
  await one.agent.runAgent({ tools: [CITY] });
  assert.equal(one.last().outcome.pendingToolCallIds, undefined);
  assert.match(contents(one).at(-1), /^done: (rain, 8|8, rain)$/);
});

scenario("an approval is an interrupt, and resume answers it", async () => {
  for (const [entry, expected] of [
    [{ status: "resolved", payload: [{ type: "accept" }] }, "done: removed it"],
    [{ status: "cancelled" }, "done: The user rejected this call; it was not executed."],
  ]) {
    const one = newAgent("agent");
    await say(one, "remove(name=it)");
    const { type, interrupts } = one.last().outcome;
    assert.deepEqual([type, interrupts.length, interrupts[0].reason], ["interrupt", 1, "input_required"]);
    assert.match(interrupts[0].message, /wants to call remove/);
    assert.equal(interrupts[0].responseSchema.type, "array");
    await one.agent.runAgent({ resume: [{ interruptId: interrupts[0].id, ...entry }] });
    assert.equal(contents(one).at(-1), expected);
    assert.equal(one.last().outcome.type, "success");
  }
});

scenario("any interrupt of a graph can be answered with any value", async () => {
  const one = newAgent("approve");
  await say(one, "hello");
  const [interrupt] = one.last().outcome.interrupts;
  assert.equal(interrupt.reason, "langgraph:interrupt");
  assert.deepEqual(interrupt.metadata.langgraph.value, { question: "Send it?", args: { text: "hello" } });
  await one.agent.runAgent({ resume: [{ interruptId: interrupt.id, status: "resolved", payload: "yes" }] });
  assert.equal(contents(one).at(-1), "you said: decided: yes");
});

scenario("a run without an answer to the open interrupt is refused, and the interrupt stays", async () => {
  const one = newAgent("approve");
  await say(one, "hello");
  const [{ id }] = one.last().outcome.interrupts;
  const asked = (body) =>
    fetch(`${url}/agui/approve`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ threadId: one.agent.threadId, runId: "2", messages: [], ...body }),
    }).then((response) => response.text());
  for (const body of [{}, { resume: [{ interruptId: "other", status: "cancelled" }] }]) {
    const text = await asked(body);
    assert.match(text, /"RUN_STARTED"/);
    assert.match(text, /"RUN_ERROR".*INVALID_RESUME/);
  }
  assert.match(await asked({ resume: [{ interruptId: id, status: "resolved", payload: "no" }] }), /decided: no/);
});

scenario("the state of the client reaches the graph, and the graph's state the client", async () => {
  const one = newAgent("fails", { initialState: { colour: "blue", unknown: 1 } });
  await say(one, "paint");
  assert.deepEqual(one.agent.state, { colour: "light blue" });
  await say(one, "paint");
  assert.deepEqual(one.agent.state, { colour: "light light blue" });
});

scenario("messages that one node streams at the same time follow each other", async () => {
  const one = newAgent("duet");
  const gate = newGate();
  const running = say(one, `la ${gate.word} lu`);
  await gate.reached();
  await gate.open();
  await running;
  const order = borders(one);
  for (const [at, [type, id]] of order.entries()) {
    assert.deepEqual([type, id], at % 2 ? ["TEXT_MESSAGE_END", order[at - 1][1]] : ["TEXT_MESSAGE_START", id]);
  }
  assert.ok(order.length > 4, "the messages did not overlap");
  assert.deepEqual(contents(one).slice(1).sort(), ["alto: la lu", "bass: la lu"]);
});

scenario("a run that is cancelled by another client ends as cancelled", async () => {
  const one = newAgent("talk");
  const gate = newGate();
  const running = say(one, `one ${gate.word}`);
  await gate.reached();
  const [run] = await client.runs.list(one.agent.threadId);
  await client.runs.cancel(one.agent.threadId, run.run_id);
  await running;
  assert.deepEqual([one.last().type, one.last().outcome.type], ["RUN_FINISHED", "cancelled"]);
  assert.equal(borders(one).length, 2);
});

scenario("a client that leaves while its run waits for another one cancels it", async () => {
  const one = newAgent("talk");
  const gate = newGate();
  const first = await client.runs.create(one.agent.threadId, "talk", {
    input: human(`one ${gate.word}`),
    ifNotExists: "create",
  });
  await gate.reached();
  const running = say(one, "two").catch(() => undefined);
  const second = await waitingRun(one.agent.threadId);
  one.agent.abortRun();
  await running;
  await client.runs.join(one.agent.threadId, second.run_id);
  assert.equal((await client.runs.get(one.agent.threadId, second.run_id)).status, "interrupted");
  assert.equal((await client.runs.get(one.agent.threadId, first.run_id)).status, "running");
  await gate.open();
  await client.runs.join(one.agent.threadId, first.run_id);
});

/** Wait until a run waits for another one of its thread. */
async function waitingRun(threadId) {
  for (;;) {
    const [run] = await client.runs.list(threadId, { status: "pending" });
    if (run) return run;
  }
}

scenario("any form of a UUID names the thread", async () => {
  const threadId = crypto.randomUUID();
  const one = newAgent("talk", { threadId: threadId.replaceAll("-", "").toUpperCase() });
  await say(one, "first");
  await say(one, "second");
  assert.deepEqual(contents(one), ["first", "you said: first", "second", "you said: second"]);
  assert.equal((await client.threads.getState(threadId)).values.messages.length, 4);
});

scenario("a failed run ends with an error that tells no details", async () => {
  const one = newAgent("fails");
  await say(one, "fail");
  assert.deepEqual(borders(one).map(([type]) => type), ["TEXT_MESSAGE_START", "TEXT_MESSAGE_END"]);
  assert.equal(one.types().at(-2), "STEP_FINISHED");
  assert.deepEqual([one.last().type, one.last().code], ["RUN_ERROR", "502"]);
  assert.doesNotMatch(one.last().message, /secret/);
});

scenario("a run ends when its client aborts it", async () => {
  const one = newAgent("talk");
  const gate = newGate();
  const running = say(one, `one ${gate.word}`).catch(() => undefined);
  await gate.reached();
  one.agent.abortRun();
  await running;
  const [run] = await client.runs.list(one.agent.threadId);
  await client.runs.join(one.agent.threadId, run.run_id);
  assert.equal((await client.runs.get(one.agent.threadId, run.run_id)).status, "interrupted");
});

scenario("what cannot be run is refused", async () => {
  const hello = { id: "1", role: "user", content: "hello" };
  const post = (assistant, body) =>
    fetch(`${url}/agui/${assistant}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ threadId: crypto.randomUUID(), runId: "1", messages: [hello], ...body }),
    }).then((response) => response.status);
  assert.equal(await post("talk", { messages: [] }), 400);
  assert.equal(await post("talk", { messages: [hello, hello] }), 400);
  const twice = { interruptId: "1", status: "cancelled" };
  assert.equal(await post("talk", { resume: [twice, twice] }), 400);
  assert.equal(await post("nobody"), 404);
  assert.equal(await post("count"), 404);
  assert.equal(await post("talk", { threadId: "one" }), 422);
  assert.equal(await post("talk", { messages: [{ role: "user" }] }), 422);
  assert.equal(await post("talk", { tools: [CITY] }), 400);
  const content = [{ type: "image", source: { type: "file", value: "1", provider: "other" } }];
  assert.equal(await post("talk", { messages: [{ id: "1", role: "user", content }] }), 400);
});

await runScenarios();
