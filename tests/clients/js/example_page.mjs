// examples/javascript_page in Chromium, served from another port as its README says.

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";

import { runScenarios, url } from "./scenarios.mjs";
import { browserScenario } from "./studio.mjs";

const PAGE = new URL("../../../examples/javascript_page/index.html", import.meta.url);
const files = createServer(async (_, response) => {
  response.setHeader("content-type", "text/html");
  response.end(await readFile(PAGE));
});
await new Promise((resolve) => files.listen(0, "127.0.0.1", resolve));
const origin = `http://127.0.0.1:${files.address().port}`;
// The tools of the MCP servers are there a moment after the server.
while ((await (await fetch(`${url}/health`)).json()).status !== "ok");

browserScenario("the example's page shows the tool call and the answer of two turns on one thread", async (page) => {
  await page.goto(`${origin}/?api=${encodeURIComponent(url)}`);
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByText("you: Add a task to buy milk").waitFor();
  await page.getByText("agent: Created the todo “Buy milk”").waitFor();
  await page.getByLabel("Message").fill("List my tasks");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByText(/agent: I found 1 todo/).waitFor();
}, { origins: [origin, url] });

await runScenarios();
