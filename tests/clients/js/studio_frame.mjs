// The frame of the studio: navigation, themes, token, narrow screens.

import { assert, runScenarios } from "./scenarios.mjs";
import { browserScenario, checkAccessibility, STUDIO } from "./studio.mjs";

browserScenario("the address of the studio opens the chat, and each page can be opened by its link", async (page) => {
  await page.goto(STUDIO);
  await page.waitForURL(/\/studio\/chat/);
  const links = page.getByRole("navigation").getByRole("link");
  for (const link of await links.all()) {
    await link.click();
    assert.equal(await link.getAttribute("aria-current"), "page");
    await page.reload();
    await page.getByRole("main").getByRole("heading").first().waitFor();
    await checkAccessibility(page);
  }
});

browserScenario("the theme changes by a button and is still there after a reload", async (page) => {
  await page.goto(STUDIO);
  await page.getByRole("button", { name: "Dark theme" }).click();
  await page.reload();
  await page.getByRole("button", { name: "Light theme" }).waitFor();
  assert.equal(await page.locator("html").getAttribute("data-theme"), "dark");
  await checkAccessibility(page);
});

await runScenarios();
