// HTTP tools, script jobs, assistants, crons and the store in the studio.

import { createServer } from "node:http";

import { assert, newClient, runScenarios } from "./scenarios.mjs";
import { browserScenario, checkAccessibility, STUDIO } from "./studio.mjs";

const FACTS = "Bees visit flowers to collect nectar and pollen. A colony may hold fifty thousand workers in summer. ".repeat(6);
const ARTICLE = `<html lang="en"><head><title>How bees work</title></head><body><article><h1>How bees work</h1><p>${FACTS}</p></article></body></html>`;

/** An API with its OpenAPI document, a page with an article, and a page that never answers. */
const web = createServer((request, response) => {
  if (request.url === "/never") return;
  const isJson = request.url !== "/bees";
  response.setHeader("content-type", isJson ? "application/json" : "text/html; charset=utf-8");
  if (request.url === "/openapi.json") response.end(JSON.stringify(libraryDocument()));
  else response.end(isJson ? JSON.stringify({ id: 2, title: "Emma" }) : ARTICLE);
});
await new Promise((resolve) => web.listen(0, "127.0.0.1", resolve));
const WEB = `http://127.0.0.1:${web.address().port}`;

function libraryDocument() {
  const bookId = { name: "book_id", in: "path", required: true, schema: { type: "integer" } };
  const done = { responses: { 200: { description: "Done" } } };
  return {
    openapi: "3.0.3",
    info: { title: "Library", version: "1" },
    servers: [{ url: WEB }],
    paths: {
      "/books/{book_id}": { get: { operationId: "show_book", summary: "Show a book", parameters: [bookId], ...done } },
      "/upload": { post: { operationId: "upload", requestBody: { content: { "multipart/form-data": { schema: { type: "object" } } } }, ...done } },
    },
  };
}

browserScenario("tools are imported, run by the workflow, edited and deleted", async (page) => {
  await page.goto(`${STUDIO}/http-tools/import`);
  await page.getByLabel("URL", { exact: true }).fill(`${WEB}/openapi.json`);
  await checkAccessibility(page);
  await page.getByRole("button", { name: "Import" }).click();
  await page.getByText("1 new, 0 replaced, 1 skipped.").waitFor();
  await page.getByText("POST /upload").waitFor();

  await page.getByRole("link", { name: "Run a workflow" }).click();
  await page.getByLabel("Instruction").fill("Show the book 2");
  await page.getByLabel("Show a book").check();
  await page.getByRole("button", { name: "Run the workflow" }).click();
  const outcome = page.getByRole("region", { name: "Outcome" });
  await outcome.getByText("Selected tool: Show a book").waitFor();
  assert.match(await outcome.getByLabel("Request").innerText(), /\/books\/2/);
  assert.match(await outcome.getByLabel("Output").innerText(), /Emma/);
  await checkAccessibility(page);

  await page.getByRole("link", { name: /Show a book/ }).click();
  await page.getByLabel("Path, with {placeholders}").fill("/books/{book_id");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("alert").getByText("api.path:").waitFor();
  await page.getByLabel("Path, with {placeholders}").fill("/books/{book_id}");
  await page.getByLabel("Name*", { exact: true }).fill("Show one book");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("heading", { name: "Show one book" }).waitFor();
  await checkAccessibility(page);
  await page.getByRole("button", { name: "Delete Show one book" }).click();
  await page.getByRole("button", { name: "Delete it" }).click();
  await page.getByText("No tool yet").waitFor();
}, { ignore: /422/ });

browserScenario("a registered tool that cannot be reached fails at the stage of its request", async (page) => {
  await page.goto(`${STUDIO}/http-tools/new`);
  await page.getByLabel("Name*", { exact: true }).fill("Count sheep");
  await page.getByLabel("Description").fill("Count the sheep of the farm.");
  await page.getByLabel("Base URL").fill("http://10.0.0.1");
  await page.getByLabel("Path, with {placeholders}").fill("/sheep");
  await page.getByRole("button", { name: "Register the tool" }).click();
  await page.getByText("count_sheep", { exact: true }).waitFor();
  await page.getByRole("link", { name: "Run a workflow" }).click();
  await page.getByLabel("Instruction").fill("Count the sheep");
  await page.getByLabel("Count sheep").check();
  await page.getByRole("button", { name: "Run the workflow" }).click();
  await page.getByRole("listitem").filter({ hasText: "Send the request" }).getByText("failed").waitFor();
  await page.getByRole("listitem").filter({ hasText: "Format the answer" }).getByText("not reached").waitFor();
  await fetch(`${STUDIO}/../tools/count_sheep`, { method: "DELETE" });
});

browserScenario("a script job ends with a script to read and save", async (page) => {
  await page.goto(`${STUDIO}/scripts`);
  await page.getByLabel("Address of the page").fill(`${WEB}/bees`);
  await checkAccessibility(page);
  await page.getByRole("button", { name: "Start the job" }).click();
  const script = page.getByRole("article", { name: "Script" });
  await script.getByRole("heading", { name: "How bees work" }).first().waitFor();
  await page.reload();
  await script.waitFor();
  await checkAccessibility(page);
  const saved = page.waitForEvent("download");
  await page.getByRole("link", { name: "Save as JSON" }).click();
  assert.equal((await saved).suggestedFilename(), "how-bees-work.json");
});

browserScenario("a running script job shows its progress and can be cancelled", async (page) => {
  await page.goto(`${STUDIO}/scripts`);
  await page.getByLabel("Address of the page").fill(`${WEB}/never`);
  await page.getByRole("button", { name: "Start the job" }).click();
  await page.getByRole("progressbar").waitFor();
  await page.getByText("2 %").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByText("The job was cancelled.").waitFor();
  await page.getByRole("button", { name: "Delete the job" }).click();
  await page.getByRole("button", { name: "Delete it" }).click();
  await page.getByRole("heading", { name: "New job" }).waitFor();
});

browserScenario("an assistant is created, gets a second version, and goes back to the first", async (page) => {
  const name = `Helper ${crypto.randomUUID()}`;
  await page.goto(`${STUDIO}/assistants/new`);
  await page.getByLabel("Graph").selectOption("todo_agent");
  await page.getByLabel("Name*", { exact: true }).fill(name);
  await page.getByLabel("Configuration").fill('{"recursion_limit": 7}');
  await page.getByRole("button", { name: "Create the assistant" }).click();
  await page.getByRole("heading", { name }).waitFor();
  await page.getByLabel("Configuration").fill('{"recursion_limit": 9}');
  await page.getByRole("button", { name: "Save as a new version" }).click();
  await page.getByRole("button", { name: "Compare with the active one" }).click();
  const changes = page.getByRole("region", { name: "Differences" });
  await changes.getByText("config.recursion_limit").waitFor();
  assert.deepEqual(await changes.locator("pre").allInnerTexts(), ["− 7", "+ 9"]);
  await checkAccessibility(page);
  await page.getByRole("button", { name: "Use this version" }).click();
  await page.getByRole("listitem").filter({ hasText: "Version 1" }).getByText("active", { exact: true }).waitFor();
  assert.match(await page.getByLabel("Configuration").inputValue(), /7/);
  await page.getByLabel("Search by name").fill(name);
  await page.getByRole("complementary").getByRole("listitem").nth(1).waitFor({ state: "detached" });
  await page.getByRole("button", { name: `Delete ${name}` }).click();
  await page.getByRole("button", { name: "Delete it" }).click();
  await page.getByText("Nothing contains").waitFor();
});

browserScenario("the settings of an assistant are a form if its graph has a schema of them", async (page) => {
  const schema = { type: "object", properties: { tone: { type: "string", title: "Tone" } } };
  await page.route("**/schemas", (route) => route.fulfill({ json: { graph_id: "agent_loop", context_schema: schema } }));
  await page.goto(`${STUDIO}/assistants/new`);
  const name = `Polite ${crypto.randomUUID()}`;
  await page.getByLabel("Graph").selectOption("agent_loop");
  await page.getByLabel("Name*", { exact: true }).fill(name);
  await page.getByLabel("Tone").fill("friendly");
  await page.getByRole("button", { name: "Create the assistant" }).click();
  await page.getByRole("heading", { name }).waitFor();
  const [made] = await newClient().assistants.search({ name });
  assert.deepEqual(made.context, { tone: "friendly" });
  await newClient().assistants.delete(made.assistant_id);
});

browserScenario("a cron is created, disabled and deleted", async (page) => {
  await page.goto(`${STUDIO}/crons`);
  await page.getByRole("button", { name: "New cron" }).click();
  await page.getByLabel("Assistant").selectOption("todo_agent");
  await page.getByLabel("Schedule").fill("61 * * * *");
  await page.getByLabel("Time zone").fill("Europe/Berlin");
  await page.getByRole("button", { name: "Create the cron" }).click();
  await page.getByRole("alert").getByText("Invalid cron schedule").waitFor();
  await page.getByLabel("Schedule").fill("30 5 * * *");
  await checkAccessibility(page);
  await page.getByRole("button", { name: "Create the cron" }).click();
  const cron = page.getByRole("article", { name: "todo_agent, 30 5 * * *" });
  await cron.getByText("Next run").waitFor();
  await cron.getByText("Europe/Berlin").waitFor();
  await cron.getByRole("switch", { name: "Enabled" }).click();
  await cron.getByText("No next run").waitFor();
  await checkAccessibility(page);
  await cron.getByRole("button", { name: /^Delete/ }).click();
  await page.getByRole("button", { name: "Delete it" }).click();
  await page.getByText("No crons").waitFor();
}, { ignore: /422/ });

browserScenario("an item is stored, found in the tree, edited and deleted", async (page) => {
  await page.goto(`${STUDIO}/store`);
  await page.getByRole("button", { name: "New item" }).click();
  await page.getByLabel("Namespace, labels").fill("people.ann");
  await page.getByLabel("Key").fill("drink/1");
  await page.getByLabel("Value").fill('{"likes": "tea"}');
  await page.getByLabel("Expires after").fill("60");
  await page.getByRole("button", { name: "Store the item" }).click();
  await page.getByRole("heading", { name: "drink/1" }).waitFor();
  await page.reload();
  await page.getByLabel("Value").fill('{"likes": "coffee"}');
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved").waitFor();
  await checkAccessibility(page);
  await page.getByRole("list", { name: "Namespaces" }).getByRole("link", { name: "people", exact: true }).click();
  await page.getByRole("row").filter({ hasText: "coffee" }).waitFor();
  await page.getByLabel("Search by meaning").fill("coffee");
  await page.getByText("has no embedding").waitFor();
  await checkAccessibility(page);
  await page.getByRole("link", { name: "drink/1" }).click();
  await page.getByRole("button", { name: "Delete drink/1" }).click();
  await page.getByRole("button", { name: "Delete it" }).click();
  await page.getByText("No items").waitFor();
}, { viewport: { width: 390, height: 800 } });

await runScenarios();
