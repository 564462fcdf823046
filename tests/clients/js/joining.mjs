import { cuttingProxy } from "./cutting_proxy.mjs";
import { all, assert, human, newClient, newGate, runScenarios, scenario, url } from "./scenarios.mjs";

const client = newClient();
const newThread = async () => (await client.threads.create()).thread_id;
const tuples = { streamMode: "messages-tuple", streamResumable: true };
const text = (parts) => parts.flatMap((part) => (part.event === "messages" ? [part.data[0].content] : [])).join("");

scenario("a resumable run is replayed from its beginning or from any id", async () => {
  const threadId = await newThread();
  const parts = await all(client.runs.stream(threadId, "talk", { input: human("over again"), ...tuples }));
  const ids = parts.map((part) => part.id);
  assert.equal(new Set(ids).size, ids.length);
  const runId = parts[0].data.run_id;
  const joined = (options) => all(client.runs.joinStream(threadId, runId, options));
  assert.deepEqual(await joined({ lastEventId: "-1" }), parts);
  assert.deepEqual(await joined({ lastEventId: ids[2] }), parts.slice(3));
  assert.deepEqual(await joined({ lastEventId: ids.at(-1) }), []);
  assert.deepEqual(await joined({ lastEventId: "-1", streamMode: ["messages", "values"] }), parts.slice(1));
});

scenario("a run is joined without its thread", async () => {
  const gate = newGate();
  const run = await client.runs.create(null, "talk", { input: human(`a ${gate.word} b`), ...tuples });
  await gate.reached();
  const joining = all(client.runs.joinStream(null, run.run_id, { lastEventId: "-1" }));
  await gate.open();
  const parts = await joining;
  assert.equal(parts[0].event, "metadata");
  assert.equal(text(parts), "you said: a b");
});

scenario("a disconnect cancels a joined run on request", async () => {
  const threadId = await newThread();
  const gate = newGate();
  const run = await client.runs.create(threadId, "talk", { input: human(gate.word), ...tuples });
  await gate.reached();
  const leave = new AbortController();
  for await (const part of client.runs.joinStream(threadId, run.run_id, {
    lastEventId: "-1",
    cancelOnDisconnect: true,
    signal: leave.signal,
  })) {
    assert.equal(part.event, "metadata");
    leave.abort();
    break;
  }
  await client.runs.join(threadId, run.run_id);
  assert.equal((await client.runs.get(threadId, run.run_id)).status, "interrupted");
});

scenario("a stream whose connection is cut continues without a gap", async () => {
  const proxy = await cuttingProxy(url);
  const threadId = await newThread();
  const gate = newGate();
  const received = [];
  const stream = newClient(proxy.url).runs.stream(threadId, "talk", {
    input: human(`before ${gate.word} after the cut`),
    ...tuples,
  });
  for await (const part of stream) {
    received.push(part);
    if (text(received) === "you said: before") {
      await gate.reached();
      void proxy.cut();
      await gate.open();
    }
  }
  assert.equal(text(received), "you said: before after the cut");
  const ids = received.map((part) => part.id);
  assert.equal(new Set(ids).size, ids.length);
  assert.deepEqual(await all(client.runs.joinStream(threadId, received[0].data.run_id, { lastEventId: "-1" })), received);
  proxy.close();
});

scenario("a cut stream without a thread continues without a gap", async () => {
  const proxy = await cuttingProxy(url);
  const gate = newGate();
  const received = [];
  const stream = newClient(proxy.url).runs.stream(null, "talk", {
    input: human(`before ${gate.word} after`),
    ...tuples,
  });
  for await (const part of stream) {
    received.push(part);
    if (text(received) === "you said: before") {
      await gate.reached();
      // The run must not end before the client is back: it would be gone with its temporary thread.
      void proxy.cut().then(gate.open);
    }
  }
  assert.equal(text(received), "you said: before after");
  proxy.close();
});

await runScenarios({ atOnce: 8 });
