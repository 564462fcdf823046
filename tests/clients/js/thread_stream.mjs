// client.threads.stream of SDK 1.15: the newer protocol, over SSE and over a WebSocket.

import { JSDOM } from "jsdom";

import { cuttingProxy } from "./cutting_proxy.mjs";
import { assert, human, newClient, newGate, runScenarios, scenario, url } from "./scenarios.mjs";

// A browser's WebSocket: it names the page's origin.
const { window } = new JSDOM("", { url: "http://localhost:3000/" });

const client = newClient();
const webSocketFactory = (address) => new window.WebSocket(address);
const opened = (assistantId, transport, { at = url, threadId = crypto.randomUUID(), ...options } = {}) =>
  newClient(at).threads.stream(threadId, { assistantId, transport, webSocketFactory, ...options });

/** Subscribe until the run is over, and return its end and its interrupts. */
async function ended(thread) {
  const interrupts = [];
  for await (const { method, params } of await thread.subscribe(["lifecycle", "input"])) {
    if (method === "input.requested") interrupts.push({ namespace: params.namespace, ...params.data });
    else if (params.namespace.length === 0 && params.data.event !== "running") return { ...params.data, interrupts };
  }
  throw new Error("the subscription ended before the run");
}

scenario("tokens come one by one over SSE", () => tokens("sse"));
scenario("tokens come one by one over a WebSocket", () => tokens("websocket"));

async function tokens(transport) {
  const thread = opened("talk", transport);
  const gate = newGate();
  const { run_id: runId } = await thread.run.start({ input: human(`good ${gate.word} morning`) });
  const received = [];
  for await (const message of thread.messages) {
    for await (const token of message.text) {
      received.push(token);
      if (received.join("") === "you said: good") await gate.open();
    }
  }
  assert.deepEqual(received, ["you said:", " good", " morning"]);
  const output = await thread.output;
  assert.equal(output.messages.at(-1).text, "you said: good morning");
  assert.equal((await client.runs.get(thread.threadId, runId)).status, "success");
  await thread.close();
}

scenario("a question inside a subgraph is answered over SSE", () => answered("sse"));
scenario("a question inside a subgraph is answered over a WebSocket", () => answered("websocket"));

async function answered(transport) {
  const thread = opened("family", transport);
  const over = ended(thread);
  await thread.run.start({ input: { n: 1, ask: true } });
  const { event, interrupts } = await over;
  assert.equal(event, "interrupted");
  const [{ interrupt_id, namespace, payload }] = interrupts;
  assert.deepEqual(payload, { question: 3 });
  assert.match(namespace[0], /^child:/);
  // At once, though the thread may not yet say that it is interrupted.
  await thread.input.respond({ interrupt_id, namespace, response: "yes" });
  const [run] = await client.runs.list(thread.threadId);
  assert.deepEqual(await client.runs.join(thread.threadId, run.run_id), { n: 3, ask: true, answer: "yes" });
  await thread.close();
}

scenario("a failed run shows its error over SSE", () => failed("sse"));
scenario("a failed run shows its error over a WebSocket", () => failed("websocket"));

async function failed(transport) {
  const thread = opened("broken", transport);
  const over = ended(thread);
  await thread.run.start({ input: { n: 1 } });
  const { event, error } = await over;
  assert.equal(event, "failed");
  assert.match(JSON.stringify(error), /cannot go on from 2/);
  await thread.close();
}

scenario("a late subscriber receives all events over SSE", () => late("sse"));
scenario("a late subscriber receives all events over a WebSocket", () => late("websocket"));

async function late(transport) {
  const first = opened("count", transport);
  await first.run.start({ input: { n: 1 } });
  assert.equal((await first.output).n, 4);
  const second = opened("count", transport, { threadId: first.threadId });
  const values = [];
  for await (const event of await second.subscribe(["values", "lifecycle"])) {
    if (event.method === "values") values.push(event.params.data.n);
    if (event.params.data.event === "completed") break;
  }
  assert.deepEqual(values.filter((n, at) => n !== values[at - 1]), [1, 2, 4]);
  await Promise.all([first.close(), second.close()]);
}

scenario("a cut connection costs nothing over SSE", () => cut("sse"));
scenario("a cut connection costs nothing over a WebSocket", () => cut("websocket"));

async function cut(transport) {
  const proxy = await cuttingProxy(url);
  const gate = newGate();
  let connections = 0;
  // The model continues when the client is back: this client receives no tokens of a run that ended meanwhile.
  const onConnected = () => {
    connections += 1;
    if (connections > 1) void gate.open();
  };
  const thread = opened("talk", transport, { at: proxy.url, onConnected });
  await thread.run.start({ input: human(`before ${gate.word} after`) });
  const received = [];
  for await (const message of thread.messages) {
    for await (const token of message.text) {
      received.push(token);
      if (received.join("") === "you said: before") {
        await gate.reached();
        void proxy.cut();
      }
    }
  }
  assert.deepEqual(received, ["you said:", " before", " after"]);
  await thread.close();
  proxy.close();
}

scenario("a cancelled run is shown as interrupted", async () => {
  const thread = opened("talk", "sse");
  const gate = newGate();
  const over = ended(thread);
  const { run_id: runId } = await thread.run.start({ input: human(gate.word) });
  await gate.reached();
  await client.runs.cancel(thread.threadId, runId);
  assert.equal((await over).event, "interrupted");
  assert.equal((await client.runs.get(thread.threadId, runId)).status, "interrupted");
  await thread.close();
});

scenario("a run forks from a checkpoint", async () => {
  const thread = opened("count", "sse");
  await thread.run.start({ input: { n: 1 } });
  await thread.output;
  const history = await client.threads.getHistory(thread.threadId);
  const afterAdd = history.find((past) => past.next[0] === "double");
  const { run_id: runId } = await thread.submitRun({ input: null, forkFrom: afterAdd.checkpoint.checkpoint_id });
  assert.deepEqual(await client.runs.join(thread.threadId, runId), { n: 4, log: ["add", "double"] });
  assert.ok((await client.threads.getHistory(thread.threadId)).length > history.length);
  await thread.close();
});

await runScenarios();
