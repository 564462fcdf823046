import { all, assert, human, names, newClient, newGate, refused, runScenarios, scenario } from "./scenarios.mjs";

const client = newClient();
const newThread = async () => (await client.threads.create()).thread_id;

scenario("a stream of values begins with the run's metadata", async () => {
  const threadId = await newThread();
  const created = [];
  const parts = await all(
    client.runs.stream(threadId, "count", { input: { n: 1 }, onRunCreated: (run) => created.push(run) }),
  );
  const [metadata, ...values] = parts;
  assert.deepEqual(created, [{ run_id: metadata.data.run_id, thread_id: threadId }]);
  assert.equal(metadata.event, "metadata");
  assert.deepEqual(values.map((part) => part.data.n), [1, 2, 4]);
  assert.equal((await client.runs.get(threadId, metadata.data.run_id)).status, "success");
});

scenario("tokens arrive one by one as message tuples", async () => {
  const parts = await all(
    client.runs.stream(await newThread(), "talk", { input: human("good morning"), streamMode: "messages-tuple" }),
  );
  const chunks = parts.filter((part) => part.event === "messages").map((part) => part.data);
  assert.equal(chunks.map(([message]) => message.content).join(""), "you said: good morning");
  assert.ok(chunks.length >= 3);
  assert.equal(new Set(chunks.map(([message]) => message.id)).size, 1);
  assert.ok(chunks.every(([message, about]) => message.type === "AIMessageChunk" && about.langgraph_node === "model"));
});

scenario("several modes come in one stream", async () => {
  const streamMode = ["values", "updates", "custom", "messages-tuple"];
  const parts = await all(client.runs.stream(await newThread(), "talk", { input: human("hi"), streamMode }));
  assert.deepEqual(names(parts), ["metadata", "values", "custom", "updates", "messages", "updates", "values"]);
  assert.deepEqual(parts.find((part) => part.event === "custom").data, { message_count: 1 });
});

scenario("a subgraph's events carry its namespace", async () => {
  const options = { input: { n: 1 }, streamMode: ["updates", "values"], streamSubgraphs: true };
  const parts = await all(client.runs.stream(await newThread(), "family", options));
  const inner = parts.filter((part) => /^updates\|child:[0-9a-f-]{36}$/.test(part.event));
  assert.deepEqual(inner.map((part) => part.data), [{ step: { n: 3 } }, { confirm: { answer: "unasked" } }]);
  assert.deepEqual(parts.filter((part) => part.event === "values").at(-1).data, { n: 3, answer: "unasked" });
});

scenario("a run is waited for with its context", async () => {
  const values = await client.runs.wait(await newThread(), "talk", { input: human("you"), context: { prefix: "hello" } });
  assert.equal(values.messages.at(-1).content, "hello you");
  assert.equal(values.messages.at(-1).type, "ai");
});

scenario("a failed run is thrown, or returned on request", async () => {
  const message = "ValueError: cannot go on from 2";
  await assert.rejects(client.runs.wait(await newThread(), "broken", { input: { n: 1 } }), new Error(message));
  const given = await client.runs.wait(await newThread(), "broken", { input: { n: 1 }, raiseError: false });
  assert.deepEqual(given.__error__, { error: "ValueError", message: "cannot go on from 2" });
  const parts = await all(client.runs.stream(await newThread(), "broken", { input: { n: 1 } }));
  assert.deepEqual(parts.at(-1), { id: undefined, event: "error", data: given.__error__ });
});

scenario("a run is created, listed, joined and deleted", async () => {
  const threadId = await newThread();
  const created = [];
  const run = await client.runs.create(threadId, "count", {
    input: { n: 2 },
    metadata: { by: "js" },
    onRunCreated: (one) => created.push(one),
  });
  assert.deepEqual(created, [{ run_id: run.run_id, thread_id: threadId }]);
  assert.deepEqual(await client.runs.join(threadId, run.run_id), { n: 6, log: ["add", "double"] });
  const [listed] = await client.runs.list(threadId, { status: "success", limit: 5 });
  assert.equal(listed.run_id, run.run_id);
  assert.equal(listed.metadata.by, "js");
  assert.deepEqual(await client.runs.list(threadId, { select: ["run_id", "status"] }), [
    { run_id: run.run_id, status: "success" },
  ]);
  assert.equal(await client.runs.delete(threadId, run.run_id), undefined);
  await refused(404, client.runs.get(threadId, run.run_id));
});

scenario("a run is cancelled, waiting for its end or not", async () => {
  for (const wait of [true, false]) {
    const threadId = await newThread();
    const gate = newGate();
    const run = await client.runs.create(threadId, "talk", { input: human(`one ${gate.word}`) });
    await gate.reached();
    await client.runs.cancel(threadId, run.run_id, wait, "interrupt");
    await client.runs.join(threadId, run.run_id);
    assert.equal((await client.runs.get(threadId, run.run_id)).status, "interrupted");
    assert.deepEqual((await client.threads.getState(threadId)).next, ["model"]);
    await refused(404, client.runs.cancel(threadId, run.run_id));
  }
});

scenario("a run is rolled back", async () => {
  const threadId = await newThread();
  const gate = newGate();
  const run = await client.runs.create(threadId, "talk", { input: human(gate.word) });
  await gate.reached();
  await client.runs.cancel(threadId, run.run_id, true, "rollback");
  await refused(404, client.runs.get(threadId, run.run_id));
  assert.deepEqual((await client.threads.getState(threadId)).values, {});
  assert.equal((await client.threads.get(threadId)).status, "idle");
});

scenario("many runs are cancelled at once", async () => {
  const threadId = await newThread();
  const gate = newGate();
  const first = await client.runs.create(threadId, "talk", { input: human(gate.word) });
  const second = await client.runs.create(threadId, "talk", { input: human("later") });
  await gate.reached();
  await client.runs.cancelMany({ threadId, runIds: [first.run_id, second.run_id] });
  await Promise.all([first, second].map((run) => client.runs.join(threadId, run.run_id)));
  const statuses = (await client.runs.list(threadId)).map((run) => run.status);
  assert.deepEqual(statuses, ["interrupted", "interrupted"]);
});

scenario("a busy thread refuses a second run with the strategy reject", async () => {
  const threadId = await newThread();
  const gate = newGate();
  const run = await client.runs.create(threadId, "talk", { input: human(gate.word) });
  await gate.reached();
  const second = { input: human("me too"), multitaskStrategy: "reject" };
  await refused(409, client.runs.create(threadId, "talk", second));
  await refused(409, all(client.runs.stream(threadId, "talk", second)));
  await gate.open();
  await client.runs.join(threadId, run.run_id);
});

scenario("an interrupt is seen and answered by a command", async () => {
  const threadId = await newThread();
  const parts = await all(
    client.runs.stream(threadId, "approve", { input: human("hello"), streamMode: ["values", "updates"] }),
  );
  const interrupts = parts.filter((part) => part.event === "updates").at(-1).data.__interrupt__;
  assert.deepEqual(interrupts[0].value, { question: "Send it?", args: { text: "hello" } });
  const thread = await client.threads.get(threadId);
  assert.equal(thread.status, "interrupted");
  assert.deepEqual(Object.values(thread.interrupts).flat().map((one) => one.id), [interrupts[0].id]);
  const state = await client.threads.getState(threadId);
  assert.deepEqual(state.tasks[0].interrupts[0].value, interrupts[0].value);
  const values = await client.runs.wait(threadId, "approve", { command: { resume: { [interrupts[0].id]: "yes" } } });
  assert.deepEqual(values.messages.map((message) => message.type), ["human", "ai", "tool", "ai"]);
  assert.equal(values.messages[2].content, "decided: yes");
  assert.equal(values.messages[3].content, "you said: decided: yes");
});

scenario("waiting for a run that interrupts returns the interrupt", async () => {
  const threadId = await newThread();
  const values = await client.runs.wait(threadId, "family", { input: { n: 1, ask: true } });
  assert.deepEqual(values.__interrupt__.map((one) => one.value), [{ question: 3 }]);
  const state = await client.threads.getState(threadId, undefined, { subgraphs: true });
  assert.deepEqual(state.next, ["child"]);
  assert.deepEqual(state.tasks[0].state.next, ["confirm"]);
  assert.deepEqual(await client.runs.wait(threadId, "family", { command: { resume: 7 } }), {
    n: 3,
    ask: true,
    answer: 7,
  });
});

scenario("a run stops before a node and continues without input", async () => {
  const threadId = await newThread();
  await client.runs.wait(threadId, "count", { input: { n: 1 }, interruptBefore: ["double"] });
  assert.deepEqual((await client.threads.getState(threadId)).next, ["double"]);
  assert.equal((await client.runs.wait(threadId, "count", { input: null })).n, 4);
});

scenario("runs without a thread leave nothing behind", async () => {
  const created = [];
  const parts = await all(
    client.runs.stream(null, "count", { input: { n: 1 }, onRunCreated: (run) => created.push(run) }),
  );
  assert.equal(parts.at(-1).data.n, 4);
  assert.equal(created[0].run_id, parts[0].data.run_id);
  assert.equal((await client.runs.wait(null, "count", { input: { n: 2 } })).n, 6);
  const run = await client.runs.create(null, "count", { input: { n: 1 }, onCompletion: "keep" });
  assert.equal((await client.runs.join(run.thread_id, run.run_id)).n, 4);
});

scenario("a batch of runs is created at once", async () => {
  const runs = await client.runs.createBatch(
    [1, 2].map((n) => ({ assistantId: "count", input: { n }, metadata: { n } })),
  );
  assert.deepEqual(runs.map((run) => run.metadata.n), [1, 2]);
  assert.ok(runs.every((run) => run.status === "pending" && run.thread_id));
});

await runScenarios();
