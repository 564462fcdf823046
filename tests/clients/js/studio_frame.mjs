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
    assert.equal(await page.title(), `${await link.innerText()} · Toolweave Studio`);
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

browserScenario("on a narrow screen the link of the open page is in sight", async (page) => {
  await page.goto(`${STUDIO}/store`);
  const link = page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Store" });
  await page.waitForFunction(() => document.querySelector("nav [aria-current]")?.getBoundingClientRect().right <= innerWidth);
  assert.equal(await link.getAttribute("aria-current"), "page");
}, { viewport: { width: 390, height: 800 } });

browserScenario("the field for a message has the focus when a chat opens", async (page) => {
  await page.goto(`${STUDIO}/chat`);
  await page.getByLabel("Your message").waitFor();
  await page.keyboard.type("hello");
  assert.equal(await page.getByLabel("Your message").inputValue(), "hello");
});

browserScenario("an address of nothing says so", async (page) => {
  await page.goto(`${STUDIO}/http-tools/xyz`);
  await page.getByText("There is no page “xyz”").waitFor();
  await page.goto(`${STUDIO}/assistants/00000000-0000-4000-8000-000000000000`);
  await page.getByText("The server does not know the assistant").waitFor();
}, { ignore: /404/ });

await runScenarios();
