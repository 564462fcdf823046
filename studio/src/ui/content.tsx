/** Content blocks of messages and of tool results, in the forms of LangChain and of MCP, and Markdown. */
import ReactMarkdown from "react-markdown";
import remarkGfm from "remark-gfm";

import { isObject, parseJson, textIn } from "../client";
import { JsonView } from "./json";

export interface ContentBlock {
  type: string;
  text?: string;
  [key: string]: unknown;
}

export type Content = string | (ContentBlock | string)[];

/** LangChain allows strings among the blocks of a message, and a block may lack its type. */
export function blocksOf(content: Content): ContentBlock[] {
  return [content].flat().map((block) => (isObject(block) ? { ...block, type: textIn(block.type) || "data" } : { type: "text", text: block }));
}

/** The data of a block as an address that the page may load, or its address elsewhere. */
export function addressOf(block: ContentBlock): string | undefined {
  const nested = block["image_url"] as { url?: string } | string | undefined;
  const data = block["base64"] ?? block["data"];
  if (typeof data === "string") return `data:${mimeTypeOf(block)};base64,${data}`;
  const address = typeof nested === "object" ? nested.url : (nested ?? block["url"] ?? block["uri"]);
  return typeof address === "string" ? address : undefined;
}

export function mimeTypeOf(block: ContentBlock): string {
  const type = block["mime_type"] ?? block["mimeType"];
  return typeof type === "string" ? type : "image/png";
}

function fileName(block: ContentBlock): string {
  const [extras, metadata] = [block["extras"], block["metadata"]] as ({ filename?: string } | undefined)[];
  const name = block["filename"] ?? block["name"] ?? extras?.filename ?? metadata?.filename;
  return typeof name === "string" ? name : block.type;
}

/** Blocks that other parts of a message already show. */
const SHOWN_ELSEWHERE = [
  "text", "reasoning", "thinking", "redacted_thinking", "tool_call", "tool_call_chunk", "tool_use", "function_call",
  "input_json_delta",
];

/** Content that is not text. Nothing is loaded from another host: such addresses are links. */
export function MediaBlock({ block }: { block: ContentBlock }) {
  if (SHOWN_ELSEWHERE.includes(block.type)) return null;
  const address = addressOf(block);
  const isImage = block.type.startsWith("image");
  if (isImage && address?.startsWith("data:image/")) return <img className="media" src={address} alt="Attached image" />;
  const label = isImage ? "Image" : fileName(block);
  if (address?.startsWith("data:")) {
    return <a className="chip" href={address} download={label}>{label} <span className="hint">{mimeTypeOf(block)}</span></a>;
  }
  const text = address === undefined ? label : `${label}: ${address}`;
  if (address === undefined || !/^https?:/.test(address)) return <span className="chip">{text}</span>;
  return <a className="chip" href={address} target="_blank" rel="noreferrer noopener">{text}</a>;
}

/** What a tool returned. Servers repeat structured content as text, for clients that cannot read it. */
export function ToolResult({ content, structured }: { content: Content; structured?: unknown }) {
  const blocks = blocksOf(content).map((block) => {
    const text = block.text ?? (block["resource"] as { text?: string } | undefined)?.text;
    return { block, text, json: text === undefined ? undefined : parseJson(text) };
  }).filter(({ text, json }) => text !== "" && (structured === undefined || json === undefined));
  return (
    <>
      {structured !== undefined && <JsonView value={structured} label="Result" />}
      {blocks.map(({ block, text, json }, index) => {
        if (json !== undefined) return <JsonView key={index} value={json} label="Result" />;
        if (text === undefined) return <MediaBlock key={index} block={block} />;
        return <div key={index} className="tool-text" tabIndex={0}><Markdown text={text} /></div>;
      })}
      {structured === undefined && blocks.length === 0 && <p className="muted">The tool returned nothing.</p>}
    </>
  );
}

/** Text of a model or a tool. Images are links: the page sends no request to another host. */
export function Markdown({ text }: { text: string }) {
  return (
    <div className="markdown">
      <ReactMarkdown remarkPlugins={[remarkGfm]} components={{ a: ExternalLink, img: ImageLink }}>{text}</ReactMarkdown>
    </div>
  );
}

function ExternalLink({ href, children }: { href?: string | undefined; children?: React.ReactNode }) {
  // Markdown leaves no address of a link such as `javascript:`.
  if (!href) return <span>{children}</span>;
  return <a href={href} target="_blank" rel="noreferrer noopener">{children}</a>;
}

function ImageLink({ src, alt }: { src?: unknown; alt?: string | undefined }) {
  const href = typeof src === "string" ? src : "";
  if (href.startsWith("data:image/")) return <img src={href} alt={alt ?? ""} />;
  return <ExternalLink href={href}>{alt === undefined || alt === "" ? href : alt}</ExternalLink>;
}
