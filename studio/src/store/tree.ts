/** The namespaces of the store as a tree of their labels. */
export interface TreeNode {
  label: string;
  namespace: string[];
  children: TreeNode[];
}

export function namespaceTree(namespaces: string[][]): TreeNode[] {
  const root: TreeNode = { label: "", namespace: [], children: [] };
  for (const namespace of namespaces) {
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
  const sort = (nodes: TreeNode[]): TreeNode[] => nodes
    .sort((one, other) => one.label.localeCompare(other.label))
    .map((node) => ({ ...node, children: sort(node.children) }));
  return sort(root.children);
}
