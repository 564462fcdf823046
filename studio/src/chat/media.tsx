/** Content that is not text. Nothing is loaded from another host: such addresses are links. */
import { fileName } from "./attachments";
import { type ContentBlock, imageAddress, mimeType } from "./messages";

/** Blocks that other parts of a message already show. */
const SHOWN_ELSEWHERE = [
  "text", "reasoning", "thinking", "redacted_thinking", "tool_call", "tool_call_chunk", "tool_use", "function_call", "input_json_delta",
];

export function MediaBlock({ block }: { block: ContentBlock }) {
  if (SHOWN_ELSEWHERE.includes(block.type)) return null;
  const address = imageAddress(block);
  const isImage = block.type.startsWith("image");
  if (isImage && address?.startsWith("data:image/")) return <img className="message-image" src={address} alt="Attached image" />;
  const label = isImage ? "Image" : fileName(block);
  if (address?.startsWith("data:")) {
    return <a className="file-chip" href={address} download={label}>{label} <span className="hint">{mimeType(block)}</span></a>;
  }
  if (address !== undefined && /^https?:/.test(address)) return <a className="file-chip" href={address} target="_blank" rel="noreferrer noopener">{label}: {address}</a>;
  return <span className="file-chip">{label}</span>;
}
