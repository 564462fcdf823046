// `node studio_images.mjs URL FOLDER` converses in the studio and writes a picture of each page (scripts/studio_images.py).

import { chromium } from "playwright-core";

import { newClient, url } from "./scenarios.mjs";
import { CHROMIUM, STUDIO } from "./studio.mjs";

const folder = process.argv[3];
const client = newClient();
const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });

const ask = (threadId, assistant, content) =>
  client.runs.wait(threadId, assistant, { input: { messages: [{ role: "user", content }] } });

async function picture(name, path, ready, { theme = "light", act = async () => {} } = {}) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, colorScheme: theme });
  await page.goto(`${STUDIO}${path}`);
  await ready(page).first().waitFor();
  await act(page);
  await page.screenshot({ path: `${folder}/studio-${name}.png`, animations: "disabled" });
  await page.close();
}

const earlier = await client.threads.create();
await ask(earlier.thread_id, "agent_loop", "Add the todo Water the plants");
const { thread_id: threadId } = await client.threads.create();
await ask(threadId, "agent_loop", "Add the todo Buy oat milk with high priority");
await ask(threadId, "agent_loop", "Add the todo Call the dentist");
await ask(threadId, "agent_loop", "List my todos");

await picture("chat", `/chat/${threadId}`, (page) => page.getByText("Call the dentist"));
await picture("chat-dark", `/chat/${threadId}`, (page) => page.getByText("Call the dentist"), { theme: "dark" });
await picture("graph", `/graphs/agent_loop?thread=${threadId}`, (page) => page.getByLabel("Message"));
await picture("history", `/history/${threadId}`, (page) => page.getByText("__start__"));
await picture("servers", "/servers/todo", (page) => page.getByText("create_todo"), {
  // The folder of the person who runs this is nothing to publish.
  act: (page) => page.getByText(/\/bin\/python/).evaluate((element) => { element.textContent = "python"; }),
});
await picture("runs", "/runs", (page) => page.getByRole("table").getByText("success"));
await browser.close();
console.log(`The pictures of ${url} are in ${folder}.`);
