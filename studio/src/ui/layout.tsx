/** How pages are laid out: heads, a list beside the chosen item, facts, tables, times. */
import { useEffect, useState } from "react";
import { Link, useLocation } from "wouter";

import { Button } from "./buttons";
import { SearchField } from "./form";
import { Badge } from "./states";

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

interface HeadProps {
  title: string;
  /** 1 for a page, 2 for an item of it. */
  level?: 1 | 2;
  status?: string | undefined;
  hint?: React.ReactNode;
  /** Buttons and links. */
  children?: React.ReactNode;
}

export function Head({ title, level = 1, status, hint, children }: HeadProps) {
  const Heading = level === 1 ? "h1" : "h2";
  return (
    <header className="row between">
      <div className="row head">
        <Heading>{title}</Heading>
        {status !== undefined && <span role="status"><Badge status={status} /></span>}
        {hint !== undefined && <span className="hint">{hint}</span>}
      </div>
      {children !== undefined && <div className="row">{children}</div>}
    </header>
  );
}

interface SplitPageProps {
  title: string;
  /** The name of the chosen item's section. */
  label: string;
  actions?: React.ReactNode;
  list: React.ReactNode;
  children: React.ReactNode;
}

export function SplitPage({ title, label, actions, list, children }: SplitPageProps) {
  return (
    <div className="split">
      <aside aria-label={title}>
        <Head title={title}>{actions}</Head>
        {list}
      </aside>
      <section aria-label={label}><div className="page">{children}</div></section>
    </div>
  );
}

interface NavItem {
  href: string;
  title: string;
  hint?: React.ReactNode;
  /** What a search finds beside the title. */
  words?: string | null;
  status?: string;
  isOpen?: boolean;
  /** A button over the link. */
  action?: React.ReactNode;
}

interface NavListProps {
  label?: string;
  items: NavItem[];
  /** The name of the field that searches the items. */
  search?: string;
  /** What stands in an empty list. */
  empty?: string;
  /** At this length there are probably more. */
  limit?: number;
  /** The query of the items, if its next page has more. */
  query?: { hasNextPage: boolean; isFetching: boolean; isError: boolean; fetchNextPage: () => Promise<unknown> };
  onOpen?: () => void;
}

/** Links to the items of a page. */
export function NavList({ label, items, search, empty, limit = Infinity, query, onOpen }: NavListProps) {
  const [text, setText] = useState("");
  const isFound = ({ title, words = "" }: NavItem) => `${title} ${words}`.toLowerCase().includes(text.trim().toLowerCase());
  const found = items.filter(isFound);
  const isSearching = query?.hasNextPage === true && found.length === 0 && !query.isError;
  useEffect(() => {
    if (isSearching && !query.isFetching) void query.fetchNextPage();
  }, [isSearching, query]);
  return (
    <>
      {search !== undefined && <SearchField label={search} value={text} onChange={setText} />}
      {found.length === 0 && <p className="muted" role="status">
        {isSearching ? `Searching; nothing among ${items.length} contains “${text}”.` : items.length === 0 ? empty : `Nothing contains “${text}”.`}
      </p>}
      <ul className="list nav-list" aria-label={label}>
        {found.map(({ href, title, hint, status, isOpen = false, action }) => (
          <li key={href}>
            <Link href={href} aria-current={isOpen ? "page" : undefined} onClick={() => onOpen?.()}>
              <span className="row between">
                <span className="cut" title={title}>{title}</span> {status !== undefined && <Badge status={status} />}
              </span>
              {hint !== undefined && <small>{hint}</small>}
            </Link>
            {action}
          </li>
        ))}
      </ul>
      {items.length >= limit && <p className="hint">Only the first {limit} are listed.</p>}
      {query?.hasNextPage && (
        <p className="row between hint">
          The newest {items.length} are listed and searched. <Button disabled={query.isFetching} onClick={() => void query.fetchNextPage()}>Show more</Button>
        </p>
      )}
    </>
  );
}

/** Names and values; an undefined value is left out. */
export function Facts({ facts }: { facts: Record<string, React.ReactNode> }) {
  return (
    <dl className="facts">
      {Object.entries(facts).filter(([, value]) => value !== undefined).map(([name, value]) => (
        <div key={name}><dt>{name}</dt><dd>{value}</dd></div>
      ))}
    </dl>
  );
}

/** A table that scrolls sideways in its frame. */
export function Table({ label, head, children }: { label: string; head: string[]; children: React.ReactNode }) {
  return (
    <div className="table-scroll" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead><tr>{head.map((name) => <th key={name}>{name}</th>)}</tr></thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

/** Links in a row, by their texts; those without an address are left out. */
export function Links({ label, links, open }: { label: string; links: Record<string, string | undefined>; open?: string }) {
  return (
    <nav className="row" aria-label={label}>
      {Object.entries(links).map(([text, href]) =>
        href && <Link key={text} href={href} aria-current={text === open ? "page" : undefined}>{text}</Link>)}
    </nav>
  );
}

/** Links to the other pages that show a thread or a run. */
export function RunLinks({ threadId, runId, assistantId, here }: {
  threadId: string; runId?: string | undefined; assistantId?: string | undefined; here: string;
}) {
  const links = {
    Chat: `/chat/${threadId}`,
    History: `/history/${threadId}`,
    Graph: assistantId && `/graphs/${assistantId}?thread=${threadId}${runId ? `&run=${runId}` : ""}`,
    Run: runId && `/runs/${threadId}/${runId}`,
  };
  return <Links label="Other views" links={{ ...links, [here]: undefined }} />;
}

/** Ids of runs and threads begin with the time, so their ends tell them apart. */
export function shortId(id: string): string {
  return `…${id.slice(-8)}`;
}

const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [["day", 86_400_000], ["hour", 3_600_000], ["minute", 60_000]];
const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

/** How long ago something was; the exact time is its title. */
export function Ago({ time }: { time: string }) {
  return <time dateTime={time} title={new Date(time).toLocaleString()}>{relativeTime(time)}</time>;
}

function relativeTime(time: string): string {
  const elapsed = Date.now() - Date.parse(time);
  const [unit, size] = UNITS.find(([, ms]) => Math.abs(elapsed) >= ms) ?? ["second", 1000];
  return RELATIVE.format(-Math.round(elapsed / size), unit);
}

export function duration(milliseconds: number): string {
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  return milliseconds < 60_000 ? `${(milliseconds / 1000).toFixed(1)} s` : `${Math.floor(milliseconds / 60_000)} min ${Math.round((milliseconds % 60_000) / 1000)} s`;
}
