// Scenarios of a real client against a running server: `node FILE URL` prints one JSON line for each of them.
// pytest (tests/clients/javascript.py) turns the lines into test results.

import { strict as assert } from "node:assert";

import { Client } from "@langchain/langgraph-sdk";

const BOUND_MS = 60_000;
const AT_ONCE = 4;
const scenarios = [];

export { assert };
export const url = process.argv[2];
export const NOBODY = "00000000-0000-4000-8000-000000000000";

/** Add a scenario; its name is a sentence. */
export function scenario(name, act) {
  scenarios.push({ name, act });
}

/** Run all scenarios, some at once, and print what came of each; the process ends with the last. */
export async function runScenarios({ atOnce = AT_ONCE } = {}) {
  // A rejection without a handler must not end the other scenarios.
  process.on("unhandledRejection", (error) => console.error(error));
  const waiting = [...scenarios];
  const work = async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) await report(next);
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  process.exit(0);
}

/** Give a client of the server; `at` is another address of it, such as a proxy's. */
export function newClient(at = url, Sdk = Client) {
  return new Sdk({ apiUrl: at, apiKey: null, callerOptions: { maxRetries: 0 } });
}

/** Gather a stream's parts. */
export async function all(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

/** Give the names of parts in order, without repetitions next to each other. */
export function names(parts) {
  return parts.map((part) => part.event).filter((name, at, every) => name !== every[at - 1]);
}

/** Make a gate for one run: a message's word `gate.word` holds the model there. */
export function newGate() {
  const name = crypto.randomUUID();
  return {
    word: `@${name}`,
    reached: () => fetch(`${url}/gates/${name}/reached`),
    open: () => fetch(`${url}/gates/${name}/open`, { method: "POST" }),
  };
}

export function human(content) {
  return { messages: [{ type: "human", content }] };
}

/** Fail when something does not happen in time. */
export async function inTime(what, promise, boundMs = BOUND_MS) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not in time: ${what}`)), boundMs);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Expect a refusal with this status. */
export async function refused(status, promise) {
  await assert.rejects(promise, (error) => {
    assert.equal(error.status, status, `${error}`);
    return true;
  });
}

async function report({ name, act }) {
  const line = { scenario: name };
  try {
    await inTime(name, act());
  } catch (error) {
    line.error = error?.stack ?? String(error);
  }
  process.stdout.write(`${JSON.stringify(line)}\n`);
}
