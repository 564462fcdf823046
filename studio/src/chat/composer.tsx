/** The field for a message: text, files by button, paste or drop. */
import { useRef, useState } from "react";

import { Button } from "../ui";
import { addressOf, type ContentBlock } from "../ui/content";
import { type Attachment, readFiles } from "./attachments";
import "./composer.css";

export type Content = string | ContentBlock[];

interface ComposerProps {
  isRunning: boolean;
  isBlocked: boolean;
  placeholder: string;
  onSend: (content: Content) => void;
  onStop: () => void;
  /** More buttons. */
  children?: React.ReactNode;
}

export function Composer({ isRunning, isBlocked, placeholder, onSend, onStop, children }: ComposerProps) {
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
    <form className={`composer ${isTarget ? "is-target" : ""}`} aria-label="Message"
      onSubmit={(event) => { event.preventDefault(); send(); }}
      onDragOver={(event) => { event.preventDefault(); setTarget(true); }} onDragLeave={() => setTarget(false)} onDrop={drop}>
      {attachments.length > 0 && (
        <ul className="attachments" aria-label="Attached files">
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
      <textarea aria-label="Your message" rows={1} placeholder={placeholder} value={text}
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
