/** The frame of all pages: navigation, theme, token entry, and one error boundary around the page. */
import { QueryClient, QueryClientProvider, useQueryClient } from "@tanstack/react-query";
import { lazy, StrictMode, Suspense, useEffect, useLayoutEffect, useState } from "react";
import { createRoot } from "react-dom/client";
import { Link, Redirect, Route, Router, Switch, useLocation } from "wouter";

import { errorStatus, readToken, storeToken } from "./client";
import "./styles.css";
import { Button, DialogButton, ErrorBoundary, Form, Loading } from "./ui";

/** Each page is a chunk of its own, loaded when it is opened; a path ends in `/*?` if the page reads the rest itself. */
const PAGES = [
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
  const label = PAGES.find((page) => location.startsWith(page.path))?.label;
  useEffect(() => {
    document.title = `${label === undefined ? "" : `${label} · `}Toolweave Studio`;
    // On narrow screens the links scroll sideways.
    document.querySelector(".sidebar [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [label]);
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
        <ErrorBoundary key={location.split("/")[1]}>
          <Suspense fallback={<Loading />}>
            <Switch>
              {PAGES.map((page) => (
                <Route key={page.path} path={`${page.path}/*?`} component={page.component} />
              ))}
              <Route><Redirect to="/chat" replace /></Route>
            </Switch>
          </Suspense>
        </ErrorBoundary>
      </main>
    </div>
  );
}

const THEME_KEY = "toolweave-studio-theme";

function ThemeButton() {
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const [theme, setTheme] = useState(localStorage.getItem(THEME_KEY) ?? (isDark ? "dark" : "light"));
  const other = theme === "dark" ? "light" : "dark";
  useLayoutEffect(() => {
    document.documentElement.dataset["theme"] = theme;
  }, [theme]);
  const change = () => {
    localStorage.setItem(THEME_KEY, other);
    setTheme(other);
  };
  return <Button kind="quiet" onClick={change}>{other === "dark" ? "Dark" : "Light"} theme</Button>;
}

/** Enter the token that the server's authentication expects; it lives as long as the browser tab. */
function TokenButton() {
  const queries = useQueryClient();
  const [token, setToken] = useState(readToken);
  const save = () => {
    storeToken(token.trim());
    void queries.resetQueries();
  };
  return (
    <DialogButton kind="quiet" title="Token" text={readToken() === "" ? "Enter token" : "Change token"}>
      {(close) => (
        <Form submit="Save" onSubmit={() => { save(); close(); }}>
          <label>
            Token of this server
            <input type="password" autoComplete="off" value={token} onChange={(event) => setToken(event.target.value)} />
          </label>
          <p className="hint">
            The studio sends it as “Authorization: Bearer” and as “X-Api-Key”. It is stored until this tab closes.
          </p>
        </Form>
      )}
    </DialogButton>
  );
}

const base = new URL(document.baseURI).pathname.replace(/\/$/, "");
const queries = new QueryClient({
  defaultOptions: {
    queries: { staleTime: 2000, retry: (count, error) => errorStatus(error) === undefined && count < 2, refetchOnWindowFocus: true },
  },
});
const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no element #root");
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <Router base={base}>
        <App />
      </Router>
    </QueryClientProvider>
  </StrictMode>,
);
