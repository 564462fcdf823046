/** The differences of two JSON values, by path. */
export interface Change {
  path: string;
  before: unknown;
  after: unknown;
}

function isContainer(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

export function changes(before: unknown, after: unknown, path = ""): Change[] {
  if (!isContainer(before) || !isContainer(after) || Array.isArray(before) !== Array.isArray(after)) {
    return JSON.stringify(before) === JSON.stringify(after) ? [] : [{ path, before, after }];
  }
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return names.flatMap((name) => changes(before[name], after[name], path === "" ? name : `${path}.${name}`));
}
