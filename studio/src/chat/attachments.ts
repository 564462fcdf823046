/** Files of the user as LangChain's standard content blocks. */
import type { ContentBlock } from "../ui/content";

const MAX_FILE_BYTES = 5_000_000;
const MAX_TOTAL_BYTES = 10_000_000;

export interface Attachment {
  name: string;
  size: number;
  block: ContentBlock;
}

/** Read files until the limits are reached; `problem` names the first file that is too large. */
export async function readFiles(files: File[], already: Attachment[]) {
  const attachments = [...already];
  let problem = "";
  for (const file of files) {
    const total = attachments.reduce((sum, each) => sum + each.size, file.size);
    const { name, size } = file;
    if (size > MAX_FILE_BYTES) problem ||= `${name} has ${megabytes(size)}; a file may have ${megabytes(MAX_FILE_BYTES)}.`;
    else if (total > MAX_TOTAL_BYTES) problem ||= `${name} does not fit: all files may have ${megabytes(MAX_TOTAL_BYTES)}.`;
    else attachments.push({ name, size, block: await contentBlock(file) });
  }
  return { attachments, problem };
}

function megabytes(bytes: number): string {
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}

async function contentBlock(file: File): Promise<ContentBlock> {
  const type = ["image", "audio", "video"].find((kind) => file.type.startsWith(`${kind}/`)) ?? "file";
  const mime = file.type || "application/octet-stream";
  return { type, mime_type: mime, base64: await base64(file), ...(type === "file" ? { extras: { filename: file.name } } : {}) };
}

function base64(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve((reader.result as string).replace(/^[^,]*,/, ""));
    reader.onerror = () => reject(reader.error ?? new Error(`${file.name} cannot be read.`));
    reader.readAsDataURL(file);
  });
}
