/** The store: namespaces as a tree, their items, search. The path is /store/LABEL/LABEL…, the open item is `?item=KEY`. */
import { useQuery } from "@tanstack/react-query";
import { useDeferredValue, useState } from "react";
import { Link, useLocation, useSearch } from "wouter";

import { ListHead, path, SearchField, usePath } from "../admin/parts";
import { langgraph } from "../client/server";
import { ItemEditor } from "../store/item";
import { namespaceTree, type TreeNode } from "../store/tree";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { Empty, Loaded } from "../ui/states";
import { Ago } from "../ui/time";

const MAX_NAMESPACES = 1000;
const PAGE_SIZE = 50;

function itemPath(namespace: string[], key: string): string {
  return `${path("store", ...namespace)}?item=${encodeURIComponent(key)}`;
}

export default function StorePage() {
  const namespace = usePath();
  const key = new URLSearchParams(useSearch()).get("item");
  const [, navigate] = useLocation();
  const [isNew, setNew] = useState(false);
  const query = useQuery({
    queryKey: ["store", "namespaces"],
    queryFn: async () => (await langgraph().store.listNamespaces({ limit: MAX_NAMESPACES })).namespaces,
  });
  const openItem = (target: string[], saved: string) => {
    setNew(false);
    navigate(itemPath(target, saved));
  };
  return (
    <div className="split">
      <aside aria-label="Namespaces">
        <ListHead title="Store"><Button onClick={() => setNew(true)}>New item</Button></ListHead>
        <Dialog title="New item" isOpen={isNew} onClose={() => setNew(false)}><ItemEditor namespace={namespace} onSaved={openItem} /></Dialog>
        <Loaded query={query} what="the namespaces">
          {(namespaces) => (
            <nav className="tree" aria-label="Namespaces">
              <Link href="/store" aria-current={namespace.length === 0 ? "page" : undefined}>All namespaces</Link>
              <Tree nodes={namespaceTree(namespaces)} open={namespace.join("\n")} />
              {namespaces.length === MAX_NAMESPACES && <p className="hint">Only the first {MAX_NAMESPACES} are listed.</p>}
            </nav>
          )}
        </Loaded>
      </aside>
      <section aria-label="Items">
        <div className="page">
          {key === null
            ? <Items key={namespace.join("\n")} namespace={namespace} />
            : <OpenItem key={`${namespace.join("\n")}\n${key}`} namespace={namespace} itemKey={key} />}
        </div>
      </section>
    </div>
  );
}

function Tree({ nodes, open }: { nodes: TreeNode[]; open: string }) {
  if (nodes.length === 0) return null;
  return (
    <ul>
      {nodes.map((node) => (
        <li key={node.label}>
          <Link href={path("store", ...node.namespace)} aria-current={node.namespace.join("\n") === open ? "page" : undefined}>{node.label}</Link>
          <Tree nodes={node.children} open={open} />
        </li>
      ))}
    </ul>
  );
}

function Items({ namespace }: { namespace: string[] }) {
  const [text, setText] = useState("");
  const [limit, setLimit] = useState(PAGE_SIZE);
  const search = useDeferredValue(text.trim());
  const query = useQuery({
    queryKey: ["store", "items", namespace, search, limit],
    // One more than shown tells whether there are more. A look at the items does not renew their time.
    queryFn: async () => (await langgraph().store.searchItems(namespace, {
      limit: limit + 1, refreshTtl: false, ...(search === "" ? {} : { query: search }),
    })).items,
    placeholderData: (previous) => previous,
  });
  return (
    <>
      <h2>{namespace.length === 0 ? "All items" : namespace.join(" / ")}</h2>
      <SearchField label="Search by meaning" value={text} onChange={setText} />
      <Loaded query={query} what="the items">
        {(items) => {
          if (items.length === 0) return <Empty title="No items"><p>Graphs store items here, and so can you with “New item”.</p></Empty>;
          const isRanked = items.some((item) => typeof item.score === "number");
          return (
            <>
              {search !== "" && !isRanked && <p className="hint">The order has no meaning: this server’s store has no embedding (store.index in langgraph.json).</p>}
              <div className="table-scroll" tabIndex={0} role="region" aria-label="Items">
                <table>
                  <thead><tr><th>Key</th><th>Namespace</th><th>Value</th><th>Changed</th>{isRanked && <th>Similarity</th>}</tr></thead>
                  <tbody>
                    {items.slice(0, limit).map((item) => (
                      <tr key={`${item.namespace.join("\n")}\n${item.key}`}>
                        <td><Link href={itemPath(item.namespace, item.key)}>{item.key}</Link></td>
                        <td>{item.namespace.join(" / ")}</td>
                        <td><code className="cut">{JSON.stringify(item.value)}</code></td>
                        <td className="nowrap"><Ago time={item.updatedAt} /></td>
                        {isRanked && <td>{item.score?.toFixed(3)}</td>}
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
              {items.length > limit && <div><Button onClick={() => setLimit(limit + PAGE_SIZE)}>Show more</Button></div>}
            </>
          );
        }}
      </Loaded>
    </>
  );
}

function OpenItem({ namespace, itemKey }: { namespace: string[]; itemKey: string }) {
  const [, navigate] = useLocation();
  const parent = path("store", ...namespace);
  const query = useQuery({
    queryKey: ["store", "item", namespace, itemKey],
    queryFn: () => langgraph().store.getItem(namespace, itemKey, { refreshTtl: false }),
  });
  return (
    <>
      <div><Link href={parent}>← All items of {namespace.join(" / ")}</Link></div>
      <h2>{itemKey}</h2>
      <Loaded query={query} what="the item">
        {(item) => (item === null
          ? <Empty title="There is no such item"><p>It may have expired or been deleted.</p></Empty>
          : <ItemEditor namespace={namespace} item={item} onSaved={() => undefined} onDeleted={() => navigate(parent)} />)}
      </Loaded>
    </>
  );
}
