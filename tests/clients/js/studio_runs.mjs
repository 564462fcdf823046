// The runs page of the studio: queue and history of all threads, the waterfall of a run, cancel and run again.

import { assert, human, newClient, newGate, runScenarios } from "./scenarios.mjs";
import { browserScenario, checkAccessibility, STUDIO } from "./studio.mjs";

const sdk = newClient();
const row = (page, run) => page.locator(`[data-run="${run.run_id}"]`);
const waterfall = (page) => page.getByRole("region", { name: "Waterfall" });

async function startedRun(message, graph = "nested") {
  const { thread_id: thread } = await sdk.threads.create();
  const response = await fetch(`${STUDIO}/../threads/${thread}/commands`, {
    method: "POST", body: JSON.stringify({ id: 1, method: "run.start", params: { assistant_id: graph, input: human(message) } }),
  });
  const { result } = await response.json();
  return { thread_id: thread, ...result };
}

browserScenario("runs of all threads are listed, those that wait in the order of the queue, and follow what happens", async (page) => {
  const gate = newGate();
  const { thread_id: thread } = await sdk.threads.create();
  const first = await sdk.runs.create(thread, "talk", { input: human(`hold ${gate.word}`) });
  await gate.reached();
  const second = await sdk.runs.create(thread, "talk", { input: human("two") });
  const third = await sdk.runs.create(thread, "talk", { input: human("three") });
  await page.goto(`${STUDIO}/runs`);
  await row(page, first).getByText("running").waitFor();
  await row(page, third).getByText("2.", { exact: true }).waitFor();
  const ids = await page.getByRole("region", { name: "Queue" }).locator("[data-run]").evaluateAll((rows) => rows.map((each) => each.dataset.run));
  const ours = ids.filter((id) => [first, second, third].some((run) => run.run_id === id));
  assert.deepEqual(ours, [first, second, third].map((run) => run.run_id));
  await checkAccessibility(page);
  await gate.open();
  const ended = page.getByRole("region", { name: "Ended runs" });
  for (const run of [first, second, third]) await ended.locator(`[data-run="${run.run_id}"]`).getByText("success").waitFor();
});

browserScenario("active runs are listed however many wait behind them and however many threads are newer", async (page) => {
  const gate = newGate();
  const { thread_id: thread } = await sdk.threads.create();
  const first = await sdk.runs.create(thread, "talk", { input: human(`hold ${gate.word}`) });
  await gate.reached();
  const waiting = [];
  for (let n = 0; n < 25; n += 1) waiting.push(await sdk.runs.create(thread, "count", { input: { n } }));
  for (let n = 0; n < 25; n += 1) await sdk.threads.create();
  await page.goto(`${STUDIO}/runs?status=running`);
  await row(page, first).waitFor();
  await page.getByLabel("Status").selectOption("pending");
  await row(page, waiting.at(-1)).getByText("25.", { exact: true }).waitFor();
  await sdk.runs.cancelMany({ threadId: thread, runIds: waiting.map((run) => run.run_id) });
  await gate.open();
  await sdk.runs.join(thread, first.run_id);
  await page.getByLabel("Status").selectOption("timeout");
  await page.getByText("the 25 threads that changed last").waitFor();
});

browserScenario("a filter by status is part of the link", async (page) => {
  const { thread_id: thread } = await sdk.threads.create();
  await sdk.runs.wait(thread, "broken", { input: { n: 1 }, raiseError: false });
  const [failed] = await sdk.runs.list(thread);
  await page.goto(`${STUDIO}/runs`);
  await page.getByLabel("Status").selectOption("error");
  await row(page, failed).waitFor();
  await page.waitForURL(/status=error/);
  assert.equal(await page.locator("tbody .badge.good").count(), 0);
  await row(page, failed).getByRole("link").first().click();
  await page.getByRole("alert").getByText("cannot go on from 2").waitFor();
  await waterfall(page).getByText("fail", { exact: true }).waitFor();
  await page.getByText("The steps come from the checkpoints").waitFor();
  await checkAccessibility(page);
});

browserScenario("the waterfall of a run grows while it executes, and shows nodes, model calls and tool calls", async (page) => {
  const gate = newGate();
  const run = await startedRun(`write ${gate.word} about dogs`);
  await gate.reached();
  await page.goto(`${STUDIO}/runs/${run.thread_id}/${run.run_id}`);
  await waterfall(page).locator('[data-kind="model"]').waitFor();
  assert.equal(await waterfall(page).getByText("publish").count(), 0);
  await checkAccessibility(page);
  await gate.open();
  await waterfall(page).getByText("publish").waitFor();
  await page.getByRole("status").getByText("success").waitFor();
  await waterfall(page).getByRole("button", { name: /look_up/ }).click();
  await waterfall(page).getByLabel("Output").getByText("All about dogs.").waitFor();
  const kinds = await waterfall(page).locator("[data-kind]").evaluateAll((rows) => rows.map((each) => each.dataset.kind));
  assert.deepEqual([kinds.filter((kind) => kind === "model").length, kinds.filter((kind) => kind === "tool").length], [1, 1]);
  await checkAccessibility(page);
});

browserScenario("a running run is cancelled, and runs again with the same input", async (page) => {
  const gate = newGate();
  const run = await startedRun(`hold ${gate.word}`, "talk");
  await gate.reached();
  await page.goto(`${STUDIO}/runs/${run.thread_id}/${run.run_id}`);
  await page.getByRole("button", { name: "Cancel" }).click();
  await checkAccessibility(page);
  await page.getByRole("button", { name: "Interrupt" }).click();
  await page.getByRole("status").getByText("interrupted").waitFor();
  await gate.open();
  await page.getByRole("button", { name: "Run again" }).click();
  await page.getByRole("status").getByText("success").waitFor();
  assert.ok(!page.url().includes(run.run_id));
  const [thread] = page.url().split("/").slice(-2);
  const { values } = await sdk.threads.getState(thread);
  assert.deepEqual(values.messages.map((message) => message.type), ["human", "ai"]);
});

browserScenario("a run that is rolled back is gone from the list", async (page) => {
  const gate = newGate();
  const run = await startedRun(`hold ${gate.word}`, "talk");
  await gate.reached();
  await page.goto(`${STUDIO}/runs`);
  await row(page, run).getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Roll back" }).click();
  await row(page, run).waitFor({ state: "detached" });
  assert.deepEqual(await sdk.runs.list(run.thread_id), []);
}, { viewport: { width: 390, height: 800 }, colorScheme: "dark" });

// One at a time: each sees the queue of all threads.
await runScenarios({ atOnce: 1 });
