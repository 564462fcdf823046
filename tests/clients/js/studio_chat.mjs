// The chat of the studio: messages, tool cards, files, stop, branches, threads, runs of other tabs.

import { assert, human, newClient, newGate, runScenarios, url } from "./scenarios.mjs";
import { cuttingProxy } from "./cutting_proxy.mjs";
import { answered, answers, field, idle, open, send, updatesPerSecond } from "./studio_answers.mjs";
import { browserScenario, checkAccessibility, STUDIO } from "./studio.mjs";

const client = newClient();
const threadOf = (page) => new URL(page.url()).pathname.split("/").at(-1);
const proxy = await cuttingProxy(url);
const OUTAGE = { origins: [proxy.url], ignore: /ERR_|WebSocket/ };
const UNREACHABLE = "The server does not answer. Is it running?";
const DONE = { permissions: ["clipboard-read", "clipboard-write"] };

browserScenario("an answer streams in, and its thread has an address and a title", async (page) => {
  await open(page, "talk");
  await page.getByText("Write a message to start").waitFor();
  await checkAccessibility(page);
  const gate = newGate();
  await send(page, `tell me ${gate.word} more`);
  await answers(page).getByText("you said: tell me", { exact: true }).waitFor();
  await checkAccessibility(page);
  await gate.open();
  await answered(page, "you said: tell me more");
  const item = page.getByRole("list", { name: "Threads" }).getByRole("link", { name: "tell me" });
  assert.match(await item.getAttribute("href"), new RegExp(threadOf(page)));
  await page.reload();
  await answered(page, "you said: tell me more");
  await checkAccessibility(page);
});

browserScenario("an answer of 2 000 tokens is complete, in order, and drawn at least 30 times a second", async (page) => {
  const perSecond = await updatesPerSecond(page);
  assert.ok(perSecond >= 30, `${perSecond} updates per second`);
});

browserScenario("the conversation follows an answer until the user scrolls up", async (page) => {
  await open(page, "talk");
  const [first, second] = [newGate(), newGate()];
  const lines = (name) => Array.from({ length: 600 }, (_, number) => `${name}${number}`).join(" ");
  await send(page, `${lines("a")} ${first.word} ${lines("b")} ${second.word} end`);
  const area = page.getByRole("region", { name: "Conversation" });
  const distance = () => area.evaluate((element) => element.scrollHeight - element.scrollTop - element.clientHeight);
  await answers(page).getByText("a599").waitFor();
  await page.waitForFunction(() => {
    const element = document.querySelector(".scroll-area");
    return element.scrollTop > 0 && element.scrollHeight - element.scrollTop - element.clientHeight < 30;
  });
  await area.hover();
  await page.mouse.wheel(0, -300);
  const button = page.getByRole("button", { name: "Jump to the end" });
  await button.waitFor();
  await first.open();
  await answers(page).getByText("b599").waitFor();
  assert.ok(await distance() > 100, "the user's position was lost");
  await button.click();
  await second.open();
  await answered(page, "end");
  assert.ok(await distance() < 30);
});

browserScenario("a tool call is a card: under way, with its arguments and result, or with its error", async (page) => {
  await open(page, "agent");
  const gate = newGate();
  await send(page, `mail:${gate.word} mail:nobody`);
  const cards = page.locator("details.tool-card");
  await cards.nth(0).getByText("running").waitFor();
  await checkAccessibility(page);
  await gate.open();
  await answered(page, "results: sent");
  await cards.nth(0).getByText("success").waitFor();
  await cards.nth(0).locator("summary").click();
  await cards.nth(0).getByLabel("Arguments").getByText(gate.word).waitFor();
  await cards.nth(1).getByText("there is no mailbox of nobody").waitFor();
  await checkAccessibility(page);
});

browserScenario("a failed run shows its error also after a reload, and a retry continues it", async (page) => {
  await open(page, "retry");
  await send(page, `try ${crypto.randomUUID()}`);
  await page.getByRole("alert").getByText("the first attempt always fails").waitFor();
  await checkAccessibility(page);
  await page.reload();
  await page.getByRole("alert").getByText("the first attempt always fails").waitFor();
  await page.getByRole("button", { name: "Retry" }).click();
  await answered(page, "The second attempt worked");
  assert.equal(await page.getByRole("alert").count(), 0);
});

browserScenario("a message that an unreachable server did not get is still there, and a retry sends it", async (page) => {
  proxy.comeBack();
  await open(page, "talk", `${proxy.url}/studio`);
  const users = page.getByRole("article", { name: "You" });
  for (const text of ["first", "second"]) {
    proxy.goDown();
    await send(page, text);
    await page.getByRole("alert").getByText(UNREACHABLE).first().waitFor();
    await page.getByRole("button", { name: "Retry" }).waitFor();
    proxy.comeBack();
    await page.getByRole("button", { name: "Retry" }).click();
    await answered(page, `you said: ${text}`);
    await page.getByRole("alert").waitFor({ state: "detached" });
  }
  assert.deepEqual(await users.locator(".prose").allInnerTexts(), ["first", "second"]);
  const { values } = await client.threads.getState(threadOf(page));
  assert.equal(values.messages.length, 4);
}, OUTAGE);

browserScenario("a message that was sent with an expired token is sent again with the new one", async (page) => {
  let valid = "old";
  await page.route(/\/(threads|assistants|runs)/, async (route) => {
    const token = (await route.request().allHeaders()).authorization;
    if (token === `Bearer ${valid}`) return route.fallback();
    return route.fulfill({ status: 401, json: { detail: "This token has expired" } });
  });
  const enter = async (button, token) => {
    await page.getByRole("button", { name: button }).click();
    await page.getByLabel("Token of this server").fill(token);
    await page.getByRole("button", { name: "Save" }).click();
  };
  await page.goto(`${STUDIO}/chat?assistant=talk`);
  await enter("Enter token", "old");
  for (const [text, token] of [["first", "new"], ["second", "newest"]]) {
    await field(page).waitFor();
    valid = token;
    await send(page, text);
    await page.getByRole("alert").getByText("This token has expired").first().waitFor();
    await enter("Change token", token);
    await page.getByRole("article", { name: "You" }).getByText(text).waitFor();
    await page.getByRole("alert").getByText("The server has not received the last input.").waitFor();
    await page.getByRole("button", { name: "Retry" }).click();
    await answered(page, `you said: ${text}`);
  }
}, { ignore: /401|404/ });

browserScenario("a conversation outlives an outage of the server, and a run that ended meanwhile shows its answer", async (page) => {
  proxy.comeBack();
  await open(page, "talk", `${proxy.url}/studio`);
  await send(page, "before");
  await answered(page, "you said: before");
  const gate = newGate();
  await send(page, `now ${gate.word} then`);
  await answers(page).getByText("you said: now", { exact: true }).waitFor();
  proxy.goDown();
  await page.getByRole("alert").getByText(UNREACHABLE).first().waitFor();
  await answers(page).getByText("you said: before").waitFor();
  await gate.open();
  const [run] = await client.runs.list(threadOf(page));
  await client.runs.join(threadOf(page), run.run_id);
  proxy.comeBack();
  await answered(page, "you said: now then");
  await page.getByRole("alert").waitFor({ state: "detached" });
  await send(page, "after");
  await answered(page, "you said: after");
  await client.threads.delete(threadOf(page));
  await page.getByRole("alert").getByText("It may have been deleted").waitFor();
  assert.equal(await page.getByRole("button", { name: "Retry" }).count(), 0);
}, { ...OUTAGE, ignore: /ERR_|WebSocket|404/ });

browserScenario("files are attached, pasted and dropped, and one that is too large is refused with the limit", async (page) => {
  await open(page, "files");
  const png = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
  await page.getByLabel("Files", { exact: true }).setInputFiles([
    { name: "dot.png", mimeType: "image/png", buffer: png },
    { name: "big.pdf", mimeType: "application/pdf", buffer: Buffer.alloc(5_000_001) },
  ]);
  await page.getByText("big.pdf has 5.0 MB; a file may have 5.0 MB.").waitFor();
  for (const [type, key, name] of [["paste", "clipboardData", "pasted.pdf"], ["drop", "dataTransfer", "dropped.pdf"]]) {
    const transfer = await page.evaluateHandle((file) => {
      const data = new DataTransfer();
      data.items.add(new File(["%PDF"], file, { type: "application/pdf" }));
      return data;
    }, name);
    await field(page).evaluate((element, [event, property, data]) => {
      const sent = event === "paste" ? new ClipboardEvent(event, { bubbles: true, cancelable: true, [property]: data })
        : new DragEvent(event, { bubbles: true, cancelable: true, [property]: data });
      element.dispatchEvent(sent);
    }, [type, key, transfer]);
    await page.getByRole("list", { name: "Attached files" }).getByText(name).waitFor();
  }
  await page.getByRole("button", { name: "Remove dropped.pdf" }).click();
  await send(page, "look");
  await answered(page, "I got text, image, file");
  await page.getByRole("article", { name: "You" }).getByRole("img", { name: "Attached image" }).waitFor();
  await page.getByRole("cell", { name: "1", exact: true }).locator("strong").waitFor();
  await checkAccessibility(page);
  const { values } = await client.threads.getState(threadOf(page));
  const blocks = values.messages[0].content;
  assert.deepEqual(blocks.slice(1).map(({ type, mime_type: mime }) => [type, mime]), [["image", "image/png"], ["file", "application/pdf"]]);
  assert.equal(blocks[1].base64, png.toString("base64"));
});

browserScenario("strings among the content blocks of a message are text", async (page) => {
  await open(page, "strings");
  await send(page, "hello");
  await answered(page, "plain answer");
  await page.locator("details.tool-card summary").click();
  await page.locator("details.tool-card").getByText("found").waitFor();
  await page.getByRole("article", { name: "Assistant" }).getByText("it", { exact: true }).waitFor();
});

browserScenario("stop ends the run and keeps the part of the answer that had come", async (page) => {
  await open(page, "talk");
  const gate = newGate();
  await send(page, `half ${gate.word} rest`);
  await answers(page).getByText("you said: half").waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByText("Stopped here").waitFor();
  await answers(page).getByText("you said: half").waitFor();
  await page.getByRole("button", { name: "Send" }).waitFor();
  const [run] = await client.runs.list(threadOf(page));
  await client.runs.join(threadOf(page), run.run_id);
  assert.equal((await client.runs.get(threadOf(page), run.run_id)).status, "interrupted");
  await gate.open();
  await send(page, "again");
  await answered(page, "you said: again");
});

browserScenario("an edited message and a regenerated answer are branches to switch between", async (page) => {
  await open(page, "talk");
  await send(page, "first");
  await answered(page, "you said: first");
  await send(page, "second");
  await answered(page, "you said: second");
  const users = page.getByRole("article", { name: "You" });
  await users.first().getByRole("button", { name: "Edit" }).click();
  await page.getByLabel("Edit your message").fill("changed");
  await page.getByRole("button", { name: "Send again" }).click();
  await answered(page, "you said: changed");
  assert.equal(await users.count(), 1);
  await users.getByText("2 / 2").waitFor();
  await users.getByRole("button", { name: "Previous version" }).click();
  await answers(page).getByText("you said: second").waitFor();
  await users.first().getByText("1 / 2").waitFor();
  assert.match(page.url(), /checkpoint=/);
  await checkAccessibility(page);
  await page.reload();
  await answers(page).getByText("you said: second").waitFor();
  await send(page, "third");
  await answered(page, "you said: third");
  assert.deepEqual(await users.locator(".prose").allInnerTexts(), ["first", "second", "third"]);
  await answers(page).last().getByRole("button", { name: "Regenerate" }).click();
  await answers(page).last().getByText("2 / 2").waitFor();
  await answered(page, "you said: third");
  const { values } = await client.threads.getState(threadOf(page));
  assert.deepEqual(values.messages.filter((each) => each.type === "human").map((each) => each.content), ["first", "second", "third"]);
});

async function edit(page, text, changed) {
  const message = page.getByRole("article", { name: "You" }).filter({ hasText: text });
  await message.getByRole("button", { name: "Edit" }).click();
  await page.getByLabel("Edit your message").fill(changed);
  await page.getByRole("button", { name: "Send again" }).click();
  await answered(page, `you said: ${changed}`);
  const { values } = await client.threads.getState(threadOf(page));
  return values.messages.slice(0, -1).map((each) => each.content);
}

browserScenario("an edited message keeps those that were sent before it in one input", async (page) => {
  const { thread_id: threadId } = await client.threads.create();
  const messages = [["human", "context"], ["ai", "noted"], ["human", "question"]].map(([type, content]) => ({ type, content }));
  await client.runs.wait(threadId, "talk", { input: { messages } });
  await page.goto(`${STUDIO}/chat/${threadId}`);
  assert.deepEqual(await edit(page, "question", "other"), ["context", "noted", "other"]);
  assert.equal(await page.getByRole("article", { name: "You" }).count(), 2);
});

browserScenario("a message of long ago is edited in a thread of hundreds of checkpoints", async (page) => {
  const { thread_id: threadId } = await client.threads.create();
  await client.runs.wait(threadId, "talk", { input: human("early") });
  await client.runs.wait(threadId, "talk", { input: human("late") });
  for (let count = 0; count < 510; count += 1) await client.threads.updateState(threadId, { values: { messages: [] } });
  await page.goto(`${STUDIO}/chat/${threadId}`);
  assert.deepEqual(await edit(page, "early", "changed"), ["changed"]);
});

browserScenario("a run goes on after a reload and is joined by another tab", async (page, context) => {
  await open(page, "talk");
  await send(page, "hello");
  await answered(page, "you said: hello");
  const other = await context.newPage();
  await other.goto(page.url());
  await answered(other, "you said: hello");
  const gate = newGate();
  await send(page, `one ${gate.word} two`);
  await answers(page).getByText("you said: one", { exact: true }).waitFor();
  await answers(other).getByText("you said: one", { exact: true }).waitFor();
  await page.reload();
  await answers(page).getByText("you said: one", { exact: true }).waitFor();
  await other.getByText("Working…").waitFor();
  await gate.open();
  await answered(page, "you said: one two");
  await answered(other, "you said: one two");
});

browserScenario("an answer of the older endpoints appears when its run ends", async (page) => {
  const { thread_id: thread } = await client.threads.create();
  const gate = newGate();
  const run = await client.runs.create(thread, "talk", { input: human(`old ${gate.word} way`) });
  await gate.reached();
  await page.goto(`${STUDIO}/chat/${thread}`);
  await page.getByText("Working…").waitFor();
  await gate.open();
  await client.runs.join(thread, run.run_id);
  await answered(page, "you said: old way");
  await send(page, "again");
  await answered(page, "you said: again");
});

browserScenario("stop ends a run that the page did not start: of another tab, before a reload, of the API", async (page, context) => {
  await open(page, "talk");
  const status = async () => (await client.runs.list(threadOf(page), { limit: 1 }))[0].status;
  const stopIn = async (tab) => {
    await tab.getByText("Working…").waitFor();
    await tab.getByRole("button", { name: "Stop" }).click();
    await idle(tab);
    await tab.getByRole("button", { name: "Send" }).waitFor();
    const [run] = await client.runs.list(threadOf(page), { limit: 1 });
    await client.runs.join(threadOf(page), run.run_id);
    assert.equal(await status(), "interrupted");
  };
  const half = newGate();
  await send(page, `one ${half.word} rest`);
  await half.reached();
  const other = await context.newPage();
  await other.goto(page.url());
  await stopIn(other);
  await idle(page);
  const reloaded = newGate();
  await send(page, `two ${reloaded.word} rest`);
  await reloaded.reached();
  await page.reload();
  await stopIn(page);
  const created = newGate();
  await client.runs.create(threadOf(page), "talk", { input: human(`three ${created.word} rest`) });
  await created.reached();
  await stopIn(page);
  await send(page, "again");
  await answered(page, "you said: again");
});

browserScenario("more tabs can be open than a browser makes connections", async (page, context) => {
  const tabs = [page];
  while (tabs.length < 8) tabs.push(await context.newPage());
  for (const tab of tabs) {
    await open(tab, "talk");
    await send(tab, "hello");
    await answered(tab, "you said: hello");
  }
});

browserScenario("threads are searched and deleted", async (page) => {
  const mark = crypto.randomUUID();
  const { thread_id: threadId } = await client.threads.create();
  await client.runs.wait(threadId, "talk", { input: human(`old ${mark}`) });
  // The page has listed only the newest 200 so far.
  const newer = [];
  while (newer.length <= 200) newer.push(await client.threads.create());
  await open(page, "talk");
  const list = page.getByRole("list", { name: "Threads" });
  await page.getByLabel("Search threads").fill(mark);
  await list.getByRole("link", { name: mark }).click();
  await answered(page, `you said: old ${mark}`);
  await list.getByRole("button", { name: `Delete old ${mark}` }).click();
  await checkAccessibility(page);
  await page.getByRole("dialog").getByRole("button", { name: "Delete it" }).click();
  await page.getByText("Nothing contains").waitFor();
  for (const each of newer) await client.threads.delete(each.thread_id);
  assert.equal(threadOf(page), "chat");
  assert.equal((await fetch(`${url}/threads/${threadId}`)).status, 404);
});

browserScenario("an answer is copied", async (page) => {
  await open(page, "talk");
  await send(page, "copy me");
  await answered(page, "you said: copy me");
  await answers(page).getByRole("button", { name: "Copy" }).click();
  await page.getByText("Copied").waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "you said: copy me");
}, DONE);

browserScenario("a graph without messages has a form for its input and shows its state", async (page) => {
  await page.goto(`${STUDIO}/chat?assistant=count`);
  await page.getByLabel("N", { exact: true }).fill("4");
  await checkAccessibility(page);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByLabel("State of the thread").getByText('"n": 10').waitFor();
  await page.getByRole("button", { name: "As JSON" }).click();
  await page.getByLabel("Input as JSON").fill('{"n": 1}');
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByLabel("State of the thread").getByText('"n": 4').waitFor();
  await checkAccessibility(page);
});

browserScenario("a state that is a number is shown", async (page) => {
  await page.goto(`${STUDIO}/chat?assistant=number`);
  const input = page.getByRole("region", { name: "Input" });
  await page.getByRole("button", { name: "As JSON" }).or(page.getByRole("button", { name: "Run", exact: true })).first().waitFor();
  await input.getByRole("textbox").or(input.getByRole("spinbutton")).first().fill("41");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByLabel("State of the thread").getByText("42", { exact: true }).waitFor();
  await page.reload();
  await page.getByLabel("State of the thread").getByText("42", { exact: true }).waitFor();
});

browserScenario("a thread that does not exist says so", async (page) => {
  await page.goto(`${STUDIO}/chat/00000000-0000-4000-8000-000000000000`);
  await page.getByRole("alert").getByText("does not exist").waitFor();
  await checkAccessibility(page);
});

browserScenario("a missing assistant is named, and no other one gets the message", async (page) => {
  await page.goto(`${STUDIO}/chat?assistant=nope`);
  await page.getByText("The assistant nope does not exist").waitFor();
  assert.equal(await field(page).count(), 0);
  await checkAccessibility(page);
  const { assistant_id: assistant } = await client.assistants.create({ graphId: "talk", name: "short-lived" });
  const { thread_id: thread } = await client.threads.create();
  await client.runs.wait(thread, assistant, { input: human("hello") });
  await client.assistants.delete(assistant);
  await page.goto(`${STUDIO}/chat/${thread}`);
  await page.getByText(`The assistant ${assistant} does not exist`).waitFor();
  assert.equal(await field(page).count(), 0);
  await page.getByRole("combobox", { name: "Assistant" }).selectOption("talk");
  await answered(page, "you said: hello");
  await send(page, "again");
  await answered(page, "you said: again");
});

browserScenario("the chat fits a phone, where the threads are behind a button", async (page) => {
  await open(page, "talk");
  await send(page, "small screen");
  await answered(page, "you said: small screen");
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  await page.getByRole("button", { name: "Threads" }).click();
  await page.getByRole("list", { name: "Threads" }).getByRole("link", { name: "small screen" }).first().click();
  await answered(page, "you said: small screen");
  await checkAccessibility(page);
}, { viewport: { width: 360, height: 700 }, colorScheme: "dark" });

await runScenarios({ atOnce: 1 });
