// @vitest-environment jsdom
import { expect, test } from "vitest";

import { diff } from "../ui/diff";
import { lanesOf } from "./history";

test("a fork gets a lane of its own, which joins the lane of its parent", () => {
  const rows = lanesOf([
    { id: "d", parent: "b" }, { id: "c", parent: "b" }, { id: "b", parent: "a" }, { id: "a", parent: undefined },
  ]);
  expect(rows.map((row) => row.lane)).toEqual([0, 1, 0, 0]);
  expect(rows[1]?.passing).toEqual([0]);
  expect(rows[2]?.joins).toEqual([1]);
  expect(rows[3]?.hasOlder).toBe(false);
});

test("a diff names what was added, removed and changed", () => {
  const before = { n: 1, same: [1], log: ["a"], old: true, messages: [{ id: "x", content: "hi" }] };
  const after = { n: 2, same: [1], log: ["a", "b"], messages: [{ id: "y", content: "!" }, { id: "x", content: "ho" }] };
  expect(diff(before, after)).toEqual([
    { path: "n", kind: "changed", before: 1, after: 2 },
    { path: "log[1]", kind: "added", after: "b" },
    { path: "old", kind: "removed", before: true },
    { path: "messages[x].content", kind: "changed", before: "hi", after: "ho" },
    { path: "messages[y]", kind: "added", after: { id: "y", content: "!" } },
  ]);
});
