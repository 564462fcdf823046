// MCP Apps in the studio: the page of a tool's server in a frame, what it may do, and what it cannot do.

import { assert, runScenarios, url } from "./scenarios.mjs";
import { browserScenario, checkAccessibility, STUDIO } from "./studio.mjs";

const SHOTS = process.env.SHOTS;
const shot = async (page, name) => SHOTS && page.screenshot({ path: `${SHOTS}/${name}.png` });
const app = (page) => page.getByRole("region", { name: "App of dice" }).frameLocator("iframe").frameLocator("iframe");
const field = (page) => page.getByLabel("Your message");

async function rollInChat(page) {
  await page.goto(`${STUDIO}/chat?assistant=dice`);
  await field(page).fill("roll");
  await field(page).press("Enter");
  await app(page).getByLabel("Result").getByText(/rolled \d+ for \{"sides":20\}/).waitFor();
  await page.getByText("Working…").waitFor({ state: "detached" });
}

async function rollOnPage(page) {
  await page.goto(`${STUDIO}/servers/dice/tools/roll_dice`);
  await page.getByRole("button", { name: "Call the tool" }).click();
  await app(page).getByLabel("Result").getByText(/rolled \d+ for/).waitFor();
}

const press = (page, name) => app(page).getByRole("button", { name }).click();
const outcome = (page, text) => app(page).getByLabel("Outcome").getByText(text).waitFor();

browserScenario("the chat shows the app of a tool with the call's arguments and result, also after a reload", async (page) => {
  await rollInChat(page);
  await checkAccessibility(page);
  await shot(page, "chat-light");
  const shown = await app(page).getByLabel("Result").innerText();
  await page.reload();
  await app(page).getByLabel("Result").getByText(shown).waitFor();
});

browserScenario("the app follows the theme and gets the height that it asks for", async (page) => {
  await rollInChat(page);
  const colour = () => app(page).locator("body").evaluate((body) => getComputedStyle(body).backgroundColor);
  assert.equal(await colour(), "rgb(20, 22, 26)");
  await shot(page, "chat-dark-390");
  await page.getByRole("button", { name: "Light theme" }).click();
  await app(page).locator("html[data-theme=light]").waitFor();
  assert.equal(await colour(), "rgb(255, 255, 255)");
  await press(page, "Grow");
  await page.waitForFunction(() => document.querySelector(".app iframe").clientHeight === 420);
}, { viewport: { width: 390, height: 800 }, colorScheme: "dark" });

browserScenario("an app calls the tools of its server, and a tool that needs approval only after the user allows it", async (page) => {
  await rollOnPage(page);
  await checkAccessibility(page);
  await shot(page, "servers-light");
  await press(page, "Roll again");
  await outcome(page, /rolled \d+/);
  await press(page, "Show all");
  await outcome(page, /all: /);
  await press(page, "Cheat");
  await outcome(page, "refused: There is no tool loaded_dice for apps.");
  await press(page, "Forget");
  const dialog = page.getByRole("dialog", { name: "Allow this call?" });
  await dialog.getByRole("button", { name: "Do not allow" }).click();
  await outcome(page, "refused: The user did not allow forget.");
  await press(page, "Forget");
  await checkAccessibility(page);
  await shot(page, "dialog");
  await dialog.getByRole("button", { name: "Allow once" }).click();
  await outcome(page, "forgotten");
});

browserScenario("an app opens a link only after the user confirms it, and only one of the web", async (page, context) => {
  await rollOnPage(page);
  await press(page, "Run a link");
  await outcome(page, "declined");
  await press(page, "Rules");
  const dialog = page.getByRole("dialog", { name: "Open this link?" });
  await dialog.getByText(`${url}/studio/icon.svg`).waitFor();
  await page.keyboard.press("Escape");
  await outcome(page, "declined");
  await press(page, "Rules");
  const opened = context.waitForEvent("page");
  await dialog.getByRole("link", { name: "Open" }).click();
  assert.equal((await opened).url(), `${url}/studio/icon.svg`);
  await outcome(page, "accepted");
}, { ignore: /404/ });

browserScenario("a message of an app is the user's message once the user sends it, and only in the chat", async (page) => {
  await rollInChat(page);
  await press(page, "Tell the chat");
  const dialog = page.getByRole("dialog", { name: "Send this message?" });
  await dialog.getByText("dice are fun").waitFor();
  await checkAccessibility(page);
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await outcome(page, "declined");
  assert.equal(await page.getByRole("article", { name: "You" }).count(), 1);
  await press(page, "Tell the chat");
  await dialog.getByRole("button", { name: "Send" }).click();
  await outcome(page, "accepted");
  await page.getByRole("article", { name: "Assistant" }).getByText("you said: dice are fun").waitFor();
  await rollOnPage(page);
  await press(page, "Tell the chat");
  await outcome(page, "declined");
});

browserScenario("an app reaches no network, no other page, no storage and no token, and cannot leave its frame", async (page, context) => {
  await page.goto(STUDIO);
  await page.evaluate(() => sessionStorage.setItem("toolweave-studio-token", "a secret"));
  await context.addCookies([{ name: "session", value: "secret", url }]);
  await rollInChat(page);
  const address = page.url();
  await press(page, "Escape");
  await outcome(page, "done");
  const attempts = await app(page).getByRole("listitem").allInnerTexts();
  assert.deepEqual(attempts.filter((line) => !line.endsWith(": impossible")), []);
  assert.equal(attempts.length, 13);
  const refusal = page.waitForEvent("console", (message) => /^Framing 'https:\/\/example\.com/.test(message.text()));
  await press(page, "Leave");
  await refusal;
  assert.equal(page.url(), address);
}, { ignore: /Content Security Policy|sandbox|Unsafe attempt|denied|Blocked/i });

await runScenarios({ atOnce: 1 });
