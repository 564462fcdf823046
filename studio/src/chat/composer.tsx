/** The input of a run: a message with files if the graph is a chat, otherwise a form of its schema; both also as JSON. */
import { useRef, useState } from "react";

import type { Json } from "../client";
import { Button, SchemaInput } from "../ui";
import { addressOf, type Content, type ContentBlock } from "../ui/content";
import "./chat.css";

interface RunInputProps {
  schema: object | null | undefined;
  isRunning: boolean;
  isBlocked: boolean;
  placeholder: string;
  /** The field for a message gets the focus when it appears. */
  isFocused?: boolean;
  onRun: (input: Json) => void;
  onStop: () => void;
}

export function isChat(schema: object | null | undefined): boolean {
  return "messages" in ((schema as { properties?: object } | null | undefined)?.properties ?? {});
}

export function messageInput(content: Content, id: string = crypto.randomUUID()) {
  return { messages: [{ type: "human", content, id }] };
}

export function RunInput({ schema, isRunning, isBlocked, placeholder, isFocused = false, onRun, onStop }: RunInputProps) {
  const [isJson, setJson] = useState(false);
  const hasMessages = isChat(schema);
  if (hasMessages && !isJson) {
    return (
      <Composer isRunning={isRunning} isBlocked={isBlocked} placeholder={placeholder} isFocused={isFocused} onStop={onStop}
        onSend={(content) => onRun(messageInput(content))}>
        <Button kind="quiet" onClick={() => setJson(true)}>As JSON</Button>
      </Composer>
    );
  }
  return (
    <div className="run-input">
      <SchemaInput label="Input" submit="Run" isDisabled={isRunning || isBlocked} onSubmit={(input) => onRun(input as Json)}
        {...(hasMessages ? { schema: undefined, value: messageInput("") } : { schema: schema ? { ...schema, title: "", description: "" } : undefined })}
        actions={
          <>
            {hasMessages && <Button kind="quiet" onClick={() => setJson(false)}>As a message</Button>}
            {isRunning && <Button onClick={onStop}>Stop</Button>}
          </>
        } />
    </div>
  );
}

interface ComposerProps {
  isRunning: boolean;
  isBlocked: boolean;
  placeholder: string;
  isFocused: boolean;
  onSend: (content: Content) => void;
  onStop: () => void;
  /** More buttons. */
  children?: React.ReactNode;
}

function Composer({ isRunning, isBlocked, placeholder, isFocused, onSend, onStop, children }: ComposerProps) {
  const [text, setText] = useState("");
  const [attachments, setAttachments] = useState<Attachment[]>([]);
  const [problem, setProblem] = useState("");
  const [isTarget, setTarget] = useState(false);
  const picker = useRef<HTMLInputElement>(null);
  const isEmpty = text.trim() === "" && attachments.length === 0;

  const attach = async (files: File[]) => {
    const read = await readFiles(files, attachments).catch((error: unknown) => ({ attachments, problem: String(error) }));
    setAttachments(read.attachments);
    setProblem(read.problem);
  };
  const send = () => {
    if (isEmpty || isRunning || isBlocked) return;
    const blocks = attachments.map((each) => each.block);
    const words = text.trim() === "" ? [] : [{ type: "text", text }];
    onSend(blocks.length === 0 ? text : [...words, ...blocks]);
    setText("");
    setAttachments([]);
    setProblem("");
  };
  const drop = (event: React.DragEvent) => {
    event.preventDefault();
    setTarget(false);
    void attach([...event.dataTransfer.files]);
  };
  return (
    <form className={`stack composer ${isTarget ? "is-target" : ""}`} aria-label="Message"
      onSubmit={(event) => { event.preventDefault(); send(); }}
      onDragOver={(event) => { event.preventDefault(); setTarget(true); }} onDragLeave={() => setTarget(false)} onDrop={drop}>
      {attachments.length > 0 && (
        <ul className="row attachments" aria-label="Attached files">
          {attachments.map((each, index) => (
            <li key={`${each.name}-${index}`}>
              {each.block.type === "image" && <img src={addressOf(each.block)} alt="" />}
              <span className="cut">{each.name}</span>
              <Button kind="quiet" aria-label={`Remove ${each.name}`}
                onClick={() => setAttachments(attachments.filter((other) => other !== each))}>×</Button>
            </li>
          ))}
        </ul>
      )}
      <p className="problem" role="status">{problem}</p>
      <textarea aria-label="Your message" autoFocus={isFocused} rows={1} placeholder={placeholder} value={text}
        onChange={(event) => setText(event.target.value)}
        onPaste={(event) => {
          if (event.clipboardData.files.length === 0) return;
          event.preventDefault();
          void attach([...event.clipboardData.files]);
        }}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
          event.preventDefault();
          send();
        }} />
      <div className="row between">
        <span className="row">
          <Button kind="quiet" onClick={() => picker.current?.click()}>Attach files</Button>
          {children}
        </span>
        <input ref={picker} type="file" multiple hidden aria-label="Files" onChange={(event) => {
          void attach([...(event.target.files ?? [])]);
          event.target.value = "";
        }} />
        {isRunning
          ? <Button onClick={onStop}>Stop</Button>
          : <Button kind="primary" type="submit" disabled={isEmpty || isBlocked}>Send</Button>}
      </div>
    </form>
  );
}

const MAX_FILE_BYTES = 5_000_000;
const MAX_TOTAL_BYTES = 10_000_000;

interface Attachment {
  name: string;
  size: number;
  block: ContentBlock;
}

/** Read files until the limits are reached; `problem` names the first file that is too large. */
async function readFiles(files: File[], already: Attachment[]) {
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
