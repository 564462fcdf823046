import { expect, test } from "vitest";

import { namespaceTree } from "./tree";

test("namespaces with common first labels share their nodes, sorted by label", () => {
  const tree = namespaceTree([["users", "bob"], ["docs"], ["users"], ["users", "ann", "notes"]]);
  expect(tree.map((node) => node.label)).toEqual(["docs", "users"]);
  expect(tree[1]?.children.map((node) => node.namespace)).toEqual([["users", "ann"], ["users", "bob"]]);
  expect(tree[1]?.children[0]?.children[0]?.namespace).toEqual(["users", "ann", "notes"]);
});
