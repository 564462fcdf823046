/** Buttons, also those that open a dialog. */
import { useEffect, useRef, useState } from "react";

import { useChange } from "../client";
import { ErrorBox } from "./states";

interface ButtonProps extends React.ButtonHTMLAttributes<HTMLButtonElement> {
  kind?: "primary" | "plain" | "quiet" | "danger";
}

export function Button({ kind = "plain", type = "button", className = "", ...rest }: ButtonProps) {
  return <button type={type} className={`button ${kind} ${className}`} {...rest} />;
}

interface DialogProps {
  title: string;
  isOpen: boolean;
  onClose: () => void;
  children: React.ReactNode;
}

/** A modal dialog; Escape closes it and the focus returns to the element that opened it. */
export function Dialog({ title, isOpen, onClose, children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (isOpen && element.current?.open === false) element.current.showModal();
    if (!isOpen) element.current?.close();
  }, [isOpen]);
  return (
    <dialog ref={element} aria-label={title} onClose={onClose}>
      <div className="row between">
        <h2>{title}</h2>
        <Button kind="quiet" aria-label="Close" onClick={onClose}>×</Button>
      </div>
      {isOpen && children}
    </dialog>
  );
}

interface DialogButtonProps extends Omit<ButtonProps, "children"> {
  title: string;
  /** What the button shows, if it is not the title of the dialog. */
  text?: string;
  /** The content of the dialog, made with the function that closes it. */
  children: (close: () => void) => React.ReactNode;
}

export function DialogButton({ title, text = title, children, ...rest }: DialogButtonProps) {
  const [isOpen, setOpen] = useState(false);
  const close = () => setOpen(false);
  return (
    <>
      <Button onClick={() => setOpen(true)} {...rest}>{text}</Button>
      <Dialog title={title} isOpen={isOpen} onClose={close}>{children(close)}</Dialog>
    </>
  );
}

interface DeleteButtonProps extends Omit<DialogButtonProps, "title" | "children"> {
  /** What is deleted, as it is named in the question. */
  what: string;
  onDelete: () => Promise<unknown>;
  /** The keys of the queries that load again. */
  changed: string[];
  onDone?: () => void;
}

export function DeleteButton({ what, text = "Delete", onDelete, changed, onDone, ...rest }: DeleteButtonProps) {
  const change = useChange(onDelete, changed, onDone);
  return (
    <DialogButton kind="danger" title={`Delete ${what}?`} text={text} aria-label={`Delete ${what}`} {...rest}>
      {(close) => (
        <>
          <p>This cannot be undone.</p>
          <ErrorBox error={change.error} />
          <div className="row end">
            <Button onClick={close}>Keep it</Button>
            <Button kind="danger" disabled={change.isPending} onClick={() => change.mutate()}>Delete it</Button>
          </div>
        </>
      )}
    </DialogButton>
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
