/** Messages as the page reads them: both the objects of `useStream` and the JSON of a checkpoint have these fields. */
import { blocksOf, type ContentBlock } from "../ui/content";

export interface ToolCall {
  id?: string;
  name: string;
  args: unknown;
}

/** What our tool node writes about a call; tools of other servers leave it out. */
export interface CallFacts {
  server?: string;
  duration_ms?: number;
  attempts?: number;
  /** The `ui://` page that shows the result. */
  app?: string;
}

export interface ChatMessage {
  id?: string;
  type: string;
  content: string | ContentBlock[];
  name?: string;
  tool_calls?: ToolCall[];
  invalid_tool_calls?: ToolCall[];
  tool_call_id?: string;
  status?: "success" | "error";
  artifact?: unknown;
  additional_kwargs?: Record<string, unknown>;
  response_metadata?: Record<string, unknown>;
  usage_metadata?: { input_tokens?: number; output_tokens?: number };
}

export function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return (content as (ContentBlock | string)[])
    .map((block) => (typeof block === "string" ? block : block.type === "text" ? (block.text ?? "") : ""))
    .join("");
}

/** What the model thought before it answered, in the forms of LangChain, Anthropic and DeepSeek. */
export function reasoningOf(message: ChatMessage): string {
  const parts = blocksOf(message.content).map((block) => block["reasoning"] ?? block["thinking"]);
  return [...parts, message.additional_kwargs?.["reasoning_content"]].filter((part) => typeof part === "string").join("");
}

export function callsOf(message: ChatMessage): ToolCall[] {
  return [...(message.tool_calls ?? []), ...(message.invalid_tool_calls ?? [])];
}

export function factsOf(result: ChatMessage | undefined): CallFacts {
  return result?.response_metadata?.["toolweave_call"] ?? {};
}

/**
 * Cut Markdown into blocks that do not influence each other, so that a streamed answer renders its last block only.
 * A block that is indented or continues a list stays with the one before it; a fence is never cut.
 */
export function markdownBlocks(text: string): string[] {
  const blocks: string[][] = [];
  let isFenced = false;
  let isSeparated = true;
  for (const line of text.split("\n")) {
    const continues = isFenced || /^(\s|[-*+] |\d+[.)] |\||>)/.test(line);
    const last = blocks.at(-1);
    if (last === undefined || (isSeparated && line !== "" && !continues)) blocks.push([line]);
    else last.push(line);
    if (/^\s*(```|~~~)/.test(line)) isFenced = !isFenced;
    isSeparated = line === "" && !isFenced;
  }
  return blocks.map((lines) => lines.join("\n"));
}
