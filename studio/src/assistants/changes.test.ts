import { expect, test } from "vitest";

import { changes } from "./changes";

test("each change has the path of the value that differs, and equal values have none", () => {
  const before = { name: "a", config: { tags: ["x", "y"], depth: 1 }, context: {} };
  const after = { name: "a", config: { tags: ["x", "z"], depth: 1, more: true }, context: null };
  expect(changes(before, before)).toEqual([]);
  expect(changes(before, after)).toEqual([
    { path: "config.tags.1", before: "y", after: "z" },
    { path: "config.more", before: undefined, after: true },
    { path: "context", before: {}, after: null },
  ]);
});
