// The MCP servers in the studio: state, tools called through forms, the log of calls.

import { assert, runScenarios } from "./scenarios.mjs";
import { browserScenario, checkAccessibility, STUDIO } from "./studio.mjs";

browserScenario("a server shows its state and tools, and reconnects", async (page) => {
  await page.goto(`${STUDIO}/servers`);
  await page.getByRole("heading", { name: "todo" }).waitFor();
  await page.getByRole("region", { name: "Server", exact: true }).getByText("ready", { exact: true }).waitFor();
  await checkAccessibility(page);
  await page.getByLabel("Search the tools").fill("create");
  assert.deepEqual(await page.getByRole("region", { name: "Server", exact: true }).getByRole("listitem").locator(".cut").allInnerTexts(), ["create_todo"]);
  const answer = page.waitForResponse((response) => response.url().endsWith("/servers/todo/reconnect"));
  await page.getByRole("button", { name: "Reconnect" }).click();
  assert.equal((await (await answer).json()).state, "ready");
});

browserScenario("a tool is called through the form of its schema, and the log has the call without its arguments", async (page) => {
  const title = `Water the plants ${crypto.randomUUID()}`;
  await page.goto(`${STUDIO}/servers/todo/tools/create_todo`);
  await page.getByLabel("title").fill(title);
  await page.getByLabel("priority").selectOption("high");
  await page.getByRole("button", { name: "Add an entry" }).click();
  await page.getByLabel("tags-1").fill("home");
  await checkAccessibility(page);
  await page.getByRole("button", { name: "Call the tool" }).click();
  const result = page.getByRole("region", { name: "Result" });
  await result.getByText(title).waitFor();
  assert.match(await result.innerText(), /"home"/);
  await checkAccessibility(page);
  await page.getByRole("link", { name: "Recent calls" }).click();
  const calls = page.getByRole("region", { name: "Recent calls" });
  await calls.getByRole("row").filter({ hasText: "create_todo" }).first().getByText("ok").waitFor();
  assert.ok(!(await calls.innerText()).includes(title));
  await checkAccessibility(page);
});

browserScenario("the form names what is missing, and JSON arguments reach the tool, whose error is readable", async (page) => {
  await page.goto(`${STUDIO}/servers/todo/tools/delete_todo`);
  await page.getByRole("button", { name: "Call the tool" }).click();
  await page.locator(".error-detail").first().waitFor();
  await page.getByRole("button", { name: "As JSON" }).click();
  await page.getByLabel("Arguments as JSON").fill('{"id": ');
  assert.ok(await page.getByRole("button", { name: "Call the tool" }).isDisabled());
  await page.getByLabel("Arguments as JSON").fill('{"id": 987654}');
  await page.getByRole("button", { name: "Call the tool" }).click();
  const result = page.getByRole("region", { name: "Result" });
  await result.getByText("error", { exact: true }).waitFor();
  assert.match(await result.innerText(), /987654/);
  await page.getByRole("link", { name: /Recent calls/ }).click();
  await page.getByLabel("Failures only").check();
  await page.getByRole("row").filter({ hasText: "delete_todo" }).first().getByText("tool error").waitFor();
});

browserScenario("an image that a tool returns is shown", async (page) => {
  const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  const content = [{ type: "image", data: pixel, mimeType: "image/png" }, { type: "text", text: "One pixel" }];
  await page.route("**/servers/todo/call", (route) => route.fulfill({ json: { result: { content, isError: false }, duration_ms: 1234 } }));
  await page.goto(`${STUDIO}/servers/todo/tools/list_todos`);
  await page.getByRole("button", { name: "Call the tool" }).click();
  const result = page.getByRole("region", { name: "Result" });
  await result.getByRole("img").waitFor();
  assert.equal(await result.getByRole("img").evaluate((image) => image.naturalWidth), 1);
  assert.match(await result.innerText(), /1\.2 s[^]*One pixel/);
});

browserScenario("a disabled server says how to enable it", async (page) => {
  await page.goto(`${STUDIO}/servers`);
  await page.getByText("Disabled", { exact: true }).click();
  await page.getByRole("link", { name: "core disabled" }).click();
  await page.getByText("Enable it in mcp.jsonc").waitFor();
  assert.equal(await page.getByRole("button", { name: "Reconnect" }).count(), 0);
}, { viewport: { width: 390, height: 800 }, colorScheme: "dark" });

browserScenario("another application without these routes is named as the reason", async (page) => {
  await page.route(/127\.0\.0\.1:\d+\/(servers|tools\?)/, (route) => route.fulfill({ status: 404, json: { detail: "Not Found" } }));
  for (const path of ["servers", "http-tools"]) {
    await page.goto(`${STUDIO}/${path}`);
    await page.getByText("This server runs another application").waitFor();
    await checkAccessibility(page);
  }
}, { ignore: /404/ });

// One after the other: a reconnection would disturb the calls of others.
await runScenarios({ atOnce: 1 });
