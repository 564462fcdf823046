// @vitest-environment jsdom
import { expect, test } from "vitest";

import { type Checkpoint, forkPoint, lineageOf, versionsOn } from "./use_thread";

/** "b<a h1 a1": checkpoint b after a, with messages h1 and a1; "!" marks the checkpoint of a run's input. */
function checkpoint(text: string): Checkpoint {
  const [head = "", ...messageIds] = text.split(" ");
  const [id = "", parentId] = head.replace("!", "").split("<");
  return { id, parentId, isInput: head.includes("!"), messageIds };
}

const linear = ["6<5 h1 a1 h2 a2", "5<4 h1 a1 h2", "4!<3 h1 a1", "3<2 h1 a1", "2<1 h1", "1!"].map(checkpoint);

test("a message is replaced from the state before its run's input", () => {
  const lineage = lineageOf(linear, "6");
  expect(forkPoint(lineage, "h2")).toEqual({ checkpoint: "3", missing: [] });
  expect(forkPoint(lineage, "h1")).toEqual({ checkpoint: "1", missing: [] });
});

test("a message that came with others in one input is replaced together with those before it", () => {
  const lineage = lineageOf(["3<2 h1 a1 h2 a2", "2<1 h1 a1 h2", "1!"].map(checkpoint), "3");
  expect(forkPoint(lineage, "h2")).toEqual({ checkpoint: "1", missing: ["h1", "a1"] });
  expect(forkPoint(lineageOf(linear.slice(0, 4), "6"), "h1")).toBeUndefined();
});

test("a conversation without forks has no versions", () => {
  expect(versionsOn(["h1", "a1", "h2", "a2"], lineageOf(linear, "6"), linear).size).toBe(0);
});

test("an edited message has two versions, oldest first, with the newest checkpoint of each", () => {
  const all = ["8<7 h1 a1 h3 a3", "7<3 h1 a1 h3"].map(checkpoint).concat(linear);
  const edited = versionsOn(["h1", "a1", "h3", "a3"], lineageOf(all, "8"), all);
  expect([...edited]).toEqual([["h3", { tips: ["6", "8"], shown: 1 }]]);
  const before = versionsOn(["h1", "a1", "h2", "a2"], lineageOf(all, "6"), all);
  expect([...before]).toEqual([["h2", { tips: ["6", "8"], shown: 0 }]]);
});

test("a regenerated answer differs after the same message", () => {
  const all = ["8<7 h1 a1 h2 b2", "7<3 h1 a1 h2"].map(checkpoint).concat(linear);
  expect([...versionsOn(["h1", "a1", "h2", "b2"], lineageOf(all, "8"), all)]).toEqual([["b2", { tips: ["6", "8"], shown: 1 }]]);
});

test("messages that a run removed are no branch", () => {
  const all = [checkpoint("7<6 summary h2 a2"), ...linear];
  expect(versionsOn(["summary", "h2", "a2"], lineageOf(all, "7"), all).size).toBe(0);
});
