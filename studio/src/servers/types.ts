/** The answers of /servers, as api/routes/servers.py and servers/connections/status.py define them. */
import type { ContentBlock } from "../ui/content";

export interface ServerSummary {
  name: string;
  transport: string;
  enabled: boolean;
  state: "connecting" | "ready" | "down" | "misconfigured" | "disabled";
  breaker: string;
  last_error: string | null;
  since: string;
  latency_ms?: { p50: number; p99: number };
}

export interface ToolDetails {
  name: string;
  own_name: string;
  description: string | null;
  input_schema: { properties?: Record<string, unknown> };
  annotations: Record<string, unknown>;
  _meta?: { ui?: { resourceUri?: unknown } } | null;
  requires_approval: boolean;
  calls: number;
  failures: number;
}

export interface ServerDetails extends ServerSummary {
  target: string;
  timeout_s: number;
  max_concurrency: number | null;
  breaker_rules: { failures: number; recovery_s: number };
  calls: number;
  failures: number;
  retries: number;
  in_flight: number;
  failed_connects: number;
  offers: ToolDetails[];
  errors: { time: string; outcome: string; reason: string }[];
}

export interface RecentCall {
  time: string;
  tool: string;
  outcome: string;
  reason: string;
  duration_ms: number;
  retries: number;
  thread_id: string | null;
  caller: string | null;
}

export interface CallAnswer {
  result: {
    content: ContentBlock[];
    structuredContent?: unknown;
    isError?: boolean;
    _meta?: { "toolweave/questions"?: { message: string }[]; [key: string]: unknown };
  };
  duration_ms: number;
}
