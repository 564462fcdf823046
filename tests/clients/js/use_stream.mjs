// useStream of @langchain/langgraph-sdk/react 1.15, in jsdom: what chat user interfaces are made of.

import { mount } from "./mounted.mjs";
import { cuttingProxy } from "./cutting_proxy.mjs";
import { assert, human, newClient, newGate, runScenarios, scenario, url } from "./scenarios.mjs";

const { useStream } = await import("@langchain/langgraph-sdk/react");

const client = newClient();
const newThread = async () => (await client.threads.create()).thread_id;
const contents = (stream) => stream.messages.map((message) => message.content);
const lastContent = (stream) => contents(stream).at(-1);
const mounted = (options, read) => mount(() => useStream({ apiUrl: url, apiKey: null, ...options }), read);
const ready = (stream) => !stream.isThreadLoading;
const done = (stream) => !stream.isLoading && stream.messages.length > 0;

scenario("a submitted message makes the thread and its answer streams in", async () => {
  const seen = { threads: [], runs: [], finished: [] };
  const hook = mounted({
    assistantId: "talk",
    onThreadId: (threadId) => seen.threads.push(threadId),
    onCreated: (run) => seen.runs.push(run),
    onFinish: (state) => seen.finished.push(state),
  });
  const gate = newGate();
  const submitting = (await hook.until(ready)).submit(human(`one ${gate.word} two`));
  const half = await hook.until((stream) => lastContent(stream) === "you said: one");
  assert.ok(half.isLoading);
  assert.equal(half.getMessagesMetadata(half.messages[1]).streamMetadata.langgraph_node, "model");
  await gate.open();
  await submitting;
  const stream = await hook.until(done);
  assert.deepEqual(contents(stream), [`one ${gate.word} two`, "you said: one two"]);
  assert.equal(stream.error, undefined);
  const [{ run_id: runId, thread_id: threadId }] = seen.runs;
  assert.deepEqual(seen.threads, [threadId]);
  assert.equal((await client.runs.get(threadId, runId)).status, "success");
  assert.equal(seen.finished[0].values.messages.length, 2);
  hook.unmount();
});

scenario("a conversation continues and is shown by another page", async () => {
  const threadId = await newThread();
  const hook = mounted({ assistantId: "talk", threadId, fetchStateHistory: true });
  await (await hook.until(ready)).submit(human("first"));
  await (await hook.until(done)).submit(human("second"));
  const talk = ["first", "you said: first", "second", "you said: second"];
  await hook.until((stream) => !stream.isLoading && stream.messages.length === 4);
  assert.deepEqual(contents(hook.shown()), talk);
  hook.unmount();
  for (const fetchStateHistory of [true, { limit: 2 }, false]) {
    const page = mounted({ assistantId: "talk", threadId, fetchStateHistory });
    assert.deepEqual(contents(await page.until(done)), talk);
    page.unmount();
  }
});

scenario("a question is shown and its answer resumes the run", async () => {
  const threadId = await newThread();
  const hook = mounted({ assistantId: "approve", threadId, fetchStateHistory: true });
  await (await hook.until(ready)).submit(human("hello"));
  const asking = await hook.until((stream) => !stream.isLoading && stream.interrupt);
  assert.deepEqual(asking.interrupt.value, { question: "Send it?", args: { text: "hello" } });
  assert.equal(asking.messages.at(-1).tool_calls[0].name, "send");
  hook.unmount();
  // The question is still there after the page has been loaded again.
  const again = mounted({ assistantId: "approve", threadId, fetchStateHistory: true });
  const found = await again.until((stream) => stream.interrupt);
  assert.equal(found.interrupt.id, asking.interrupt.id);
  await found.submit(undefined, { command: { resume: "yes" } });
  const answered = await again.until((stream) => !stream.isLoading && !stream.interrupt);
  assert.deepEqual(contents(answered).slice(2), ["decided: yes", "you said: decided: yes"]);
  assert.equal(answered.toolCalls[0].result.content, "decided: yes");
  again.unmount();
});

scenario("a breakpoint is shown as one, and going on passes it", async () => {
  const hook = mounted({ assistantId: "talk", threadId: await newThread(), fetchStateHistory: true });
  await (await hook.until(ready)).submit(human("hello"), { interruptBefore: ["model"] });
  const held = await hook.until((stream) => !stream.isLoading && stream.interrupt);
  assert.deepEqual(held.interrupt, { when: "breakpoint" });
  await held.submit(null);
  await hook.until((stream) => !stream.isLoading && lastContent(stream) === "you said: hello");
  assert.equal(hook.shown().interrupt, undefined);
  hook.unmount();
});

scenario("stop cancels a run that is not resumable by leaving it", () => stopping(false));

scenario("stop cancels a resumable run by its id", () => stopping(true));

async function stopping(reconnectOnMount) {
  const threadId = await newThread();
  const runs = [];
  const onCreated = (run) => runs.push(run.run_id);
  const hook = mounted({ assistantId: "talk", threadId, reconnectOnMount, onCreated });
  const gate = newGate();
  const submitting = (await hook.until(ready)).submit(human(`one ${gate.word}`));
  const half = await hook.until((stream) => lastContent(stream) === "you said: one");
  await half.stop();
  await submitting;
  await hook.until((stream) => !stream.isLoading);
  await client.runs.join(threadId, runs[0]);
  assert.equal((await client.runs.get(threadId, runs[0])).status, "interrupted");
  assert.equal(hook.shown().error, undefined);
  hook.unmount();
}

scenario("an edited message makes a branch, and both can be looked at", async () => {
  const hook = mounted({ assistantId: "talk", threadId: await newThread(), fetchStateHistory: true });
  await (await hook.until(ready)).submit(human("first"));
  const before = await hook.until(done);
  const { firstSeenState } = before.getMessagesMetadata(before.messages[0]);
  await before.submit(human("edited"), { checkpoint: firstSeenState.parent_checkpoint });
  const edited = await hook.until((stream) => !stream.isLoading && lastContent(stream) === "you said: edited");
  assert.deepEqual(contents(edited), ["edited", "you said: edited"]);
  const about = edited.getMessagesMetadata(edited.messages[0]);
  assert.equal(about.branchOptions.length, 2);
  assert.equal(about.branch, about.branchOptions[1]);
  edited.setBranch(about.branchOptions[0]);
  await hook.until((stream) => lastContent(stream) === "you said: first");
  assert.deepEqual(contents(hook.shown()), ["first", "you said: first"]);
  // The next message continues the shown branch.
  await hook.shown().submit(human("and then"));
  await hook.until((stream) => !stream.isLoading && lastContent(stream) === "you said: and then");
  assert.deepEqual(contents(hook.shown()), ["first", "you said: first", "and then", "you said: and then"]);
  hook.unmount();
});

scenario("an answer is made again from the checkpoint before it", async () => {
  const hook = mounted({ assistantId: "talk", threadId: await newThread(), fetchStateHistory: true });
  await (await hook.until(ready)).submit(human("again"));
  const before = await hook.until(done);
  const [, answer] = before.messages;
  const { firstSeenState } = before.getMessagesMetadata(answer);
  await before.submit(undefined, { checkpoint: firstSeenState.parent_checkpoint });
  const after = await hook.until((stream) => !stream.isLoading && stream.messages[1]?.id !== answer.id);
  assert.deepEqual(contents(after), ["again", "you said: again"]);
  assert.equal(after.getMessagesMetadata(after.messages[1]).branchOptions.length, 2);
  hook.unmount();
});

scenario("a page that is loaded again joins the run that is under way", async () => {
  const threadId = await newThread();
  const options = { assistantId: "talk", threadId, reconnectOnMount: true, fetchStateHistory: true };
  const gate = newGate();
  const hook = mounted(options);
  (await hook.until(ready)).submit(human(`one ${gate.word} two`));
  await hook.until((stream) => lastContent(stream) === "you said: one");
  const runId = sessionStorage.getItem(`lg:stream:${threadId}`);
  assert.ok(runId);
  hook.unmount();
  const again = mounted(options);
  const joined = await again.until((stream) => lastContent(stream) === "you said: one");
  assert.ok(joined.isLoading);
  await gate.open();
  await again.until((stream) => !stream.isLoading && lastContent(stream) === "you said: one two");
  assert.equal(again.shown().messages.length, 2);
  assert.equal(sessionStorage.getItem(`lg:stream:${threadId}`), null);
  assert.deepEqual((await client.runs.list(threadId)).map((run) => run.run_id), [runId]);
  again.unmount();
});

scenario("a run that another page started is joined", async () => {
  const threadId = await newThread();
  const gate = newGate();
  const run = await client.runs.create(threadId, "talk", {
    input: human(`one ${gate.word} two`),
    streamMode: ["values", "messages-tuple"],
    streamResumable: true,
  });
  await gate.reached();
  const hook = mounted({ assistantId: "talk", threadId });
  const joining = (await hook.until(ready)).joinStream(run.run_id);
  await hook.until((stream) => lastContent(stream) === "you said: one");
  await gate.open();
  await joining;
  await hook.until((stream) => !stream.isLoading && lastContent(stream) === "you said: one two");
  hook.unmount();
});

scenario("a cut connection costs no token", async () => {
  const proxy = await cuttingProxy(url);
  const threadId = await newThread();
  const hook = mounted({ apiUrl: proxy.url, assistantId: "talk", threadId, reconnectOnMount: true });
  const gate = newGate();
  const submitting = (await hook.until(ready)).submit(human(`one ${gate.word} two three`));
  await hook.until((stream) => lastContent(stream) === "you said: one");
  await gate.reached();
  void proxy.cut();
  await gate.open();
  await submitting;
  await hook.until((stream) => !stream.isLoading && lastContent(stream) === "you said: one two three");
  assert.equal(hook.shown().error, undefined);
  hook.unmount();
  proxy.close();
});

scenario("a message sent during a run interrupts it", async () => {
  const threadId = await newThread();
  const hook = mounted({ assistantId: "talk", threadId });
  const gate = newGate();
  (await hook.until(ready)).submit(human(`one ${gate.word}`));
  const half = await hook.until((stream) => lastContent(stream) === "you said: one");
  await half.submit(human("instead"), { multitaskStrategy: "interrupt" });
  await hook.until((stream) => !stream.isLoading && lastContent(stream) === "you said: instead");
  assert.deepEqual((await client.runs.list(threadId)).map((run) => run.status), ["success", "interrupted"]);
  hook.unmount();
});

scenario("all kinds of events reach their listeners", async () => {
  const received = {};
  const record = (kind) => (data, options) => (received[kind] ??= []).push([data, options?.namespace]);
  const hook = mounted({
    assistantId: "family",
    threadId: await newThread(),
    onUpdateEvent: record("updates"),
    onTaskEvent: record("tasks"),
    onCheckpointEvent: record("checkpoints"),
    onDebugEvent: record("debug"),
    onLangChainEvent: record("events"),
    onMetadataEvent: record("metadata"),
  }, (stream) => stream.values);
  await (await hook.until(ready)).submit({ n: 1 }, { streamSubgraphs: true });
  assert.deepEqual(received.updates.map(([data]) => Object.keys(data)[0]), ["parent", "step", "confirm", "child"]);
  assert.match(received.updates[1][1][0], /^child:/);
  assert.equal(received.metadata.length, 1);
  for (const kind of ["tasks", "checkpoints", "debug"]) assert.ok(received[kind].length >= 4, kind);
  assert.equal(received.events[0][0].event, "on_chain_start");
  assert.deepEqual((await hook.until((stream) => stream.values.answer)).values, { n: 3, answer: "unasked" });
  hook.unmount();
});

scenario("custom data of a node reaches the page during the run", async () => {
  const received = [];
  const hook = mounted({ assistantId: "talk", threadId: await newThread(), onCustomEvent: (data) => received.push(data) });
  const gate = newGate();
  const submitting = (await hook.until(ready)).submit(human(gate.word));
  await hook.until((stream) => stream.messages.length === 2);
  assert.deepEqual(received, [{ message_count: 1 }]);
  await gate.open();
  await submitting;
  hook.unmount();
});

scenario("a page shows that a run failed", async () => {
  const errors = [];
  const threadId = await newThread();
  const options = { assistantId: "broken", threadId, fetchStateHistory: true };
  const hook = mounted({ ...options, onError: (error) => errors.push(error) }, (stream) => stream.values);
  await (await hook.until(ready)).submit({ n: 1 });
  const failed = await hook.until((stream) => stream.error && !stream.isLoading);
  assert.equal(failed.error.message, "cannot go on from 2");
  assert.equal(failed.error.name, "ValueError");
  assert.deepEqual(errors, [failed.error]);
  hook.unmount();
  const again = mounted(options, (stream) => stream.values);
  assert.equal((await again.until((stream) => stream.error)).error, "ValueError('cannot go on from 2')");
  again.unmount();
});

scenario("a subagent's messages are shown separately, while it works and after the page is loaded again", async () => {
  const options = {
    assistantId: "delegate",
    threadId: await newThread(),
    fetchStateHistory: true,
    filterSubagentMessages: true,
    subagentToolNames: ["task"],
  };
  const read = (stream) => [stream.messages, stream.subagents];
  const texts = (stream) => [...stream.subagents.values()].map((one) => one.messages.map((message) => message.content));
  const finished = (stream) => !stream.isLoading && stream.messages.length === 5;
  const gate = newGate();
  const hook = mounted(options, read);
  const submitting = (await hook.until(ready)).submit(human(`one ${gate.word} two`), { streamSubgraphs: true });
  const half = await hook.until((stream) => String(texts(stream)) === "first: one,second: one");
  assert.equal(half.activeSubagents.length, 2);
  assert.deepEqual(half.messages.map((message) => message.type), ["human", "ai"]);
  await gate.open();
  await submitting;
  await hook.until(finished);
  const answers = ["first: one two for first", "second: one two for second"];
  assert.deepEqual(contents(hook.shown()).slice(2, 4), answers);
  hook.unmount();
  const again = mounted(options, read);
  await again.until((stream) => finished(stream) && String(texts(stream).map((messages) => messages.length)) === "2,2");
  assert.deepEqual(texts(again.shown()).map((messages) => messages.at(-1)), answers);
  again.unmount();
});

await runScenarios();
