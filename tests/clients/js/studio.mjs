// Scenarios of the studio in headless Chromium: each has a browser context of its own and fails on errors of the page.

import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { readFile } from "node:fs/promises";

import { chromium } from "playwright-core";

import { assert, scenario, url } from "./scenarios.mjs";

export const STUDIO = `${url}/studio`;
export const CHROMIUM = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((path) => existsSync(path));
const AXE = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let browser;

/** Add a scenario that gets a page. `options` are Playwright's of a context; `ignore` matches console errors that the scenario causes; requests go to `origins` only. */
export function browserScenario(name, act, { ignore = /^$/, origins = [url], ...options } = {}) {
  scenario(name, async () => {
    assert.ok(CHROMIUM, "Chromium is not installed");
    browser ??= chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
    const context = await (await browser).newContext({ viewport: { width: 1280, height: 800 }, ...options });
    const problems = [];
    context.on("weberror", (event) => problems.push(`exception: ${event.error()}`));
    context.on("console", (message) => {
      if (message.type() === "error" && !ignore.test(message.text())) problems.push(`console: ${message.text()}`);
    });
    context.on("request", (request) => {
      if (!origins.some((origin) => request.url().startsWith(origin)) && !/^(data|blob|about):/.test(request.url())) problems.push(`request to ${request.url()}`);
    });
    const page = await context.newPage();
    try {
      await act(page, context);
      assert.deepEqual(problems, []);
    } catch (error) {
      const shown = await page.locator("body").innerText({ timeout: 1000 }).catch(() => "");
      throw new Error(`${error.stack}\n${problems.join("\n")}\nthe page shows:\n${shown.slice(0, 3000)}`, { cause: error });
    } finally {
      await context.close();
    }
  });
}

/** Fail if axe finds serious or critical problems on the page. */
export async function checkAccessibility(page) {
  // Through the debugger: the page's content security policy allows no injected script.
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const serious = violations.filter((each) => ["serious", "critical"].includes(each.impact));
  assert.deepEqual(serious.map((each) => `${each.id}: ${each.nodes.map((node) => node.html).join(" ")}`), []);
}
