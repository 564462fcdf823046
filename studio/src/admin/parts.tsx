/** What the pages of the administration share: their head, paths, changes with a confirmation, tabs, facts. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { flushSync } from "react-dom";
import { Link, useLocation } from "wouter";

import { errorStatus } from "../client/server";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { Empty, ErrorBox } from "../ui/states";
import "./admin.css";

/** The parts of the path behind the page's own name, decoded. */
export function usePath(): string[] {
  const [location] = useLocation();
  return location.split("/").slice(2).filter((part) => part !== "").map(decode);
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function path(...parts: string[]): string {
  return `/${parts.map(encodeURIComponent).join("/")}`;
}

/** A change on the server; afterwards all queries whose keys begin with `changed` load again. */
export function useChange<Input, Result>(
  change: (input: Input) => Promise<Result>,
  changed: string,
  onDone?: (result: Result, input: Input) => void,
) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSuccess: async (result, input) => {
      // The page of a deleted item must be gone before its queries load again.
      flushSync(() => onDone?.(result, input));
      await queries.invalidateQueries({ queryKey: [changed] });
    },
  });
}

interface DeleteButtonProps {
  /** What is deleted, as it is named in the question. */
  what: string;
  onDelete: () => Promise<unknown>;
  changed: string;
  onDone?: () => void;
}

export function DeleteButton({ what, onDelete, changed, onDone }: DeleteButtonProps) {
  const [isOpen, setOpen] = useState(false);
  const change = useChange(onDelete, changed, () => {
    setOpen(false);
    onDone?.();
  });
  return (
    <>
      <Button kind="danger" aria-label={`Delete ${what}`} onClick={() => setOpen(true)}>Delete</Button>
      <Dialog title={`Delete ${what}?`} isOpen={isOpen} onClose={() => setOpen(false)}>
        <p>This cannot be undone.</p>
        {change.isError && <ErrorBox error={change.error} />}
        <div className="row end">
          <Button onClick={() => setOpen(false)}>Keep it</Button>
          <Button kind="danger" disabled={change.isPending} onClick={() => change.mutate(undefined)}>Delete it</Button>
        </div>
      </Dialog>
    </>
  );
}

/** The head of the list beside an item: the page's title and buttons. */
export function ListHead({ title, children }: { title: string; children?: React.ReactNode }) {
  return <div className="row between"><h1>{title}</h1>{children && <div className="row">{children}</div>}</div>;
}

interface TextFieldProps extends Omit<React.InputHTMLAttributes<HTMLInputElement>, "onChange"> {
  label: string;
  value: string;
  onChange: (text: string) => void;
}

export function TextField({ label, onChange, ...rest }: TextFieldProps) {
  return <label>{label}<input {...rest} onChange={(event) => onChange(event.target.value)} /></label>;
}

export function SearchField({ label, onChange, ...rest }: TextFieldProps) {
  return <input type="search" aria-label={label} placeholder={label} {...rest} onChange={(event) => onChange(event.target.value)} />;
}

interface CheckBoxProps {
  label: string;
  checked: boolean;
  onChange: (checked: boolean) => void;
}

export function CheckBox({ label, checked, onChange }: CheckBoxProps) {
  return <label className="inline"><input type="checkbox" checked={checked} onChange={(event) => onChange(event.target.checked)} /> {label}</label>;
}

/** The handler of a form that calls `act` instead of loading another page. */
export function submitTo(act: () => void) {
  return (event: React.SubmitEvent) => {
    event.preventDefault();
    act();
  };
}

export function Tabs({ label, tabs }: { label: string; tabs: { href: string; text: string; isOpen: boolean }[] }) {
  return (
    <nav className="tabs" aria-label={label}>
      {tabs.map((tab) => (
        <Link key={tab.href} href={tab.href} aria-current={tab.isOpen ? "page" : undefined}>{tab.text}</Link>
      ))}
    </nav>
  );
}

export function Facts({ facts }: { facts: [string, React.ReactNode][] }) {
  return (
    <dl className="facts">
      {facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}
    </dl>
  );
}

/** The error of a route that only Toolweave's own application has: another application may be served instead. */
export function RouteError({ error, what, onRetry }: { error: unknown; what: string; onRetry: () => void }) {
  if (errorStatus(error) !== 404) return <ErrorBox error={error} onRetry={onRetry} />;
  return (
    <Empty title={`No ${what} here`}>
      <p>This server runs another application, which does not have Toolweave’s routes for {what}.</p>
    </Empty>
  );
}

/** Save a text as a file; nothing is sent anywhere. */
export function download(name: string, text: string, type: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

export function CopyButton({ text }: { text: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
  };
  // Browsers offer the clipboard to pages of https and of this machine only.
  if (!("clipboard" in navigator)) return null;
  return <Button onClick={() => void copy()} onBlur={() => setCopied(false)}>{isCopied ? "Copied" : "Copy"}</Button>;
}

export function splitWords(text: string): string[] {
  return text.split(",").map((word) => word.trim()).filter((word) => word !== "");
}
