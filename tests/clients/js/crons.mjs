import { assert, NOBODY, newClient, refused, runScenarios, scenario } from "./scenarios.mjs";

const client = newClient();
const YEARLY = "0 0 1 1 *";

scenario("a cron is created, found, changed and deleted", async () => {
  const mark = crypto.randomUUID();
  const made = await client.crons.create("count", {
    schedule: YEARLY,
    input: { n: 1 },
    metadata: { mark },
    timezone: "Europe/Berlin",
  });
  assert.equal(made.schedule, YEARLY);
  assert.equal(made.thread_id, null);
  // Midnight in Berlin is an hour earlier in universal time.
  assert.match(made.next_run_date, /-12-31T23:00:00/);
  const [found] = await client.crons.search({ metadata: { mark } });
  assert.equal(found.cron_id, made.cron_id);
  assert.equal(await client.crons.count({ metadata: { mark } }), 1);
  const changed = await client.crons.update(made.cron_id, { schedule: "30 6 1 6 *", enabled: false });
  assert.equal(changed.schedule, "30 6 1 6 *");
  assert.equal(changed.enabled, false);
  assert.deepEqual(await client.crons.search({ metadata: { mark }, enabled: true }), []);
  await client.crons.delete(made.cron_id);
  await refused(404, client.crons.delete(made.cron_id));
});

scenario("a cron belongs to a thread", async () => {
  const { thread_id: threadId } = await client.threads.create();
  const made = await client.crons.createForThread(threadId, "count", { schedule: YEARLY, input: { n: 1 } });
  assert.equal(made.thread_id, threadId);
  assert.deepEqual((await client.crons.search({ threadId })).map((cron) => cron.cron_id), [made.cron_id]);
  await client.crons.delete(made.cron_id);
});

scenario("a cron that could never run is refused", async () => {
  await refused(422, client.crons.create("count", { schedule: "every day" }));
  await refused(422, client.crons.create("count", { schedule: YEARLY, timezone: "Mars/Olympus" }));
  await refused(404, client.crons.create(NOBODY, { schedule: YEARLY }));
});

await runScenarios();
