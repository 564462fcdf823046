import { assert, newClient, refused, runScenarios, scenario } from "./scenarios.mjs";

const client = newClient();
const newPlace = () => ["js", crypto.randomUUID()];

scenario("an item is put, read, changed and deleted", async () => {
  const place = newPlace();
  assert.equal(await client.store.putItem(place, "tea", { kind: "green", cups: 2 }), undefined);
  const item = await client.store.getItem(place, "tea");
  assert.deepEqual([item.namespace, item.key, item.value], [place, "tea", { kind: "green", cups: 2 }]);
  assert.ok(Date.parse(item.createdAt) <= Date.parse(item.updatedAt));
  await client.store.putItem(place, "tea", { kind: "black" });
  assert.deepEqual((await client.store.getItem(place, "tea")).value, { kind: "black" });
  assert.equal(await client.store.deleteItem(place, "tea"), undefined);
  assert.equal(await client.store.getItem(place, "tea"), null);
});

scenario("items are searched by what they hold", async () => {
  const place = newPlace();
  for (const cups of [1, 2, 3]) await client.store.putItem(place, `cup-${cups}`, { cups, kind: cups > 2 ? "tea" : "milk" });
  const found = async (options) => (await client.store.searchItems(place, options)).items.map((item) => item.key).sort();
  assert.deepEqual(await found(), ["cup-1", "cup-2", "cup-3"]);
  assert.deepEqual(await found({ filter: { kind: "milk" } }), ["cup-1", "cup-2"]);
  assert.deepEqual(await found({ filter: { cups: { $gte: 2 } } }), ["cup-2", "cup-3"]);
  assert.equal((await found({ limit: 1, offset: 1 })).length, 1);
});

scenario("namespaces are listed", async () => {
  const [root, name] = newPlace();
  await client.store.putItem([root, name, "deep", "deeper"], "k", {});
  const listed = await client.store.listNamespaces({ prefix: [root, name] });
  assert.deepEqual(listed.namespaces, [[root, name, "deep", "deeper"]]);
  const cut = await client.store.listNamespaces({ prefix: [root, name], maxDepth: 3 });
  assert.deepEqual(cut.namespaces, [[root, name, "deep"]]);
});

scenario("a graph and a client see one store", async () => {
  const key = crypto.randomUUID();
  await client.runs.wait(null, "remember", { input: { key, value: "from the graph" } });
  assert.deepEqual((await client.store.getItem(["memory"], key)).value, { value: "from the graph" });
  await client.store.putItem(["memory"], key, { value: "from the client" });
  assert.equal((await client.runs.wait(null, "remember", { input: { key } })).value, "from the client");
});

scenario("a namespace that is not one is refused", async () => {
  await refused(400, client.store.putItem([], "k", {}));
  await assert.rejects(client.store.putItem(["a.b"], "k", {}), /periods/);
});

await runScenarios();
