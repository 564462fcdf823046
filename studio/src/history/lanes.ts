/** Lanes for checkpoints, so that forks are drawn as branches. */
export interface Checkpoint {
  id: string;
  parent: string | undefined;
}

export interface Row {
  lane: number;
  /** Lanes of newer checkpoints that end here: their parent is this one. */
  joins: number[];
  /** Lanes that pass by. */
  passing: number[];
  hasNewer: boolean;
  hasOlder: boolean;
}

/** Assign a lane to each checkpoint, newest first. A lane waits for the parent of its last checkpoint. */
export function lanesOf(checkpoints: Checkpoint[]): Row[] {
  const waiting: (string | undefined)[] = [];
  return checkpoints.map(({ id, parent }) => {
    const own = waiting.flatMap((expected, lane) => (expected === id ? [lane] : []));
    const free = waiting.indexOf(undefined);
    const lane = own[0] ?? (free === -1 ? waiting.length : free);
    for (const each of own) waiting[each] = undefined;
    const passing = waiting.flatMap((expected, each) => (expected === undefined ? [] : [each]));
    waiting[lane] = parent;
    return { lane, joins: own.slice(1), passing, hasNewer: own.length > 0, hasOlder: parent !== undefined };
  });
}
