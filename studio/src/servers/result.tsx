/** The result of a tool call: texts, JSON, images, audio, resources. */
import { duration } from "../ui/time";
import { JsonView } from "../ui/json";
import { Badge } from "../ui/badge";
import type { ContentBlock, ToolResult } from "./types";

const QUESTIONS_KEY = "toolweave/questions";

export function ResultView({ result, milliseconds }: { result: ToolResult; milliseconds: number }) {
  const questions = (result._meta?.[QUESTIONS_KEY] ?? []) as { message: string }[];
  // A server that sends structured content sends the same as text, for clients that cannot read it.
  const blocks = result.content.filter((block) => result.structuredContent === undefined || block.type !== "text" || parseJson(block.text) === undefined);
  return (
    <section className="stack" aria-label="Result" aria-live="polite">
      <div className="row">
        <h3>Result</h3>
        <Badge status={result.isError === true ? "error" : "success"} />
        <span className="muted">{duration(milliseconds)}</span>
      </div>
      {questions.map((question) => (
        <p key={question.message}>The server asked “{question.message}” and got no answer: a graph can ask you in the chat.</p>
      ))}
      {result.structuredContent !== undefined && <JsonView value={result.structuredContent} label="Structured result" />}
      {blocks.map((block, index) => <Block key={index} block={block} isError={result.isError === true} />)}
      {blocks.length === 0 && result.structuredContent === undefined && <p className="muted">The tool returned no content.</p>}
    </section>
  );
}

function Block({ block, isError }: { block: ContentBlock; isError: boolean }) {
  const source = `data:${block.mimeType ?? ""};base64,${block.data ?? ""}`;
  if (block.type === "image") return <img className="tool-image" src={source} alt="Image that the tool returned" />;
  if (block.type === "audio") return <a href={source} download="audio">Save the audio file ({block.mimeType})</a>;
  if (block.type === "resource_link") return <p>{block.name ?? "Resource"}: <code>{block.uri}</code></p>;
  const text = block.text ?? block.resource?.text;
  if (text === undefined) return <JsonView value={block} />;
  const json = parseJson(text);
  if (json !== undefined && !isError) return <JsonView value={json} />;
  return <p className={isError ? "error-box prose" : "card prose"}>{text}</p>;
}

function parseJson(text: string | undefined): unknown {
  if (text === undefined || !/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
