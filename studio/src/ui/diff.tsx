import { isObject } from "../client";

/** A changed place in a JSON value. */
interface Change {
  path: string;
  kind: "added" | "removed" | "changed";
  before?: unknown;
  after?: unknown;
}

/** Lists of objects with ids, such as messages, are compared by id; other lists by position. */
export function diff(before: unknown, after: unknown, path = ""): Change[] {
  if (Object.is(before, after)) return [];
  if (isObject(before) && isObject(after)) return diffEntries(Object.entries(before), Object.entries(after), path, ".");
  if (Array.isArray(before) && Array.isArray(after)) {
    return diffEntries(entriesOf(before, after), entriesOf(after, before), path, "");
  }
  return [{ path, kind: "changed", before, after }];
}

type Entry = [key: string, value: unknown];

function diffEntries(before: Entry[], after: Entry[], path: string, separator: string): Change[] {
  const old = new Map(before);
  const present = new Map(after);
  const join = (key: string) => (path === "" || separator === "" ? `${path}${key}` : `${path}${separator}${key}`);
  return [...new Set([...old.keys(), ...present.keys()])].flatMap((key): Change[] => {
    if (!present.has(key)) return [{ path: join(key), kind: "removed", before: old.get(key) }];
    if (!old.has(key)) return [{ path: join(key), kind: "added", after: present.get(key) }];
    return diff(old.get(key), present.get(key), join(key));
  });
}

function entriesOf(list: unknown[], other: unknown[]): Entry[] {
  const ids = list.map(idOf);
  const isKeyed = [...ids, ...other.map(idOf)].every((id) => id !== undefined) && new Set(ids).size === ids.length;
  return list.map((value, index) => [`[${isKeyed ? ids[index] ?? index : index}]`, value]);
}

function idOf(value: unknown): string | undefined {
  return isObject(value) && typeof value["id"] === "string" ? value["id"] : undefined;
}

export function DiffView({ title, before, after }: { title: string; before: unknown; after: unknown }) {
  const changes = diff(before, after);
  return (
    <section className="stack" aria-label="Differences">
      <h3>{title}</h3>
      {changes.length === 0 && <p className="muted">Both are equal.</p>}
      {changes.map((change) => (
        <div key={change.path} className="card change" data-kind={change.kind}>
          <div className="row"><code>{change.path || "(all)"}</code><span className="hint">{change.kind}</span></div>
          {change.kind !== "added" && <pre className="bad">− {JSON.stringify(change.before, null, 2)}</pre>}
          {change.kind !== "removed" && <pre className="good">+ {JSON.stringify(change.after, null, 2)}</pre>}
        </div>
      ))}
    </section>
  );
}
