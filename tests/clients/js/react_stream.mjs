// useStream of @langchain/react 1.1, in jsdom: it speaks the newer protocol only.

import { mount } from "./mounted.mjs";
import { cuttingProxy } from "./cutting_proxy.mjs";
import { assert, human, newClient, newGate, runScenarios, scenario, url } from "./scenarios.mjs";

const { useMessageMetadata, useStream } = await import("@langchain/react");

const client = newClient();
const webSocketFactory = (address) => new window.WebSocket(address);
const mounted = (options) => mount(() => useStream({ apiUrl: url, webSocketFactory, ...options }));
const texts = (stream) => stream.messages.map((message) => message.text);
const lastText = (stream) => texts(stream).at(-1);
const ready = (stream) => !stream.isThreadLoading;
const done = (stream) => ready(stream) && !stream.isLoading && stream.messages.length > 0;

scenario("a submitted message makes the thread and its answer streams in over SSE", () => streaming("sse"));
scenario("a submitted message makes the thread and its answer streams in over a WebSocket", () => streaming("websocket"));

async function streaming(transport) {
  const seen = { threads: [], runs: [] };
  const hook = mounted({
    assistantId: "talk",
    transport,
    onThreadId: (threadId) => seen.threads.push(threadId),
    onCreated: (run) => seen.runs.push(run.run_id ?? run.runId),
  });
  const gate = newGate();
  const submitting = (await hook.until(ready)).submit(human(`one ${gate.word} two`));
  const half = await hook.until((stream) => lastText(stream) === "you said: one");
  assert.ok(half.isLoading);
  await gate.open();
  await submitting;
  const talk = `one ${gate.word} two,you said: one two`;
  const stream = await hook.until((shown) => done(shown) && String(texts(shown)) === talk);
  assert.equal(stream.error, undefined);
  const threadId = seen.threads.at(-1);
  assert.equal(stream.threadId, threadId);
  assert.deepEqual((await client.runs.list(threadId)).map((run) => run.run_id), seen.runs);
  hook.unmount();
}

scenario("a conversation continues and is shown by another page", async () => {
  const { thread_id: threadId } = await client.threads.create();
  const hook = mounted({ assistantId: "talk", threadId });
  await (await hook.until(ready)).submit(human("first"));
  await (await hook.until((stream) => done(stream) && stream.messages.length === 2)).submit(human("second"));
  const talk = "first,you said: first,second,you said: second";
  await hook.until((stream) => done(stream) && String(texts(stream)) === talk);
  hook.unmount();
  const page = mounted({ assistantId: "talk", threadId });
  await page.until((stream) => done(stream) && String(texts(stream)) === talk);
  page.unmount();
});

scenario("a question is shown and its answer resumes the run over SSE", () => answering("sse"));
scenario("a question is shown and its answer resumes the run over a WebSocket", () => answering("websocket"));

async function answering(transport) {
  const { thread_id: threadId } = await client.threads.create();
  const hook = mounted({ assistantId: "approve", threadId, transport });
  await (await hook.until(ready)).submit(human("hello"));
  const asking = await hook.until((stream) => done(stream) && stream.interrupt);
  assert.deepEqual(asking.interrupt.value, { question: "Send it?", args: { text: "hello" } });
  await asking.respond("yes");
  const talk = "hello,,decided: yes,you said: decided: yes";
  await hook.until((stream) => done(stream) && !stream.interrupt && String(texts(stream)) === talk);
  assert.equal((await client.threads.getState(threadId)).next.length, 0);
  hook.unmount();
}

scenario("an interrupt from before the page was loaded is answered", async () => {
  const { thread_id: threadId } = await client.threads.create();
  await client.runs.wait(threadId, "approve", { input: human("hello") });
  const hook = mounted({ assistantId: "approve", threadId });
  const asking = await hook.until((stream) => ready(stream) && stream.interrupt);
  await asking.respond("no", { interruptId: asking.interrupt.id });
  await hook.until((stream) => !stream.interrupt && lastText(stream) === "you said: decided: no");
  hook.unmount();
});

scenario("stop cancels the run", async () => {
  const { thread_id: threadId } = await client.threads.create();
  const hook = mounted({ assistantId: "talk", threadId });
  const gate = newGate();
  const submitting = (await hook.until(ready)).submit(human(`one ${gate.word}`));
  const half = await hook.until((stream) => lastText(stream) === "you said: one");
  await half.stop();
  await submitting;
  await hook.until((stream) => !stream.isLoading);
  const [run] = await client.runs.list(threadId);
  await client.runs.join(threadId, run.run_id);
  assert.equal((await client.runs.get(threadId, run.run_id)).status, "interrupted");
  hook.unmount();
});

scenario("a page that is loaded again shows the run that is under way", async () => {
  const { thread_id: threadId } = await client.threads.create();
  const options = { assistantId: "talk", threadId };
  const gate = newGate();
  const hook = mounted(options);
  (await hook.until(ready)).submit(human(`one ${gate.word} two`));
  await hook.until((stream) => lastText(stream) === "you said: one");
  hook.unmount();
  const again = mounted(options);
  await again.until((stream) => lastText(stream) === "you said: one");
  await gate.open();
  const whole = (stream) => lastText(stream) === "you said: one two" && stream.messages.length === 2;
  await again.until((stream) => done(stream) && whole(stream));
  again.unmount();
});

scenario("an edited message forks the conversation", async () => {
  const { thread_id: threadId } = await client.threads.create();
  const hook = mounted({ assistantId: "talk", threadId });
  await (await hook.until(ready)).submit(human("first"));
  const before = await hook.until((stream) => done(stream) && stream.messages.length === 2);
  const beforeAll = (await client.threads.getHistory(threadId)).find((past) => past.next[0] === "__start__");
  await before.submit(human("edited"), { forkFrom: beforeAll.checkpoint.checkpoint_id });
  // Tokens may arrive a moment before the state that takes away what was forked from.
  await hook.until((stream) => done(stream) && String(texts(stream)) === "edited,you said: edited");
  const { values } = await client.threads.getState(threadId);
  assert.deepEqual(values.messages.map((message) => message.id), hook.shown().messages.map((message) => message.id));
  hook.unmount();
});

scenario("a page learns which checkpoint its messages came from", async () => {
  const { thread_id: threadId } = await client.threads.create();
  const useAnswer = () => {
    const stream = useStream({ apiUrl: url, webSocketFactory, assistantId: "talk", threadId });
    return { stream, about: useMessageMetadata(stream, stream.messages[1]?.id) };
  };
  const hook = mount(useAnswer, ({ stream }) => stream.messages);
  await (await hook.until(({ stream }) => ready(stream))).stream.submit(human("first"));
  const { about } = await hook.until((shown) => done(shown.stream) && shown.about?.parentCheckpointId);
  const [head] = await client.threads.getHistory(threadId, { limit: 1 });
  assert.equal(about.parentCheckpointId, head.parent_checkpoint.checkpoint_id);
  hook.unmount();
});

scenario("a cut connection costs no token", async () => {
  const proxy = await cuttingProxy(url);
  const { thread_id: threadId } = await client.threads.create();
  const hook = mounted({ apiUrl: proxy.url, assistantId: "talk", threadId });
  const gate = newGate();
  const submitting = (await hook.until(ready)).submit(human(`one ${gate.word} two`));
  await hook.until((stream) => lastText(stream) === "you said: one");
  await gate.reached();
  void proxy.cut();
  await gate.open();
  await submitting;
  await hook.until((stream) => done(stream) && lastText(stream) === "you said: one two");
  hook.unmount();
  proxy.close();
});

scenario("a page shows that a run failed", async () => {
  const { thread_id: threadId } = await client.threads.create();
  const hook = mounted({ assistantId: "broken", threadId });
  await (await hook.until(ready)).submit({ n: 1 });
  const failed = await hook.until((stream) => stream.error && !stream.isLoading);
  assert.match(String(failed.error), /cannot go on from 2/);
  hook.unmount();
});

scenario("a subgraph is discovered while it works", async () => {
  const { thread_id: threadId } = await client.threads.create();
  const hook = mounted({ assistantId: "family", threadId });
  await (await hook.until(ready)).submit({ n: 1 });
  const stream = await hook.until((shown) => shown.values.answer && shown.subgraphsByNode.size > 0);
  assert.deepEqual([...stream.subgraphsByNode.keys()], ["child"]);
  assert.equal(stream.values.answer, "unasked");
  hook.unmount();
});

await runScenarios();
