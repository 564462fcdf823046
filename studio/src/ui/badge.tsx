type Tone = "neutral" | "good" | "warn" | "bad" | "busy";

/** The tone of each status of runs, threads, servers and tool calls. */
const TONES: Record<string, Tone> = {
  success: "good", connected: "good", closed: "good", enabled: "good", active: "good",
  running: "busy", busy: "busy", connecting: "busy",
  pending: "warn", interrupted: "warn", half_open: "warn", degraded: "warn",
  ready: "good", ok: "good", misconfigured: "bad", tool_error: "bad", invalid_arguments: "bad", refused: "bad", transport: "bad",
  error: "bad", timeout: "bad", open: "bad", down: "bad", failed: "bad",
};

export function Badge({ status }: { status: string }) {
  return <span className={`badge ${TONES[status] ?? "neutral"}`}>{status.replace("_", " ")}</span>;
}
