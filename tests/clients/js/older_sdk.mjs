// SDK 2.0.0: npm's `latest`, though older than 1.15.0. It sends lists in a query as JSON, where 1.15.0 repeats them.

import { Client } from "@langchain/langgraph-sdk-2";

import { all, assert, human, newClient, runScenarios, scenario, url } from "./scenarios.mjs";

const client = newClient(url, Client);

scenario("a list in a query may be one JSON text", async () => {
  const { thread_id: threadId } = await client.threads.create();
  const parts = await all(
    client.runs.stream(threadId, "count", { input: { n: 1 }, streamMode: ["values", "updates"], streamResumable: true }),
  );
  const options = { lastEventId: "-1", streamMode: ["values", "updates"] };
  assert.deepEqual(await all(client.runs.joinStream(threadId, parts[0].data.run_id, options)), parts.slice(1));
  const listed = await client.runs.list(threadId, { select: ["run_id", "status"] });
  assert.deepEqual(listed, [{ run_id: parts[0].data.run_id, status: "success" }]);
});

scenario("an older client streams, interrupts and resumes", async () => {
  const { thread_id: threadId } = await client.threads.create();
  await all(client.runs.stream(threadId, "approve", { input: human("hello"), streamMode: ["values", "messages-tuple"] }));
  const state = await client.threads.getState(threadId);
  assert.equal(state.tasks[0].interrupts[0].value.question, "Send it?");
  const values = await client.runs.wait(threadId, "approve", { command: { resume: "no" } });
  assert.equal(values.messages.at(-1).content, "you said: decided: no");
  assert.equal((await client.threads.getHistory(threadId, { limit: 2 })).length, 2);
});

await runScenarios();
