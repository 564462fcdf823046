/** The store: namespaces as a tree, their items, search. The path is /store/LABEL/LABEL…, the open item is `?item=KEY`. */
import type { Item } from "@langchain/langgraph-sdk";
import { useQuery } from "@tanstack/react-query";
import { useDeferredValue, useState } from "react";
import { Link, useLocation, useSearch } from "wouter";

import { isObject, type Json } from "../client/json";
import { useChange } from "../client/queries";
import { langgraph } from "../client/server";
import { namespaceTree, type TreeNode } from "../store/tree";
import {
  Ago, Button, DeleteButton, Dialog, Empty, Form, Head, JsonEditor, Loaded, path, SearchField, SplitPage, Table, TextField,
  usePath,
} from "../ui";

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
  const open = namespace.join("\n");
  return (
    <SplitPage title="Store" label="Items" actions={<Button onClick={() => setNew(true)}>New item</Button>} list={
      <>
        <Dialog title="New item" isOpen={isNew} onClose={() => setNew(false)}>
          <ItemEditor namespace={namespace} onSaved={(saved) => { setNew(false); navigate(saved); }} />
        </Dialog>
        <Loaded query={query} what="the namespaces">
          {(namespaces) => (
            <nav className="list" aria-label="Namespaces">
              <Link href="/store" aria-current={open === "" ? "page" : undefined}>All namespaces</Link>
              <Tree nodes={namespaceTree(namespaces)} open={open} />
              {namespaces.length === MAX_NAMESPACES && <p className="hint">Only the first {MAX_NAMESPACES} are listed.</p>}
            </nav>
          )}
        </Loaded>
      </>
    }>
      {key === null
        ? <Items key={open} namespace={namespace} />
        : <OpenItem key={`${open}\n${key}`} namespace={namespace} itemKey={key} />}
    </SplitPage>
  );
}

function Tree({ nodes, open }: { nodes: TreeNode[]; open: string }) {
  return (
    <ul className="list">
      {nodes.map((node) => (
        <li key={node.label}>
          <Link href={path("store", ...node.namespace)} aria-current={node.namespace.join("\n") === open ? "page" : undefined}>{node.label}</Link>
          {node.children.length > 0 && <Tree nodes={node.children} open={open} />}
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
      <Head title={namespace.length === 0 ? "All items" : namespace.join(" / ")} level={2} />
      <SearchField label="Search by meaning" value={text} onChange={setText} />
      <Loaded query={query} what="the items">
        {(items) => {
          if (items.length === 0) return <Empty title="No items"><p>Graphs store items here, and so can you with “New item”.</p></Empty>;
          const isRanked = items.some((item) => typeof item.score === "number");
          return (
            <>
              {search !== "" && !isRanked && (
                <p className="hint">
                  The order has no meaning: this server’s store has no embedding (store.index in langgraph.json).
                </p>
              )}
              <Table label="Items" head={["Key", "Namespace", "Value", "Changed", ...(isRanked ? ["Similarity"] : [])]}>
                {items.slice(0, limit).map((item) => (
                  <tr key={itemPath(item.namespace, item.key)}>
                    <td><Link href={itemPath(item.namespace, item.key)}>{item.key}</Link></td>
                    <td>{item.namespace.join(" / ")}</td>
                    <td><code className="cut">{JSON.stringify(item.value)}</code></td>
                    <td className="nowrap"><Ago time={item.updatedAt} /></td>
                    {isRanked && <td>{item.score?.toFixed(3)}</td>}
                  </tr>
                ))}
              </Table>
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
      <Head title={itemKey} level={2}>
        <DeleteButton what={itemKey} changed={["store"]} onDone={() => navigate(parent)}
          onDelete={() => langgraph().store.deleteItem(namespace, itemKey)} />
      </Head>
      <Loaded query={query} what="the item">
        {(item) => (item === null
          ? <Empty title="There is no such item"><p>It may have expired or been deleted.</p></Empty>
          : <ItemEditor namespace={namespace} item={item} onSaved={() => undefined} />)}
      </Loaded>
    </>
  );
}

interface ItemEditorProps {
  namespace: string[];
  item?: Item;
  /** Receives the path of the item. */
  onSaved: (path: string) => void;
}

function ItemEditor({ namespace, item, onSaved }: ItemEditorProps) {
  const [labels, setLabels] = useState(namespace.join("."));
  const [key, setKey] = useState(item?.key ?? "");
  const [value, setValue] = useState<unknown>(item?.value ?? {});
  const [ttl, setTtl] = useState("");
  // The API gives labels without periods.
  const target = item?.namespace ?? labels.split(".").map((label) => label.trim());
  const save = useChange(
    () => langgraph().store.putItem(target, key, value as Json, ttl === "" ? {} : { ttl: Number(ttl) }),
    ["store"], () => onSaved(itemPath(target, key)),
  );
  return (
    <Form submit={item ? "Save" : "Store the item"} isDisabled={save.isPending || !isObject(value)} error={save.error}
      onSubmit={save.mutate} actions={save.isSuccess && <span role="status" className="muted">Saved</span>}>
      {item
        ? <p className="muted">Created <Ago time={item.createdAt} />, changed <Ago time={item.updatedAt} /></p>
        : (
          <>
            <TextField label="Namespace, labels separated by periods" required value={labels} onChange={setLabels} />
            <TextField label="Key" required value={key} onChange={setKey} />
          </>
        )}
      <JsonEditor label="Value" rows={12} value={value} onChange={setValue} />
      {!isObject(value) && value !== undefined && <p className="problem">A value is an object.</p>}
      <TextField label="Expires after … minutes (empty: the server’s default)" type="number" min={0} step="any" value={ttl}
        onChange={setTtl} />
      {item && <p className="hint">The API does not tell when a stored item expires. Saving starts its time again.</p>}
    </Form>
  );
}
