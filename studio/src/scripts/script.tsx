/** A finished script, to read, copy and save. */
import { CopyButton, download } from "../admin/parts";
import { Button } from "../ui/button";

export interface VideoScript {
  title: string;
  description: string;
  sections: { title: string; narrations: { text: string; persona_id?: string | null }[]; slide_prompt: string | null }[];
}

export function ScriptView({ script }: { script: VideoScript }) {
  const name = script.title.toLowerCase().replace(/[^\p{Letter}\p{Number}]+/gu, "-").slice(0, 60);
  return (
    <article className="stack" aria-label="Script">
      <div className="row between">
        <h2>{script.title}</h2>
        <div className="row">
          <CopyButton text={scriptText(script)} />
          <Button onClick={() => download(`${name}.txt`, scriptText(script), "text/plain")}>Save as text</Button>
          <Button onClick={() => download(`${name}.json`, JSON.stringify(script, null, 2), "application/json")}>Save as JSON</Button>
        </div>
      </div>
      <p className="muted">{script.description}</p>
      {script.sections.map((section, index) => (
        <section key={index} className="card">
          <h3>{index + 1}. {section.title}</h3>
          {section.narrations.map((narration, line) => (
            <p key={line} className="prose">{narration.persona_id ? <strong>{narration.persona_id}: </strong> : null}{narration.text}</p>
          ))}
          {section.slide_prompt !== null && <p className="hint">Slide: {section.slide_prompt}</p>}
        </section>
      ))}
    </article>
  );
}

function scriptText(script: VideoScript): string {
  const sections = script.sections.map((section) => {
    const lines = section.narrations.map(({ persona_id: persona, text }) => (persona ? `${persona}: ${text}` : text));
    return [section.title, ...lines, ...(section.slide_prompt === null ? [] : [`[Slide: ${section.slide_prompt}]`])].join("\n\n");
  });
  return [script.title, script.description, ...sections].join("\n\n\n");
}
