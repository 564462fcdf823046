import { useEffect, useRef } from "react";

import { Button } from "./button";

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
