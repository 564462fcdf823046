/** One message of a conversation, with what can be done with it. */
import { memo, useEffect, useState } from "react";

import { Button, CopyButton, Form } from "../ui";
import { blocksOf, MediaBlock } from "../ui/content";
import { Markdown } from "../ui/markdown";
import type { Versions } from "./branches";
import type { Content } from "./composer";
import { callsOf, type ChatMessage, markdownBlocks, reasoningOf, textOf } from "./messages";
import { type CallState, ToolCard } from "./tool_card";

export interface MessageActions {
  edit: (message: ChatMessage, content: Content) => void;
  regenerate: (message: ChatMessage) => void;
  showVersion: (tip: string) => void;
}

interface MessageViewProps {
  message: ChatMessage;
  results: ChatMessage[];
  callStates: CallState[];
  versions: Versions | undefined;
  isStreaming: boolean;
  isPartial: boolean;
  isTurnEnd: boolean;
  /** Whether a run may start from before this message now. */
  canFork: boolean;
  /** Always the same object. */
  actions: MessageActions;
}

/** Equal results are equal arrays of the same messages: without this, each token would draw all messages again. */
function isSame(before: MessageViewProps, after: MessageViewProps): boolean {
  const lists = (["results", "callStates"] as const).every((key) =>
    before[key].length === after[key].length && before[key].every((item, index) => item === after[key][index]));
  const others = ["message", "isStreaming", "isPartial", "isTurnEnd", "canFork", "actions"] as const;
  const hasSameVersions = JSON.stringify(before.versions) === JSON.stringify(after.versions);
  return lists && hasSameVersions && others.every((key) => before[key] === after[key]);
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
      setEditing(false);
      const files = typeof message.content === "string" ? [] : message.content.filter((block) => block.type !== "text");
      actions.edit(message, files.length === 0 ? edited : [{ type: "text", text: edited }, ...files]);
    };
    return <EditForm text={text} onCancel={() => setEditing(false)} onSave={resend} />;
  }
  return (
    <article className="message human" aria-label="You">
      <div className="bubble">
        {blocksOf(message.content).map((block, index) => <MediaBlock key={index} block={block} />)}
        {text !== "" && <p className="prose">{text}</p>}
      </div>
      <footer className="message-actions">
        <VersionSwitch versions={versions} onShow={actions.showVersion} />
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
    <article className="message ai" aria-label="Assistant" aria-busy={isStreaming}>
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
        <footer className="message-actions">
          <VersionSwitch versions={versions} onShow={actions.showVersion} />
          {text !== "" && <CopyButton kind="quiet" text={text} />}
          {canFork && !callStates.includes("pending") && (
            <Button kind="quiet" onClick={() => actions.regenerate(message)}>Regenerate</Button>
          )}
          <Tokens message={message} />
        </footer>
      )}
    </article>
  );
}

function Tokens({ message }: { message: ChatMessage }) {
  const { input_tokens: input, output_tokens: output } = message.usage_metadata ?? {};
  if (output === undefined || output === 0) return null;
  return <span className="hint" title={`${input ?? 0} tokens of input`}>{output} tokens</span>;
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
    <span className="version-switch" role="group" aria-label="Versions">
      {step("Previous version", "‹", tips[shown - 1])}
      <span className="hint">{shown + 1} / {tips.length}</span>
      {step("Next version", "›", tips[shown + 1])}
    </span>
  );
}
