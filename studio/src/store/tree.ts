/** The namespaces of the store as a tree of their labels. */
export interface TreeNode {
  label: string;
  namespace: string[];
  children: TreeNode[];
}

export function namespaceTree(namespaces: string[][]): TreeNode[] {
  const root: TreeNode = { label: "", namespace: [], children: [] };
  for (const namespace of namespaces.toSorted((one, other) => one.join("\n").localeCompare(other.join("\n")))) {
    let node = root;
    for (const label of namespace) {
      let child = node.children.find((each) => each.label === label);
      if (child === undefined) {
        child = { label, namespace: [...node.namespace, label], children: [] };
        node.children.push(child);
      }
      node = child;
    }
  }
  return root.children;
}
