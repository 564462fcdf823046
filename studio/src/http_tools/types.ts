/** The registered tools and the workflow's answer, as src/toolweave/tool_config.py and nodes/workflow/state.py define them. */

export interface ToolConfig {
  tool_id: string;
  name: string;
  api: { method: string; path: string };
}

/** The schema of the form of a tool; the server checks more. */
export const TOOL_SCHEMA = {
  type: "object",
  required: ["name", "description", "api"],
  properties: {
    name: { type: "string", title: "Name" },
    tool_id: { type: "string", title: "Id (made from the name if empty)", pattern: "^([A-Za-z0-9][A-Za-z0-9_-]{0,63})?$" },
    description: { type: "string", title: "Description: a model chooses the tool by it" },
    tags: { type: "array", title: "Tags", items: { type: "string" } },
    api: {
      type: "object",
      title: "Request",
      required: ["base_url", "path"],
      properties: {
        method: { title: "Method", enum: ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"], default: "GET" },
        base_url: { type: "string", title: "Base URL", pattern: "^https?://" },
        path: { type: "string", title: "Path, with {placeholders}" },
        timeout_s: { type: "number", title: "Time limit in seconds", minimum: 0.1, maximum: 120, default: 30 },
        headers: { type: "object", title: "Headers", additionalProperties: { type: "string" } },
        auth: {
          type: "object",
          title: "Credential",
          properties: {
            type: {
              title: "Kind",
              default: "none",
              oneOf: [
                { const: "none", title: "None" },
                { const: "bearer", title: "Bearer token" },
                { const: "basic", title: "Name and password" },
                { const: "api_key", title: "API key" },
              ],
            },
          },
          allOf: [
            {
              if: { properties: { type: { const: "api_key" } }, required: ["type"] },
              then: {
                required: ["name"],
                properties: {
                  location: { title: "Sent in", enum: ["header", "query"], default: "header" },
                  name: { type: "string", title: "Its name" },
                },
              },
            },
            {
              if: { properties: { type: { enum: ["bearer", "basic", "api_key"] } }, required: ["type"] },
              then: { required: ["value"], properties: { value: { type: "string", title: "Value, such as {env:TOOL_SHOP_KEY}" } } },
            },
          ],
        },
      },
    },
    input_schema: { type: "object", title: "Schema of the arguments (JSON Schema)" },
    field_mappings: { type: "object", title: "Field mappings" },
    output_schema: { type: "object", title: "Schema of the output (JSON Schema)" },
  },
};

const JSON_FIELD = { "ui:field": "json" };
export const TOOL_UI = {
  description: { "ui:widget": "textarea" },
  api: { headers: JSON_FIELD },
  input_schema: JSON_FIELD,
  field_mappings: JSON_FIELD,
  output_schema: JSON_FIELD,
};

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
  raw_response: unknown;
  output: unknown;
  formatted_response: string | null;
  warning: string | null;
  error: string | null;
  error_stage: string | null;
  metadata: { usage: unknown };
}
