/** One item of the store, to read, edit and delete, or a new one. */
import type { Item } from "@langchain/langgraph-sdk";
import { useState } from "react";

import { DeleteButton, submitTo, TextField, useChange } from "../admin/parts";
import { langgraph } from "../client/server";
import { Button } from "../ui/button";
import { JsonEditor } from "../ui/json";
import { ErrorBox } from "../ui/states";
import { Ago } from "../ui/time";

interface ItemEditorProps {
  namespace: string[];
  item?: Item;
  onSaved: (namespace: string[], key: string) => void;
  onDeleted?: () => void;
}

export function ItemEditor({ namespace, item, onSaved, onDeleted }: ItemEditorProps) {
  const [place, setPlace] = useState(namespace.join("."));
  const [key, setKey] = useState(item?.key ?? "");
  const [value, setValue] = useState<unknown>(item?.value ?? {});
  const [ttl, setTtl] = useState("");
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  // The API gives labels without periods.
  const target = item?.namespace ?? place.split(".").map((label) => label.trim());
  const save = useChange(
    () => langgraph().store.putItem(target, key, value as Record<string, unknown>, ttl === "" ? {} : { ttl: Number(ttl) }),
    "store",
    () => onSaved(target, key),
  );
  return (
    <form className="stack" onSubmit={submitTo(() => save.mutate(undefined))}>
      {item === undefined ? (
        <div className="form-grid">
          <TextField label="Namespace, labels separated by periods" required value={place} onChange={setPlace} />
          <TextField label="Key" required value={key} onChange={setKey} />
        </div>
      ) : (
        <p className="muted">{item.namespace.join(" / ")} · created <Ago time={item.createdAt} />, changed <Ago time={item.updatedAt} /></p>
      )}
      <JsonEditor label="Value" rows={12} value={item?.value ?? {}} onChange={setValue} />
      {!isObject && value !== undefined && <p className="problem">A value is an object.</p>}
      <TextField label="Expires after … minutes (empty: the server’s default)" type="number" min={0} step="any" value={ttl} onChange={setTtl} />
      {item !== undefined && <p className="hint">The API does not tell when a stored item expires. Saving starts its time again.</p>}
      {save.isError && <ErrorBox error={save.error} />}
      <div className="row end">
        {save.isSuccess && <span role="status" className="muted">Saved</span>}
        {item !== undefined && (
          <DeleteButton what={item.key} changed="store" onDelete={() => langgraph().store.deleteItem(item.namespace, item.key)} {...(onDeleted ? { onDone: onDeleted } : {})} />
        )}
        <Button kind="primary" type="submit" disabled={save.isPending || !isObject}>{item === undefined ? "Store the item" : "Save"}</Button>
      </div>
    </form>
  );
}
