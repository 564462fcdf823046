/** Ids of runs and threads begin with the time, so their ends tell them apart. */
export function shortId(id: string): string {
  return `…${id.slice(-8)}`;
}
