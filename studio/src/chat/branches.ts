/** Branches of a conversation, from the checkpoints of its thread. */
import type { ThreadState } from "@langchain/langgraph-sdk";

import type { ChatMessage } from "./messages";

export interface Checkpoint {
  id: string;
  parentId: string | undefined;
  isInput: boolean;
  messageIds: string[];
}

/** The versions of one message: the newest checkpoint of each, oldest version first, and which one is shown. */
export interface Versions {
  tips: string[];
  shown: number;
}

export function readCheckpoint(state: ThreadState): Checkpoint {
  const { messages } = state.values as { messages?: ChatMessage[] };
  return {
    id: state.checkpoint.checkpoint_id ?? "",
    parentId: state.parent_checkpoint?.checkpoint_id ?? undefined,
    isInput: state.metadata?.source === "input",
    messageIds: Array.isArray(messages) ? messages.map((message) => message.id ?? "") : [],
  };
}

/** A checkpoint and those that it came from, newest first. */
export function lineageOf(checkpoints: Checkpoint[], tip: string | undefined): Checkpoint[] {
  const byId = new Map(checkpoints.map((checkpoint) => [checkpoint.id, checkpoint]));
  const lineage: Checkpoint[] = [];
  for (let at = byId.get(tip ?? ""); at; at = byId.get(at.parentId ?? "")) lineage.push(at);
  return lineage;
}

/** The checkpoint from which a run has to start to replace this message; undefined if it is not loaded. */
export function forkPoint(lineage: Checkpoint[], messageId: string): string | undefined {
  const before = lineage.find((checkpoint) => !checkpoint.messageIds.includes(messageId));
  // The checkpoint of a run's input already has the old message waiting: its parent has not.
  return before?.isInput ? (before.parentId ?? before.id) : before?.id;
}

/** The versions of each message on the shown path that has more than one. */
export function versionsOn(path: string[], lineage: Checkpoint[], checkpoints: Checkpoint[]): Map<string, Versions> {
  const ancestors = new Set(lineage.map((checkpoint) => checkpoint.id));
  const tipsAt = new Map<number, Map<string, string>>();
  const since = new Map<string, string>();
  // Ids of checkpoints are ordered by time; the list is newest first.
  for (const { id, messageIds } of checkpoints) {
    const differs = messageIds.findIndex((messageId, index) => messageId !== path[index]);
    for (const messageId of messageIds.slice(0, differs + 1 || undefined)) since.set(messageId, id);
    if (differs < 0 || differs >= path.length || ancestors.has(id)) continue;
    const tips = tipsAt.get(differs) ?? new Map<string, string>();
    const version = messageIds[differs] ?? "";
    if (!tips.has(version)) tips.set(version, id);
    tipsAt.set(differs, tips);
  }
  const versions = new Map<string, Versions>();
  for (const [index, tips] of tipsAt) {
    const shown = path[index] ?? "";
    const all = [...tips, [shown, lineage[0]?.id ?? ""] as const];
    const ordered = all.sort(([a], [b]) => ((since.get(a) ?? "~") < (since.get(b) ?? "~") ? -1 : 1));
    versions.set(shown, { tips: ordered.map(([, tip]) => tip), shown: ordered.findIndex(([id]) => id === shown) });
  }
  return versions;
}
