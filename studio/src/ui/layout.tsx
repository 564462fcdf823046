/** How pages are laid out: heads, a list beside the chosen item, tabs, facts, tables. */
import { Link, useLocation } from "wouter";

import { Badge } from "./badge";

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

export interface NavItem {
  href: string;
  title: string;
  hint?: React.ReactNode;
  status?: string;
  isOpen?: boolean;
  /** A button over the link. */
  action?: React.ReactNode;
}

interface NavListProps {
  label?: string;
  items: NavItem[];
  /** What stands in an empty list. */
  empty?: string;
  /** At this length there are probably more. */
  limit?: number;
  onOpen?: () => void;
}

/** Links to the items of a page. */
export function NavList({ label, items, empty = "Nothing matches.", limit = Infinity, onOpen }: NavListProps) {
  if (items.length === 0) return <p className="muted" role="status">{empty}</p>;
  return (
    <>
      <ul className="list nav-list" aria-label={label}>
        {items.map(({ href, title, hint, status, isOpen = false, action }) => (
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
    </>
  );
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

/** A table that scrolls sideways in its frame; empty heads are left out. */
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
  return (
    <nav className="row" aria-label="Other views">
      {Object.entries(links).map(([name, href]) => href && name !== here && <Link key={name} href={href}>{name}</Link>)}
    </nav>
  );
}

/** Ids of runs and threads begin with the time, so their ends tell them apart. */
export function shortId(id: string): string {
  return `…${id.slice(-8)}`;
}
