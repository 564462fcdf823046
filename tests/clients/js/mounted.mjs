// Mount a React hook in a document of jsdom, and wait for what it shows.

import { JSDOM } from "jsdom";

import { inTime } from "./scenarios.mjs";

const { window } = new JSDOM("<!doctype html><body></body>", { url: "http://localhost:3000/", pretendToBeVisual: true });
for (const name of ["window", "document", "navigator", "sessionStorage"]) {
  Object.defineProperty(globalThis, name, { value: name === "window" ? window : window[name], configurable: true });
}

// React looks for the document when it is loaded.
const { createElement, useEffect } = await import("react");
const { createRoot } = await import("react-dom/client");

/** Mount `useHook()`; `shown()` gives what it returned last, `until(test)` waits for a rendering that passes.
 *  `read` names what the component uses of it: useStream asks the server for no more than that. */
export function mount(useHook, read = (given) => given.messages) {
  let last;
  const waiting = new Set();
  function Component() {
    const given = useHook();
    read(given);
    useEffect(() => {
      last = given;
      for (const look of waiting) look();
    });
    return null;
  }
  const root = createRoot(document.createElement("div"));
  root.render(createElement(Component));
  const until = (test) => {
    let look;
    const passed = new Promise((resolve) => {
      look = () => last !== undefined && test(last) && resolve(last);
      waiting.add(look);
      look();
    });
    return inTime(`${test}, but ${JSON.stringify(last?.messages)}`, passed, 15_000).finally(() => waiting.delete(look));
  };
  return { until, shown: () => last, unmount: () => root.unmount() };
}
