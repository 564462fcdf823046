/** The app of a tool (MCP Apps): its server's own page, in a sandboxed frame below the tool's result. */
import { createContext, lazy, Suspense } from "react";

import type { ChatMessage } from "../chat/messages";
import type { CallAnswer } from "../pages/servers";
import { ErrorBoundary, Loading } from "../ui";
import { blocksOf, mimeTypeOf } from "../ui/content";

const AppFrame = lazy(() => import("./frame"));

export interface AppProps {
  server: string;
  /** The `ui://` address of the page. */
  uri: string;
  input: unknown;
  result: CallAnswer["result"];
}

/** The open thread, which takes no message while it is busy; undefined outside of the chat. */
export const ChatContext = createContext<{ send: (text: string) => void; isBusy: boolean } | undefined>(undefined);

/** The result in a tool message in the form of MCP; the message has no `_meta`, and only the shown part of a long text. */
export function resultOf({ content, artifact, status }: ChatMessage): CallAnswer["result"] {
  const structured = (artifact as { structured_content?: unknown } | null | undefined)?.structured_content;
  const blocks = blocksOf(content).map(({ type, text = "", ...rest }) =>
    type === "image" ? { type, data: String(rest["base64"]), mimeType: mimeTypeOf({ type, ...rest }) } : { type: "text", text });
  return { content: blocks, isError: status === "error", ...(structured === undefined ? {} : { structuredContent: structured }) };
}

export function App(props: AppProps) {
  return (
    <ErrorBoundary>
      <Suspense fallback={<Loading what="the app" />}><AppFrame {...props} /></Suspense>
    </ErrorBoundary>
  );
}
