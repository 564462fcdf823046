// The history page of the studio: timeline, branches, comparison, edited states, runs from a checkpoint.

import { assert, human, newClient, runScenarios } from "./scenarios.mjs";
import { browserScenario, checkAccessibility, STUDIO } from "./studio.mjs";

const sdk = newClient();
const entries = (page) => page.getByRole("list", { name: "Checkpoints" }).getByRole("button");

async function countedThread(...numbers) {
  const { thread_id: thread } = await sdk.threads.create();
  for (const n of numbers) await sdk.runs.wait(thread, "count", { input: { n } });
  return thread;
}

browserScenario("a thread is found in the list, and its timeline opens any checkpoint", async (page) => {
  const thread = await countedThread(1);
  await page.goto(`${STUDIO}/history`);
  await page.getByRole("link", { name: thread }).click();
  await page.getByRole("heading", { name: "Step 2 (loop)" }).waitFor();
  assert.equal(await entries(page).count(), 4);
  await page.getByLabel("Values").getByText('"n": 4').waitFor();
  await entries(page).filter({ hasText: "next: double" }).click();
  await page.getByRole("heading", { name: "Step 1 (loop)" }).waitFor();
  await page.getByRole("region", { name: "Tasks" }).getByText("double", { exact: true }).waitFor();
  await checkAccessibility(page);
  await page.reload();
  await page.getByRole("heading", { name: "Step 1 (loop)" }).waitFor();
});

browserScenario("two checkpoints are compared by what was added, removed and changed", async (page) => {
  const thread = await countedThread(1);
  await page.goto(`${STUDIO}/history/${thread}`);
  await page.getByLabel("Compare with").selectOption({ index: 2 });
  const changes = page.getByRole("region", { name: "Differences" });
  await changes.locator('[data-kind="changed"]').filter({ hasText: "n" }).waitFor();
  assert.deepEqual(await changes.locator("pre").allInnerTexts(), ["− 1", "+ 4", '+ "add"', '+ "double"']);
  await checkAccessibility(page);
  await page.reload();
  await changes.waitFor();
});

browserScenario("an edited state is a branch, and a run from there goes on with it", async (page) => {
  const thread = await countedThread(1);
  await page.goto(`${STUDIO}/history/${thread}`);
  await entries(page).filter({ hasText: "next: double" }).click();
  await page.getByRole("button", { name: "Edit state" }).click();
  await page.getByRole("dialog").getByRole("textbox", { name: "Values" }).fill('{"n": 50, "log": ["add"]}');
  await page.getByLabel("As node").selectOption("add");
  await checkAccessibility(page);
  await page.getByRole("button", { name: "Save as new checkpoint" }).click();
  await page.getByRole("heading", { name: "Step 2 (update)" }).waitFor();
  await page.locator('.history-timeline [data-lane="1"]').waitFor();
  await page.getByRole("button", { name: "Run from here" }).click();
  await page.getByText("Continue with double").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Start run" }).click();
  await page.getByLabel("Values").getByText('"n": 100').waitFor();
  assert.deepEqual((await sdk.threads.getState(thread)).values, { n: 100, log: ["add", "double"] });
  await page.getByRole("region", { name: "Checkpoint" }).getByRole("link", { name: /^Run/ }).click();
  await page.getByRole("region", { name: "Waterfall" }).getByText("double").waitFor();
});

browserScenario("a state that is a list is edited as a whole", async (page) => {
  const { thread_id: thread } = await sdk.threads.create();
  await sdk.runs.wait(thread, "words", { input: ["one"] });
  await page.goto(`${STUDIO}/history/${thread}`);
  await page.getByRole("button", { name: "Edit state" }).click();
  const save = page.getByRole("button", { name: "Save as new checkpoint" });
  assert.ok(await save.isDisabled());
  await page.getByRole("dialog").getByRole("textbox", { name: "Values" }).fill('["two"]');
  await save.click();
  await page.getByRole("heading", { name: "(update)" }).waitFor();
  assert.deepEqual((await sdk.threads.getState(thread)).values, ["two"]);
});

browserScenario("a run with new input starts at a chosen checkpoint", async (page) => {
  const thread = await countedThread(1, 10);
  await page.goto(`${STUDIO}/history/${thread}`);
  await entries(page).filter({ hasText: "Step 2" }).click();
  await page.getByLabel("Values").getByText('"n": 4').waitFor();
  await page.getByRole("button", { name: "Run from here" }).click();
  await page.getByRole("textbox", { name: "Input" }).fill('{"n": 7}');
  await page.getByRole("dialog").getByRole("button", { name: "Start run" }).click();
  await page.getByLabel("Values").getByText('"n": 16').waitFor();
  const { values } = await sdk.threads.getState(thread);
  assert.deepEqual(values.log, ["add", "double", "add", "double"]);
});

browserScenario("a long history loads older checkpoints on request, and an interrupt shows what it asks", async (page) => {
  const { thread_id: thread } = await sdk.threads.create();
  await sdk.runs.wait(thread, "approve", { input: human("hello") });
  await page.goto(`${STUDIO}/history/${thread}`);
  await page.getByLabel("Interrupt of review").getByText("Send it?").waitFor();
  await checkAccessibility(page);
  const long = await countedThread(...Array.from({ length: 12 }, (_, n) => n));
  await page.goto(`${STUDIO}/history/${long}`);
  await entries(page).nth(39).waitFor();
  assert.equal(await entries(page).count(), 40);
  await page.getByRole("button", { name: "Show older checkpoints" }).click();
  await entries(page).nth(47).waitFor();
  // A link to a checkpoint that is not listed yet, compared with another one.
  const states = await sdk.threads.getHistory(long, { limit: 48 });
  const [oldest, other] = [states.at(-2), states.at(-3)].map((state) => state.checkpoint.checkpoint_id);
  await page.goto(`${STUDIO}/history/${long}?checkpoint=${oldest}&with=${other}`);
  await page.getByText(oldest).waitFor();
  await page.getByRole("region", { name: "Differences" }).waitFor();
  assert.equal(await page.getByLabel("Compare with").inputValue(), other);
  await checkAccessibility(page);
}, { viewport: { width: 390, height: 800 }, colorScheme: "dark" });

browserScenario("a thread that does not exist says so", async (page) => {
  await page.goto(`${STUDIO}/history/00000000-0000-4000-8000-000000000000`);
  await page.getByRole("alert").getByText("does not exist").waitFor();
  await checkAccessibility(page);
});

await runScenarios();
