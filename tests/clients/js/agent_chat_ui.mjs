// `node agent_chat_ui.mjs URL PAGE FILE` drives the real Agent Chat UI, which PAGE serves, against our server at URL, and
// writes its requests to FILE, a JSON line each (scripts/agent_chat_ui.py).

import { appendFileSync } from "node:fs";

import { assert, newClient, newGate, runScenarios, url } from "./scenarios.mjs";
import { browserScenario } from "./studio.mjs";

const [ui, log] = process.argv.slice(3);
const field = (page) => page.getByPlaceholder("Type your message...");
const idle = (page) => page.getByRole("button", { name: "Send" }).waitFor();
const opened = (assistant, rest = "") => `${ui}/?apiUrl=${encodeURIComponent(url)}&assistantId=${assistant}${rest}`;

function uiScenario(name, act) {
  browserScenario(name, async (page) => {
    page.on("request", (request) => {
      if (!request.url().startsWith(url)) return;
      const { pathname, search } = new URL(request.url());
      const { "content-type": type, "last-event-id": lastEventId, "x-api-key": key } = request.headers();
      const sent = { scenario: name, method: request.method(), path: pathname + search, type, lastEventId, key, body: request.postDataJSON() };
      appendFileSync(log, `${JSON.stringify(sent)}\n`);
    });
    await act(page);
  }, { origins: [ui, url] });
}

async function send(page, text) {
  await field(page).fill(text);
  await field(page).press("Enter");
}

async function shown(page, text) {
  await page.getByText(text, { exact: true }).last().waitFor();
}

async function answered(page, text) {
  await shown(page, text);
  await idle(page);
}

uiScenario("the form connects to the server, and an answer streams in", async (page) => {
  await page.goto(ui);
  await page.getByLabel("Deployment URL").fill(url);
  await page.getByLabel("Assistant / Graph ID").fill("talk");
  await page.getByLabel("LangSmith API Key").fill("lsv2_pt_x");
  await page.getByRole("button", { name: "Continue" }).click();
  const gate = newGate();
  await send(page, `tell me ${gate.word} more`);
  await shown(page, "you said: tell me");
  await page.getByRole("button", { name: "Cancel" }).waitFor();
  await gate.open();
  await answered(page, "you said: tell me more");
});

uiScenario("a stream is cancelled", async (page) => {
  await page.goto(opened("talk"));
  const gate = newGate();
  await send(page, `never ${gate.word} said`);
  await shown(page, "you said: never");
  await page.getByRole("button", { name: "Cancel" }).click();
  await idle(page);
  await gate.open();
});

uiScenario("an edited message and a repeated answer are branches", async (page) => {
  await page.goto(opened("talk"));
  await send(page, "one");
  await answered(page, "you said: one");
  await page.getByText("one", { exact: true }).hover();
  await page.getByRole("button", { name: "Edit" }).click();
  await page.locator("textarea").first().fill("two");
  await page.getByRole("button", { name: "Submit" }).click();
  await answered(page, "you said: two");
  await shown(page, "2 / 2");
  await page.getByText("you said: two").hover();
  await page.getByRole("button", { name: "Refresh" }).click();
  await page.getByText("2 / 2", { exact: true }).nth(1).waitFor();
  await answered(page, "you said: two");
});

uiScenario("a tool call and its result are shown", async (page) => {
  await page.goto(opened("todo_agent"));
  await send(page, "Add a task to buy milk");
  await page.getByRole("heading", { name: /^create_todo/ }).waitFor();
  await page.getByRole("heading", { name: "Tool Result: create_todo" }).waitFor();
  await page.getByText("Created the todo").waitFor();
  await idle(page);
});

/** Send a message whose answer is an interrupt; the page resets its form when it has read the history. */
async function interrupted(page) {
  await page.goto(opened("approve"));
  const history = page.waitForResponse(/\/history$/);
  await send(page, "hello");
  await history;
  await page.getByRole("button", { name: "Approve", exact: true }).waitFor();
  await idle(page);
  await page.waitForLoadState("networkidle");
}

uiScenario("an interrupt is shown, and an approval resumes the run", async (page) => {
  await interrupted(page);
  await page.getByRole("button", { name: "Approve", exact: true }).click();
  await answered(page, "you said: decided: {'decisions': [{'type': 'approve'}]}");
});

uiScenario("an interrupt is answered with other arguments", async (page) => {
  await interrupted(page);
  await page.locator("textarea").filter({ hasText: "hello" }).fill("goodbye");
  await page.getByRole("button", { name: "Submit", exact: true }).click();
  const action = "{'name': 'send', 'args': {'text': 'goodbye'}}";
  await answered(page, `you said: decided: {'decisions': [{'type': 'edit', 'edited_action': ${action}}]}`);
});

uiScenario("an interrupt is answered with a reason", async (page) => {
  await interrupted(page);
  await page.getByPlaceholder("Share feedback with the agent...").fill("too short");
  await page.getByRole("button", { name: "Submit rejection" }).click();
  await answered(page, "you said: decided: {'decisions': [{'type': 'reject', 'message': 'too short'}]}");
});

// The buttons are for the requests of LangChain's middleware.
uiScenario("an approval of our agents is shown without buttons", async (page) => {
  await page.goto(opened("agent"));
  await send(page, "remove(name=thing)");
  await page.getByText("Human Interrupt").waitFor();
  await page.getByText("action_request").waitFor();
  await idle(page);
});

// LangGraph ignores the command that this button sends (`goto` to the end), and interrupts again.
uiScenario("an interrupt is marked as resolved without an error", async (page) => {
  await interrupted(page);
  await page.getByRole("button", { name: "Mark as Resolved" }).click();
  await page.getByText("Marked thread as resolved.").waitFor();
  await idle(page);
  assert.equal(await page.getByText("An error occurred").count(), 0);
});

uiScenario("a new message replaces the answer to an interrupt", async (page) => {
  await interrupted(page);
  await send(page, "instead");
  await page.locator("textarea").filter({ hasText: "instead" }).first().waitFor();
  await idle(page);
});

uiScenario("the list of threads opens an earlier thread", async (page) => {
  const [{ assistant_id: assistant }] = await newClient().assistants.search({ graphId: "talk" });
  await page.goto(opened(assistant, "&chatHistoryOpen=true"));
  const text = `remember ${crypto.randomUUID()}`;
  await send(page, text);
  await answered(page, `you said: ${text}`);
  await page.getByRole("button", { name: "New thread" }).click();
  await page.getByText(`you said: ${text}`).waitFor({ state: "detached" });
  await page.reload();
  await page.getByRole("button", { name: text }).click();
  await answered(page, `you said: ${text}`);
  assert.match(page.url(), /threadId=/);
});

await runScenarios({ atOnce: 2 });
