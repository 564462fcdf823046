/** The store: namespaces, their items, search. The path is /store/LABEL/LABEL…, the open item is `?item=KEY`. */
import type { Item } from "@langchain/langgraph-sdk";
import { useQuery } from "@tanstack/react-query";
import { useDeferredValue, useState } from "react";
import { Link, useLocation, useSearch } from "wouter";

import { type Json, langgraph, useChange } from "../client";
import {
  Ago, Button, DeleteButton, DialogButton, Empty, Head, Loaded, NavList, path, SchemaInput, SearchField, SplitPage, Table,
  usePath,
} from "../ui";

const MAX_NAMESPACES = 1000;
const PAGE_SIZE = 50;

function itemPath(namespace: string[], key: string): string {
  return `${path("store", ...namespace)}?item=${encodeURIComponent(key)}`;
}

/** The namespaces and all that contain them, by their paths: both have items to show. */
function listedNamespaces(namespaces: string[][]): Map<string, string[]> {
  const all = namespaces.flatMap((labels) => labels.map((_, index) => labels.slice(0, index + 1)));
  return new Map(all.map((labels) => [path("store", ...labels), labels] as const).sort(([one], [other]) => one.localeCompare(other)));
}

export default function StorePage() {
  const namespace = usePath();
  const key = new URLSearchParams(useSearch()).get("item");
  const [, navigate] = useLocation();
  const query = useQuery({
    queryKey: ["store", "namespaces"],
    queryFn: async () => (await langgraph().store.listNamespaces({ limit: MAX_NAMESPACES })).namespaces,
  });
  const open = path("store", ...namespace);
  const newItem = (
    <DialogButton title="New item">
      {(close) => <ItemEditor namespace={namespace} onSaved={(saved) => { close(); navigate(saved); }} />}
    </DialogButton>
  );
  return (
    <SplitPage title="Store" label="Items" actions={newItem} list={
      <Loaded query={query} what="the namespaces">
        {(namespaces) => (
          <NavList label="Namespaces" limit={MAX_NAMESPACES} items={[
            { href: "/store", title: "All namespaces", isOpen: namespace.length === 0 },
            ...[...listedNamespaces(namespaces)].map(([href, labels]) => ({ href, title: labels.join(" / "), isOpen: href === open })),
          ]} />
        )}
      </Loaded>
    }>
      {key === null
        ? <Items key={open} namespace={namespace} />
        : <OpenItem key={itemPath(namespace, key)} namespace={namespace} itemKey={key} />}
    </SplitPage>
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

const CONTENT = {
  value: { type: "object", title: "Value" },
  ttl: { type: "number", minimum: 0, title: "Expires after … minutes (empty: the server’s default)" },
};
const STORED_ITEM = { type: "object", properties: CONTENT };
const NEW_ITEM = {
  type: "object",
  required: ["namespace", "key"],
  properties: {
    namespace: { type: "string", title: "Namespace, labels separated by periods" },
    key: { type: "string", title: "Key" },
    ...CONTENT,
  },
};

interface ItemEditorProps {
  namespace: string[];
  item?: Item;
  /** Receives the path of the item. */
  onSaved: (path: string) => void;
}

function ItemEditor({ namespace, item, onSaved }: ItemEditorProps) {
  const save = useChange(async (values: unknown) => {
    const { value, ttl, ...place } = values as { namespace?: string; key?: string; value: Json; ttl?: number };
    // The API gives labels without periods.
    const labels = item?.namespace ?? (place.namespace ?? "").split(".").map((label) => label.trim());
    const key = item?.key ?? place.key ?? "";
    await langgraph().store.putItem(labels, key, value, ttl === undefined ? {} : { ttl });
    return itemPath(labels, key);
  }, ["store"], onSaved);
  return (
    <>
      {item && (
        <p className="muted">
          Created <Ago time={item.createdAt} />, changed <Ago time={item.updatedAt} />. The API does not tell when a stored item
          expires. Saving starts its time again.
        </p>
      )}
      <SchemaInput label="Item" schema={item ? STORED_ITEM : NEW_ITEM} uiSchema={{ value: { "ui:field": "json" } }}
        value={item ? { value: item.value } : { namespace: namespace.join("."), value: {} }}
        submit={item ? "Save" : "Store the item"} isDisabled={save.isPending} error={save.error} onSubmit={save.mutate}
        actions={save.isSuccess && <span role="status" className="muted">Saved</span>} />
    </>
  );
}
