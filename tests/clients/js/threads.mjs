import { assert, NOBODY, newClient, refused, runScenarios, scenario } from "./scenarios.mjs";

const client = newClient();

const counted = async (n) => {
  const { thread_id: threadId } = await client.threads.create();
  await client.runs.wait(threadId, "count", { input: { n } });
  return threadId;
};

scenario("a thread is created, found, changed and deleted", async () => {
  const mark = crypto.randomUUID();
  const made = await client.threads.create({ metadata: { mark, deep: { one: 1 } }, graphId: "count", ttl: 60 });
  assert.equal(made.status, "idle");
  assert.equal(made.metadata.graph_id, "count");
  assert.equal((await client.threads.create({ threadId: made.thread_id, ifExists: "do_nothing" })).metadata.mark, mark);
  await refused(409, client.threads.create({ threadId: made.thread_id }));
  const changed = await client.threads.update(made.thread_id, { metadata: { more: true } });
  assert.deepEqual(changed.metadata, { mark, deep: { one: 1 }, graph_id: "count", more: true });
  assert.equal(await client.threads.update(made.thread_id, { metadata: { less: 1 }, returnMinimal: true }), undefined);
  const [found] = await client.threads.search({ metadata: { mark, deep: { one: 1 } }, select: ["thread_id", "metadata"] });
  assert.deepEqual(found, { thread_id: made.thread_id, metadata: { ...changed.metadata, less: 1 } });
  assert.equal(await client.threads.count({ metadata: { mark } }), 1);
  assert.equal(await client.threads.delete(made.thread_id), undefined);
  await refused(404, client.threads.get(made.thread_id));
});

scenario("threads are searched by status, ids and values", async () => {
  const threadId = await counted(3);
  const fresh = (await client.threads.create()).thread_id;
  const ids = [threadId, fresh, NOBODY];
  const found = await client.threads.search({ ids, status: "idle", sortBy: "created_at", sortOrder: "asc" });
  assert.deepEqual(found.map((thread) => thread.thread_id), [threadId, fresh]);
  const [extracted] = await client.threads.search({ ids: [threadId], extract: { last: "values.log[-1]" } });
  assert.deepEqual(extracted.extracted, { last: "double" });
  assert.deepEqual(extracted.values, { n: 8, log: ["add", "double"] });
});

scenario("a thread's state and history are read", async () => {
  const threadId = await counted(1);
  const state = await client.threads.getState(threadId);
  assert.deepEqual(state.values, { n: 4, log: ["add", "double"] });
  assert.deepEqual(state.next, []);
  assert.equal(state.checkpoint.thread_id, threadId);
  const history = await client.threads.getHistory(threadId);
  assert.deepEqual(history.map((past) => past.next), [[], ["double"], ["add"], ["__start__"]]);
  assert.deepEqual(history[0], { ...state, tasks: [] });
  history.slice(1).forEach((past, at) => {
    assert.equal(history[at].parent_checkpoint.checkpoint_id, past.checkpoint.checkpoint_id);
  });
  const [, , early] = history;
  const byId = await client.threads.getState(threadId, early.checkpoint.checkpoint_id);
  const byCheckpoint = await client.threads.getState(threadId, early.checkpoint, { subgraphs: true });
  assert.deepEqual(byId.values, { n: 1, log: [] });
  assert.deepEqual(byCheckpoint.values, byId.values);
  const older = await client.threads.getHistory(threadId, { limit: 5, before: { configurable: early.checkpoint } });
  assert.deepEqual(older.map((past) => past.next), [["__start__"]]);
});

scenario("a state is updated, forked and gone on from", async () => {
  const threadId = await counted(1);
  const updated = await client.threads.updateState(threadId, { values: { n: 10 }, asNode: "add" });
  assert.ok(updated.checkpoint.checkpoint_id);
  assert.deepEqual((await client.threads.getState(threadId)).next, ["double"]);
  assert.deepEqual(await client.runs.wait(threadId, "count", { input: null }), {
    n: 20,
    log: ["add", "double", "double"],
  });
  const afterAdd = (await client.threads.getHistory(threadId, { limit: 100 })).findLast((past) => past.next[0] === "double");
  await client.threads.updateState(threadId, { values: { n: 100 }, checkpoint: afterAdd.checkpoint });
  const forked = await client.runs.wait(threadId, "count", { input: null });
  assert.deepEqual(forked, { n: 200, log: ["add", "double"] });
});

scenario("a thread is made of given supersteps and copied with its history", async () => {
  const made = await client.threads.create({
    graphId: "count",
    supersteps: [
      { updates: [{ values: { n: 1 }, asNode: "__input__" }] },
      { updates: [{ values: { n: 2, log: ["add"] }, asNode: "add" }] },
    ],
  });
  const state = await client.threads.getState(made.thread_id);
  assert.deepEqual(state.values, { n: 2, log: ["add"] });
  assert.deepEqual(state.next, ["double"]);
  const copy = await client.threads.copy(made.thread_id);
  assert.notEqual(copy.thread_id, made.thread_id);
  const histories = await Promise.all([made, copy].map((one) => client.threads.getHistory(one.thread_id)));
  assert.deepEqual(histories[1].map((past) => past.values), histories[0].map((past) => past.values));
  assert.deepEqual((await client.runs.wait(copy.thread_id, "count", { input: null })).n, 4);
  assert.deepEqual((await client.threads.getState(made.thread_id)).next, ["double"]);
});

scenario("threads are pruned", async () => {
  const made = await client.threads.create();
  assert.deepEqual(await client.threads.prune([made.thread_id, NOBODY]), { pruned_count: 1 });
  await refused(404, client.threads.get(made.thread_id));
});

scenario("a thread's stream has the events of its runs", async () => {
  const { thread_id: threadId } = await client.threads.create();
  await client.runs.create(threadId, "count", { input: { n: 1 }, streamResumable: true });
  const leave = new AbortController();
  const received = [];
  for await (const part of client.threads.joinStream(threadId, { lastEventId: "-", signal: leave.signal })) {
    received.push(part);
    if (part.data.status === "run_done") break;
  }
  leave.abort();
  assert.equal(received[0].event, "metadata");
  assert.deepEqual(received.filter((part) => part.event === "values").map((part) => part.data.n), [1, 2, 4]);
});

await runScenarios();
