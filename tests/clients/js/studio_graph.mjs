// The graph page of the studio: drawing, runs that light up the nodes, the inputs and outputs of a node.

import { assert, newClient, newGate, runScenarios } from "./scenarios.mjs";
import { browserScenario, checkAccessibility, STUDIO } from "./studio.mjs";

const sdk = newClient();
const node = (page, id) => page.locator(`[data-node="${id}"]`);
const item = (page, name) => page.getByRole("region", { name: "Nodes" }).getByRole("button", { name });

async function waitForStatus(page, id, status) {
  await page.locator(`[data-node="${id}"][data-status="${status}"]`).waitFor();
}

browserScenario("the drawing shows subgraphs as groups and conditional edges with labels, and covers no node", async (page) => {
  await page.goto(`${STUDIO}/graphs/nested`);
  await node(page, "author").waitFor();
  const [outer, inner, write] = await Promise.all(
    ["author", "author:drafting", "author:drafting:write"].map((id) => node(page, id).boundingBox()),
  );
  assert.ok(outer.y < inner.y && inner.y < write.y && outer.width > inner.width && inner.width > write.width);
  assert.equal(await page.locator("path.graph-edge.conditional").count(), 2);
  for (const label of ["again", "good"]) await page.getByText(label, { exact: true }).waitFor();
  assert.equal(await page.getByText("__error_handler__").count(), 0);
  await node(page, "publish").click();
  await page.getByText("It has not run").waitFor();
  await checkAccessibility(page);
});

browserScenario("a run lights up the running node in its subgraph, and each node shows its last input and output", async (page) => {
  const gate = newGate();
  await page.goto(`${STUDIO}/graphs/nested`);
  await page.getByLabel("Your message").fill(`twice ${gate.word} cats`);
  await page.getByRole("button", { name: "Send" }).click();
  await gate.reached();
  await waitForStatus(page, "author:drafting:write", "running");
  await waitForStatus(page, "author", "running");
  await waitForStatus(page, "research:tools", "success");
  assert.equal(await node(page, "publish").getAttribute("data-status"), "idle");
  await checkAccessibility(page);
  await gate.open();
  await waitForStatus(page, "publish", "success");
  await item(page, /research › tools/).focus();
  await page.keyboard.press("Enter");
  const details = page.getByRole("region", { name: "Details of tools" });
  await details.getByLabel("Output").getByText("All about cats.").waitFor();
  await item(page, /author › drafting › write/).click();
  await page.getByText("It ran 2 times").waitFor();
  // The link of the page shows the same run again.
  await page.reload();
  await waitForStatus(page, "author:drafting:write", "success");
  assert.match(page.url(), /thread=.+&run=/);
});

browserScenario("the link of a thread shows its last run, a failed node in it, and starts a form's run on it", async (page) => {
  const { thread_id: thread } = await sdk.threads.create();
  await sdk.runs.wait(thread, "broken", { input: { n: 1 }, raiseError: false });
  await page.goto(`${STUDIO}/graphs/broken?thread=${thread}`);
  await waitForStatus(page, "fail", "error");
  await node(page, "fail").click();
  await page.getByText("cannot go on from 2").waitFor();
  await page.getByLabel("N", { exact: true }).fill("6");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByText("cannot go on from 7").waitFor();
  assert.equal((await sdk.runs.list(thread)).length, 2);
  await checkAccessibility(page);
});

browserScenario("a run can be stopped on a narrow dark page", async (page) => {
  const gate = newGate();
  const { thread_id: thread } = await sdk.threads.create();
  await page.goto(`${STUDIO}/graphs/talk?thread=${thread}`);
  await page.getByLabel("Your message").fill(`wait ${gate.word}`);
  await page.getByRole("button", { name: "Send" }).click();
  await gate.reached();
  await page.getByRole("button", { name: "Stop" }).click();
  await waitForStatus(page, "model", "interrupted");
  await checkAccessibility(page);
  const width = await page.locator("#page").evaluate((main) => main.scrollWidth - main.clientWidth);
  assert.equal(width, 0);
}, { viewport: { width: 360, height: 780 }, colorScheme: "dark" });

browserScenario("a thread that waits takes no message here, but has a link to its form in the chat", async (page) => {
  await page.goto(`${STUDIO}/graphs/approve`);
  await page.getByLabel("Your message").fill("book it");
  await page.getByRole("button", { name: "Send" }).click();
  const link = page.getByRole("link", { name: "Answer in the chat" });
  await link.waitFor();
  assert.equal(await page.getByLabel("Your message").count(), 0);
  await checkAccessibility(page);
  await page.reload();
  await link.click();
  await page.getByRole("region", { name: "Waiting for you" }).waitFor();
  const thread = new URL(page.url()).pathname.split("/").at(-1);
  assert.equal((await sdk.threads.get(thread)).status, "interrupted");
});

browserScenario("assistants with the same name differ in the choice by graph and id", async (page) => {
  const name = `twin ${crypto.randomUUID()}`;
  for (const graphId of ["talk", "count"]) await sdk.assistants.create({ graphId, name });
  await page.goto(`${STUDIO}/graphs/talk`);
  const options = page.getByLabel("Assistant").getByRole("option", { name });
  await options.first().waitFor({ state: "attached" });
  const texts = (await options.allInnerTexts()).map((text) => text.replace(/…\w+/, "ID"));
  assert.deepEqual(texts.sort(), [`${name} (count, ID)`, `${name} (talk, ID)`]);
});

await runScenarios();
