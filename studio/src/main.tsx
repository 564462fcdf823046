import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Router } from "wouter";

import { App } from "./app";
import { errorStatus } from "./client/server";
import "./styles.css";

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
