// Human in the loop in the studio's chat: approvals, questions, forms, JSON; each also after a reload.

import { assert, human, newClient, runScenarios } from "./scenarios.mjs";
import { browserScenario, checkAccessibility, STUDIO } from "./studio.mjs";

const client = newClient();
const answers = (page) => page.getByRole("article", { name: "Assistant" });

async function ask(page, assistant, text) {
  await page.goto(`${STUDIO}/chat?assistant=${assistant}`);
  await page.getByLabel("Your message").fill(text);
  await page.getByLabel("Your message").press("Enter");
  await page.getByRole("region", { name: "Waiting for you" }).waitFor();
}

async function answered(page, text) {
  await answers(page).getByText(text).last().waitFor();
  await page.getByRole("region", { name: "Waiting for you" }).waitFor({ state: "detached" });
}

browserScenario("a call is approved", async (page) => {
  await ask(page, "agent", "post:Ann");
  await page.locator("details.tool-card").getByText("pending").waitFor();
  await checkAccessibility(page);
  await page.getByRole("button", { name: "Approve", exact: true }).click();
  await answered(page, "results: posted to Ann");
});

browserScenario("a call is edited after a reload", async (page) => {
  await ask(page, "agent", "post:Ann");
  await page.reload();
  await page.getByRole("button", { name: "Edit" }).last().click();
  await page.getByLabel("Arguments", { exact: true }).last().fill('{"to": "Bob"');
  assert.ok(await page.getByRole("button", { name: "Run with these arguments" }).isDisabled());
  await page.getByLabel("Arguments", { exact: true }).last().fill('{"to": "Bob"}');
  await checkAccessibility(page);
  await page.getByRole("button", { name: "Run with these arguments" }).click();
  await answered(page, "results: posted to Bob");
});

browserScenario("a call is rejected with a reason that the model reads", async (page) => {
  await ask(page, "agent", "post:Ann");
  await page.getByRole("button", { name: "Reject" }).click();
  await page.getByLabel("Reason").fill("too expensive");
  await page.getByRole("button", { name: "Reject the call" }).click();
  await answered(page, "it was not executed. too expensive");
});

browserScenario("a person responds instead of the tool", async (page) => {
  await ask(page, "agent", "post:Ann");
  await page.getByRole("button", { name: "Respond" }).click();
  await page.getByLabel("What the model reads").fill("I carried it over");
  await page.getByRole("button", { name: "Send instead of calling" }).click();
  await answered(page, "results: I carried it over");
});

browserScenario("several calls are decided one by one and sent together", async (page) => {
  await ask(page, "agent", "post:Ann post:Bob mail:Eve");
  const cards = page.getByRole("article", { name: "Approve post?" });
  await cards.nth(1).getByRole("button", { name: "Reject" }).click();
  await page.getByRole("button", { name: "Reject the call" }).click();
  await page.getByText("1 of 2 decided").waitFor();
  await cards.nth(0).getByRole("button", { name: "Approve", exact: true }).click();
  await checkAccessibility(page);
  await page.getByRole("button", { name: "Send decisions" }).click();
  await answered(page, "posted to Ann");
  await answers(page).getByText("sent to Eve").last().waitFor();
  await answers(page).getByText("The user rejected this call").last().waitFor();
});

browserScenario("a server's question is answered in a form that says what is wrong", async (page) => {
  await ask(page, "agent", "paint:wall");
  await page.getByText("Which colour?").waitFor();
  await page.getByLabel("Colour").fill("r");
  await checkAccessibility(page);
  await page.getByRole("button", { name: "Send answer" }).click();
  await page.locator(".error-detail").first().waitFor();
  await page.reload();
  await page.getByLabel("Colour").fill("red");
  await page.getByRole("button", { name: "Send answer" }).click();
  await answered(page, "painted wall {'colour': 'red'}");
  const facts = page.locator("details.tool-card summary");
  for (const fact of ["studio", "1.2 s", "2 retries"]) await facts.getByText(fact, { exact: true }).waitFor();
}, { ignore: /Form validation failed/ });

browserScenario("a server's question is declined", async (page) => {
  await ask(page, "agent", "paint:wall");
  await page.getByRole("button", { name: "Decline" }).click();
  await answered(page, "painted wall nothing");
});

browserScenario("an interrupt with a response_schema is a form", async (page) => {
  await ask(page, "form", "book");
  await page.getByText("How many guests?").waitFor();
  await page.getByLabel("Guests").fill("3");
  await page.getByRole("button", { name: "Send answer" }).click();
  await answered(page, "A table for 3");
});

browserScenario("a form that nobody fills in sends the empty value of its schema", async (page) => {
  for (const [schema, given] of [["boolean", "False"], ["string", "''"], ["confirm", "{'sure': False}"]]) {
    await ask(page, "ask_value", schema);
    await page.getByRole("button", { name: "Send answer" }).waitFor();
    await checkAccessibility(page);
    await page.getByRole("button", { name: "Send answer" }).click();
    await answered(page, `It is ${given}`);
  }
});

browserScenario("an answer of any schema is entered as JSON", async (page) => {
  await ask(page, "ask_value", "anything");
  await page.getByLabel("Answer as JSON").fill("[1]");
  await page.getByRole("button", { name: "Send answer" }).click();
  await answered(page, "It is [1]");
  await ask(page, "ask_value", "boolean");
  await page.getByRole("region", { name: "Answer" }).getByRole("button", { name: "As JSON" }).click();
  await page.getByLabel("Answer as JSON").fill("true");
  await page.getByRole("button", { name: "Send answer" }).click();
  await answered(page, "It is True");
});

browserScenario("a form with choices that refer to other schemas starts a run", async (page) => {
  await page.goto(`${STUDIO}/chat?assistant=tree`);
  await page.getByLabel("Title").fill("oak");
  const choices = page.getByLabel(/^Kind/);
  assert.equal(await choices.count(), 3);
  for (const choice of await choices.all()) await choice.selectOption({ index: 0 });
  await checkAccessibility(page);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByText("oak, leaf").waitFor();
});

browserScenario("any other interrupt is answered with JSON, also one from before the page was opened", async (page) => {
  const { thread_id: threadId } = await client.threads.create();
  await client.runs.wait(threadId, "approve", { input: human("hello") });
  await page.goto(`${STUDIO}/chat/${threadId}`);
  await page.getByText("Send it?").waitFor();
  await page.getByLabel("Answer as JSON").fill('"yes"');
  await checkAccessibility(page);
  await page.getByRole("button", { name: "Resume" }).click();
  await answered(page, "you said: decided: yes");
});

browserScenario("an approval shows the description that its request has", async (page) => {
  await ask(page, "middleware", "hello");
  await page.getByRole("article", { name: "Approve send?" }).locator("strong").getByText("now", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Approve", exact: true }).click();
  await answered(page, "decided: approve");
});

browserScenario("an earlier branch that waits is answered", async (page) => {
  await ask(page, "approve", "first");
  await page.getByRole("button", { name: "Edit" }).click();
  await page.getByLabel("Edit your message").fill("second");
  await page.getByRole("button", { name: "Send again" }).click();
  await page.getByText("2 / 2").waitFor();
  await page.getByRole("button", { name: "Previous version" }).click();
  await page.getByRole("article", { name: "You" }).getByText("first").waitFor();
  await page.getByRole("region", { name: "Waiting for you" }).getByText('"first"').waitFor();
  await checkAccessibility(page);
  await page.getByLabel("Answer as JSON").fill('"yes"');
  await page.getByRole("button", { name: "Resume" }).click();
  await answered(page, "you said: decided: yes");
  const { values, next } = await client.threads.getState(new URL(page.url()).pathname.split("/").at(-1));
  assert.deepEqual([values.messages[0].content, next], ["first", []]);
  await page.getByRole("button", { name: "Next version" }).click();
  await page.getByRole("article", { name: "You" }).getByText("second").waitFor();
  await page.getByRole("region", { name: "Waiting for you" }).waitFor();
});

browserScenario("interrupts of several nodes are answered one by one and sent together", async (page) => {
  await ask(page, "both", "hello");
  for (const name of ["left", "right"]) {
    const form = page.getByRole("article", { name: "The run waits" }).filter({ hasText: `What is ${name}?` });
    await form.getByLabel("Answer as JSON").fill(`"the ${name} one"`);
    await form.getByRole("button", { name: "Resume" }).click();
  }
  await answered(page, "left: the left one");
  await answered(page, "right: the right one");
});

browserScenario("a message instead of an answer leaves the call unexecuted", async (page) => {
  await ask(page, "agent", "post:Ann");
  await page.getByLabel("Your message").fill("mail:Bob");
  await page.getByLabel("Your message").press("Enter");
  await answered(page, "sent to Bob");
});

await runScenarios({ atOnce: 1 });
