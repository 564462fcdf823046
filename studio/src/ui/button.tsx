import { useState } from "react";

import { useChange } from "../client/queries";
import { Dialog } from "./dialog";
import { ErrorBox } from "./states";

interface ButtonProps extends React.ButtonHTMLAttributes<HTMLButtonElement> {
  kind?: "primary" | "plain" | "quiet" | "danger";
}

export function Button({ kind = "plain", type = "button", className = "", ...rest }: ButtonProps) {
  return <button type={type} className={`button ${kind} ${className}`} {...rest} />;
}

interface DeleteButtonProps extends ButtonProps {
  /** What is deleted, as it is named in the question. */
  what: string;
  onDelete: () => Promise<unknown>;
  /** The keys of the queries that load again. */
  changed: string[];
  onDone?: () => void;
}

export function DeleteButton({ what, onDelete, changed, onDone, children = "Delete", ...rest }: DeleteButtonProps) {
  const [isOpen, setOpen] = useState(false);
  const change = useChange(onDelete, changed, () => {
    setOpen(false);
    onDone?.();
  });
  return (
    <>
      <Button kind="danger" aria-label={`Delete ${what}`} onClick={() => setOpen(true)} {...rest}>{children}</Button>
      <Dialog title={`Delete ${what}?`} isOpen={isOpen} onClose={() => setOpen(false)}>
        <p>This cannot be undone.</p>
        <ErrorBox error={change.error} />
        <div className="row end">
          <Button onClick={() => setOpen(false)}>Keep it</Button>
          <Button kind="danger" disabled={change.isPending} onClick={() => change.mutate()}>Delete it</Button>
        </div>
      </Dialog>
    </>
  );
}

export function CopyButton({ text, kind = "plain" }: { text: string; kind?: "plain" | "quiet" }) {
  const [label, setLabel] = useState("Copy");
  const copy = async () => {
    // Browsers have no clipboard on pages over plain HTTP from another machine, whatever its type says.
    const write = Promise.resolve().then(() => navigator.clipboard.writeText(text));
    setLabel(await write.then(() => "Copied", () => "The browser forbids it"));
    setTimeout(() => setLabel("Copy"), 2000);
  };
  return <Button kind={kind} onClick={() => void copy()}>{label}</Button>;
}
