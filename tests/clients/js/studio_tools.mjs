// Tool cards of the real todo server in the studio's chat.

import { runScenarios } from "./scenarios.mjs";
import { browserScenario, checkAccessibility, STUDIO } from "./studio.mjs";

browserScenario("a card names the server of a tool, its duration and its result, also after a reload", async (page) => {
  await page.goto(`${STUDIO}/chat?assistant=todo_agent`);
  await page.getByLabel("Your message").fill("add a todo: buy milk");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByText("Created the todo").waitFor();
  await page.reload();
  const card = page.locator("details.tool-card");
  await card.getByText("todo", { exact: true }).waitFor();
  await card.getByText(/^[\d.]+ m?s$/).waitFor();
  await card.locator("summary").click();
  await card.getByLabel("Result").getByText('"title": "Buy milk"').waitFor();
  await checkAccessibility(page);
});

await runScenarios();
