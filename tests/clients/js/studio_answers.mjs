// What scenarios and the benchmark do on the chat page: open it, send a message, wait for the answer, count its updates.

import { assert } from "./scenarios.mjs";
import { STUDIO } from "./studio.mjs";

export const answers = (page) => page.getByRole("article", { name: "Assistant" });
export const field = (page) => page.getByLabel("Your message");
export const idle = (page) => page.getByText("Working…").waitFor({ state: "detached" });

export async function open(page, assistant, studio = STUDIO) {
  await page.goto(`${studio}/chat?assistant=${assistant}`);
  await field(page).waitFor();
}

export async function send(page, text) {
  await field(page).fill(text);
  await field(page).press("Enter");
}

export async function answered(page, text) {
  await answers(page).filter({ hasText: text }).last().waitFor();
  await idle(page);
}

/** Let the graph `paced` stream 2 000 tokens, check that all are shown in order, and return how often a frame shows more of them. */
export async function updatesPerSecond(page) {
  await open(page, "paced");
  const words = Array.from({ length: 2000 }, (_, number) => `w${number}${number % 40 === 39 ? "." : ""}`);
  await page.evaluate(() => {
    globalThis.draws = [];
    let length = 0;
    const look = (time) => {
      const now = [...document.querySelectorAll(".message.ai")].at(-1)?.textContent.length ?? 0;
      if (now !== length) globalThis.draws.push(time);
      length = now;
      requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  });
  await send(page, words.join(" "));
  await answered(page, "w1999");
  const shown = await answers(page).last().locator(".markdown").innerText();
  assert.equal(shown.replaceAll(/\s+/g, " ").trim(), `you said: ${words.join(" ")}`);
  const draws = await page.evaluate(() => globalThis.draws);
  return draws.length / ((draws.at(-1) - draws[0]) / 1000);
}
