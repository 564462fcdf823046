import { assert, NOBODY, newClient, refused, runScenarios, scenario } from "./scenarios.mjs";

const client = newClient();

scenario("assistants are searched by graph and page by page", async () => {
  const [talk] = await client.assistants.search({ graphId: "talk", metadata: { created_by: "system" } });
  assert.equal(talk.graph_id, "talk");
  assert.equal(talk.name, "talk");
  assert.equal(talk.description, "Repeats the user's message, word by word");
  assert.match(talk.assistant_id, /^[0-9a-f]{8}-[0-9a-f]{4}-5/);
  const first = await client.assistants.search({ limit: 2, includePagination: true, sortBy: "name" });
  assert.equal(first.assistants.length, 2);
  assert.equal(first.next, "2");
  const names = await client.assistants.search({ limit: 100, select: ["graph_id"], metadata: { created_by: "system" } });
  assert.deepEqual(
    names.map((found) => found.graph_id).sort(),
    ["approve", "broken", "count", "delegate", "family", "hand_back", "remember", "talk"],
  );
  assert.deepEqual(Object.keys(names[0]), ["graph_id"]);
  assert.equal(await client.assistants.count({ graphId: "talk", metadata: { created_by: "system" } }), 1);
});

scenario("an assistant shows its graph, schemas and subgraphs", async () => {
  const [family] = await client.assistants.search({ graphId: "family" });
  assert.equal((await client.assistants.get(family.assistant_id)).graph_id, "family");
  const plain = await client.assistants.getGraph(family.assistant_id);
  assert.deepEqual(plain.nodes.map((node) => node.id), ["__start__", "parent", "child", "__end__"]);
  const deep = await client.assistants.getGraph(family.assistant_id, { xray: true });
  assert.ok(deep.nodes.some((node) => node.id === "child:confirm"));
  const schemas = await client.assistants.getSchemas(family.assistant_id);
  assert.equal(schemas.graph_id, "family");
  assert.deepEqual(Object.keys(schemas.state_schema.properties).sort(), ["answer", "ask", "n"]);
  const subgraphs = await client.assistants.getSubgraphs(family.assistant_id, { recurse: true });
  assert.deepEqual(Object.keys(subgraphs), ["child"]);
  const one = await client.assistants.getSubgraphs(family.assistant_id, { namespace: "child" });
  assert.deepEqual(Object.keys(one), ["child"]);
});

scenario("an assistant is made, changed, set back and deleted", async () => {
  const made = await client.assistants.create({
    graphId: "talk",
    context: { prefix: "first" },
    metadata: { by: "js" },
    name: "A voice",
  });
  assert.equal(made.version, 1);
  const again = await client.assistants.create({ graphId: "talk", assistantId: made.assistant_id, ifExists: "do_nothing" });
  assert.equal(again.name, "A voice");
  await refused(409, client.assistants.create({ graphId: "talk", assistantId: made.assistant_id }));
  const changed = await client.assistants.update(made.assistant_id, { context: { prefix: "second" }, metadata: { more: 1 } });
  assert.equal(changed.version, 2);
  assert.deepEqual(changed.metadata, { by: "js", more: 1 });
  const versions = await client.assistants.getVersions(made.assistant_id);
  assert.deepEqual(versions.map((one) => one.version), [2, 1]);
  assert.equal((await client.assistants.setLatest(made.assistant_id, 1)).version, 1);
  const values = await client.runs.wait(null, made.assistant_id, { input: { messages: [{ type: "human", content: "hi" }] } });
  assert.equal(values.messages.at(-1).content, "first hi");
  assert.equal(await client.assistants.delete(made.assistant_id), undefined);
  await refused(404, client.assistants.get(made.assistant_id));
});

scenario("an unknown assistant is refused by id and by name", async () => {
  await refused(404, client.assistants.get(NOBODY));
  await refused(422, client.assistants.get("talk"));
  const { thread_id: threadId } = await client.threads.create();
  await refused(404, client.runs.create(threadId, NOBODY));
  await refused(422, client.runs.create(threadId, "nobody"));
});

await runScenarios();
