// `node studio_bench.mjs URL ROUNDS` opens the chat page in new browser contexts and prints its figures as JSON
// (scripts/bench_studio.py).

import { chromium } from "playwright-core";

import { CHROMIUM, STUDIO } from "./studio.mjs";
import { field, updatesPerSecond } from "./studio_answers.mjs";

const rounds = Number(process.argv[3]);
const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
const figures = { paint_ms: [], composer_ms: [], bytes: [], updates: [] };

/** Give a page whose cache is empty, and close it. */
async function onNewPage(act) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  try {
    await act(await context.newPage());
  } finally {
    await context.close();
  }
}

async function firstLoad(page) {
  const requests = [];
  page.on("requestfinished", (request) => request.url().startsWith(STUDIO) && requests.push(request));
  await page.addInitScript(() => {
    const look = () => {
      const composer = document.querySelector("textarea[aria-label='Your message']");
      if (composer && !composer.disabled) globalThis.composerAt = performance.now();
      else requestAnimationFrame(look);
    };
    look();
  });
  await page.goto(`${STUDIO}/chat`);
  await page.waitForFunction(() => globalThis.composerAt && performance.getEntriesByName("first-contentful-paint").length);
  await field(page).pressSequentially("a");
  await page.waitForLoadState("networkidle");
  figures.paint_ms.push(await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime));
  figures.composer_ms.push(await page.evaluate(() => globalThis.composerAt));
  const sizes = await Promise.all(requests.map((request) => request.sizes()));
  figures.bytes.push(sizes.reduce((sum, size) => sum + size.responseBodySize, 0));
}

await onNewPage(async (page) => page.goto(`${STUDIO}/chat`));
for (let round = 0; round < rounds; round++) await onNewPage(firstLoad);
for (let round = 0; round < rounds; round++) await onNewPage(async (page) => figures.updates.push(await updatesPerSecond(page)));
await browser.close();
console.log(JSON.stringify(figures));
