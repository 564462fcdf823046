/** The registered tools and the workflow's answer, as src/toolweave/tool_config.py and nodes/workflow/state.py define them. */

export interface ToolConfig {
  tool_id: string;
  name: string;
  description: string;
  api: {
    base_url: string;
    path: string;
    method: string;
    headers: Record<string, string>;
    auth: { type: string; location: string; name: string | null; value: string | null };
    timeout_s: number;
  };
  input_schema: object;
  output_schema: object;
  field_mappings: object;
  /** Absent if empty. */
  tags?: string[];
}

export const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"];

export function newTool(): ToolConfig {
  return {
    tool_id: "",
    name: "",
    description: "",
    api: {
      base_url: "https://", path: "/", method: "GET", headers: {}, timeout_s: 30,
      auth: { type: "none", location: "header", name: null, value: null },
    },
    input_schema: { type: "object", properties: {} },
    output_schema: {},
    field_mappings: {},
  };
}

export interface StoredTools {
  created: string[];
  replaced: string[];
  skipped: { operation: string; reason: string }[];
  warnings: string[];
}

export interface WorkflowAnswer {
  status: "success" | "error";
  selected_tool: string | null;
  http_spec: unknown;
  raw_response: { status_code?: number; execution_time_ms?: number } | null;
  output: unknown;
  formatted_response: string | null;
  warning: string | null;
  error: string | null;
  error_stage: string | null;
  metadata: { usage: unknown };
}
