/** One message of a conversation with its tool calls, and what can be done with it. */
import { memo, useEffect, useState } from "react";

import { App, resultOf } from "../apps/app";
import { Badge, Button, CopyButton, duration, Form, JsonSection } from "../ui";
import { blocksOf, type Content, Markdown, MediaBlock, ToolResult } from "../ui/content";
import type { Versions } from "./use_thread";
import { callsOf, type ChatMessage, factsOf, markdownBlocks, reasoningOf, type Row, textOf, type ToolCall } from "./messages";

export interface MessageActions {
  /** Resolves when the new run starts. */
  edit: (message: ChatMessage, content: Content) => Promise<void>;
  regenerate: (message: ChatMessage) => void;
  showVersion: (tip: string) => void;
}

interface MessageViewProps extends Omit<Row, "turn"> {
  versions: Versions | undefined;
  isStreaming: boolean;
  /** Whether a run may start from before this message now. */
  canFork: boolean;
  /** A reference, so that a token draws the last message only. */
  actions: React.RefObject<MessageActions | null>;
}

/** Equal results are equal arrays of the same messages: without this, each token would draw all messages again. */
function isSame(before: MessageViewProps, after: MessageViewProps): boolean {
  const isEqual = (one: unknown, other: unknown) => one === other
    || (Array.isArray(one) && Array.isArray(other) && one.length === other.length && one.every((item, index) => item === other[index]));
  return (Object.keys(after) as (keyof MessageViewProps)[]).every((key) => isEqual(before[key], after[key]));
}

export const MessageView = memo(function MessageView(props: MessageViewProps) {
  const { message } = props;
  if (message.type === "human") return <HumanMessage {...props} />;
  if (message.type === "ai" || message.type === "AIMessageChunk") return <AiMessage {...props} />;
  return <details className="system-message"><summary>{message.type} message</summary><Markdown text={textOf(message.content)} /></details>;
}, isSame);

function HumanMessage({ message, versions, canFork, actions }: MessageViewProps) {
  const [isEditing, setEditing] = useState(false);
  const text = textOf(message.content);
  if (isEditing && canFork) {
    const resend = (edited: string) => {
      const files = blocksOf(message.content).filter((block) => block.type !== "text");
      const content = files.length === 0 ? edited : [{ type: "text", text: edited }, ...files];
      actions.current?.edit(message, content).then(() => setEditing(false), () => undefined);
    };
    return <EditForm text={text} onCancel={() => setEditing(false)} onSave={resend} />;
  }
  return (
    <article className="stack message human" aria-label="You">
      <div className="stack bubble">
        {blocksOf(message.content).map((block, index) => <MediaBlock key={index} block={block} />)}
        {text !== "" && <p className="prose">{text}</p>}
      </div>
      <footer className="row message-actions">
        <VersionSwitch versions={versions} onShow={(tip) => actions.current?.showVersion(tip)} />
        {canFork && <Button kind="quiet" onClick={() => setEditing(true)}>Edit</Button>}
        <CopyButton kind="quiet" text={text} />
      </footer>
    </article>
  );
}

function EditForm({ text, onSave, onCancel }: { text: string; onSave: (text: string) => void; onCancel: () => void }) {
  const [edited, setEdited] = useState(text);
  return (
    <div className="message">
      <Form submit="Send again" isDisabled={edited.trim() === ""} onSubmit={() => onSave(edited)}
        actions={<Button onClick={onCancel}>Cancel</Button>}>
        <textarea aria-label="Edit your message" autoFocus rows={Math.min(10, text.split("\n").length + 1)} value={edited}
          onChange={(event) => setEdited(event.target.value)}
          onKeyDown={(event) => { if (event.key === "Escape") onCancel(); }} />
      </Form>
    </div>
  );
}

function AiMessage({ message, results, callStates, versions, isStreaming, isPartial, isTurnEnd, canFork, actions }: MessageViewProps) {
  const text = textOf(message.content);
  const reasoning = reasoningOf(message);
  const calls = callsOf(message);
  return (
    <article className="stack message ai" aria-label="Assistant" aria-busy={isStreaming}>
      {reasoning !== "" && (
        <details className="reasoning"><summary>Reasoning</summary><StreamedMarkdown text={reasoning} isStreaming={isStreaming} /></details>
      )}
      {text !== "" && <StreamedMarkdown text={text} isStreaming={isStreaming} />}
      {blocksOf(message.content).map((block, index) => <MediaBlock key={index} block={block} />)}
      {calls.map((call, index) => (
        <ToolCard key={call.id ?? index} call={call} result={results.find((each) => each.tool_call_id === call.id)}
          state={callStates[index] ?? "no result"} />
      ))}
      {isPartial && <p className="hint">Stopped here. The thread does not contain this part.</p>}
      {!isStreaming && isTurnEnd && (
        <footer className="row message-actions">
          <VersionSwitch versions={versions} onShow={(tip) => actions.current?.showVersion(tip)} />
          {text !== "" && <CopyButton kind="quiet" text={text} />}
          {canFork && !callStates.includes("pending") && (
            <Button kind="quiet" onClick={() => actions.current?.regenerate(message)}>Regenerate</Button>
          )}
        </footer>
      )}
    </article>
  );
}

const MarkdownBlock = memo(Markdown);

function StreamedMarkdown({ text, isStreaming }: { text: string; isStreaming: boolean }) {
  return isStreaming ? <GrowingMarkdown text={text} /> : <MarkdownBlock text={text} />;
}

/** Tokens arrive in bursts: each frame shows a part of what is left, so that the text grows evenly. */
function GrowingMarkdown({ text }: { text: string }) {
  const [length, setLength] = useState(text.length);
  const isBehind = length < text.length;
  useEffect(() => {
    if (!isBehind) return;
    const step = Math.max(2, Math.ceil((text.length - length) / 6));
    const frame = requestAnimationFrame(() => setLength(Math.min(text.length, length + step)));
    return () => cancelAnimationFrame(frame);
  }, [isBehind, text, length]);
  return (
    <div className="streamed">
      {markdownBlocks(text.slice(0, length)).map((block, index) => <MarkdownBlock key={index} text={block} />)}
    </div>
  );
}

function VersionSwitch({ versions, onShow }: { versions: Versions | undefined; onShow: (tip: string) => void }) {
  if (!versions) return null;
  const { tips, shown } = versions;
  const step = (label: string, sign: string, tip: string | undefined) => (
    <Button kind="quiet" aria-label={label} disabled={tip === undefined} onClick={() => tip !== undefined && onShow(tip)}>{sign}</Button>
  );
  return (
    <span className="row" role="group" aria-label="Versions">
      {step("Previous version", "‹", tips[shown - 1])}
      <span className="hint">{shown + 1} / {tips.length}</span>
      {step("Next version", "›", tips[shown + 1])}
    </span>
  );
}

export type CallState = "running" | "pending" | "success" | "error" | "no result";

interface ToolCardProps {
  call: ToolCall;
  result: ChatMessage | undefined;
  state: CallState;
}

function ToolCard({ call, result, state }: ToolCardProps) {
  const facts = factsOf(result);
  const retries = (facts.attempts ?? 1) - 1;
  const card = (
    <details className={`tool-card ${state}`} open={state === "error"} data-call={call.id}>
      <summary>
        <span className="mono grow cut">{call.name || "tool"}</span>
        <span className="row hint nowrap">
          {facts.server !== undefined && <span title="MCP server">{facts.server}</span>}
          {facts.duration_ms !== undefined && <span title="Duration">{duration(facts.duration_ms)}</span>}
          {retries > 0 && <span title="Attempts after the first">{retries === 1 ? "1 retry" : `${retries} retries`}</span>}
        </span>
        {state === "running"
          ? <span className="badge busy"><span className="spinner" aria-hidden="true" /> running</span>
          : <Badge status={state} />}
      </summary>
      <JsonSection label="Arguments" value={call.args} />
      {result && <h3>{state === "error" ? "Error" : "Result"}</h3>}
      {result && <ToolResult content={result.content} />}
    </details>
  );
  if (result === undefined || facts.app === undefined || facts.server === undefined) return card;
  return <>{card}<App server={facts.server} uri={facts.app} input={call.args} result={resultOf(result)} /></>;
}
