/** The frame of all pages: navigation, theme, token entry, and one error boundary around the page. */
import { QueryErrorResetBoundary, useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense, useState, useSyncExternalStore } from "react";
import { Link, Redirect, Route, Switch, useLocation } from "wouter";

import { readToken, storeToken } from "./client/server";
import { Button, Dialog, ErrorBoundary, Form, Loading, TextField } from "./ui";

interface Page {
  path: string;
  label: string;
  component: React.ComponentType;
}

/** Each page is a chunk of its own, loaded when it is opened; a path ends in `/*?` if the page reads the rest itself. */
const PAGES: Page[] = [
  { path: "/chat", label: "Chat", component: lazy(() => import("./pages/chat")) },
  { path: "/graphs", label: "Graphs", component: lazy(() => import("./pages/graphs")) },
  { path: "/history", label: "History", component: lazy(() => import("./pages/history")) },
  { path: "/runs", label: "Runs", component: lazy(() => import("./pages/runs")) },
  { path: "/servers", label: "MCP servers", component: lazy(() => import("./pages/servers")) },
  { path: "/http-tools", label: "HTTP tools", component: lazy(() => import("./pages/http_tools")) },
  { path: "/scripts", label: "Script jobs", component: lazy(() => import("./pages/scripts")) },
  { path: "/assistants", label: "Assistants", component: lazy(() => import("./pages/assistants")) },
  { path: "/crons", label: "Crons", component: lazy(() => import("./pages/crons")) },
  { path: "/store", label: "Store", component: lazy(() => import("./pages/store")) },
];

export function App() {
  const [location] = useLocation();
  return (
    <div className="frame">
      <a className="skip-link" href="#page" onClick={(event) => { event.preventDefault(); document.getElementById("page")?.focus(); }}>
        Skip to the page
      </a>
      <header className="sidebar">
        <Link href="/chat" className="brand">
          <img src="icon.svg" alt="" width={24} height={24} /> Toolweave
        </Link>
        <nav aria-label="Pages">
          {PAGES.map((page) => (
            <Link key={page.path} href={page.path} aria-current={location.startsWith(page.path) ? "page" : undefined}>
              {page.label}
            </Link>
          ))}
        </nav>
        <div className="sidebar-end">
          <ThemeButton />
          <TokenButton />
        </div>
      </header>
      <main id="page" tabIndex={-1}>
        <QueryErrorResetBoundary>
          {({ reset }) => (
            <ErrorBoundary key={location.split("/")[1]} onReset={reset}>
              <Suspense fallback={<Loading />}>
                <Switch>
                  {PAGES.map((page) => (
                    <Route key={page.path} path={`${page.path}/*?`} component={page.component} />
                  ))}
                  <Route><Redirect to="/chat" replace /></Route>
                </Switch>
              </Suspense>
            </ErrorBoundary>
          )}
        </QueryErrorResetBoundary>
      </main>
    </div>
  );
}

const THEME_KEY = "toolweave-studio-theme";
const darkMedia = matchMedia("(prefers-color-scheme: dark)");

function applyTheme(): string {
  const theme = localStorage.getItem(THEME_KEY) ?? (darkMedia.matches ? "dark" : "light");
  document.documentElement.dataset["theme"] = theme;
  return theme;
}

function subscribeToTheme(onChange: () => void): () => void {
  darkMedia.addEventListener("change", onChange);
  addEventListener("themechange", onChange);
  return () => {
    darkMedia.removeEventListener("change", onChange);
    removeEventListener("themechange", onChange);
  };
}

function ThemeButton() {
  const theme = useSyncExternalStore(subscribeToTheme, applyTheme);
  const other = theme === "dark" ? "light" : "dark";
  const change = () => {
    localStorage.setItem(THEME_KEY, other);
    dispatchEvent(new Event("themechange"));
  };
  return <Button kind="quiet" onClick={change}>{other === "dark" ? "Dark" : "Light"} theme</Button>;
}

/** Enter the token that the server's authentication expects; it lives as long as the browser tab. */
function TokenButton() {
  const queries = useQueryClient();
  const [isOpen, setOpen] = useState(false);
  const [token, setToken] = useState(readToken);
  const save = () => {
    storeToken(token.trim());
    setOpen(false);
    void queries.resetQueries();
  };
  return (
    <>
      <Button kind="quiet" onClick={() => setOpen(true)}>{readToken() === "" ? "Enter token" : "Change token"}</Button>
      <Dialog title="Token" isOpen={isOpen} onClose={() => setOpen(false)}>
        <Form submit="Save" onSubmit={save}>
          <TextField label="Token of this server" type="password" autoComplete="off" value={token} onChange={setToken} />
          <p className="hint">
            The studio sends it as “Authorization: Bearer” and as “X-Api-Key”. It is stored until this tab closes.
          </p>
        </Form>
      </Dialog>
    </>
  );
}
