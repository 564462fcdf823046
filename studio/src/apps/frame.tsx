/** The sandboxed frame of an app: what its page gets, what it may request, and the questions that it may put to the user. */
import type { CallToolResult, ReadResourceResult } from "@modelcontextprotocol/client";
import {
  AppBridge, isToolVisibilityModelOnly, type McpUiHostContext, type McpUiStyles, PostMessageTransport,
} from "@modelcontextprotocol/ext-apps/app-bridge";
import { useQuery } from "@tanstack/react-query";
import { useContext, useEffect, useRef, useState } from "react";

import { request } from "../client";
import type { ServerDetails } from "../pages/servers";
import { Button, Dialog, JsonView, Loaded, path } from "../ui";
import { type AppProps, ChatContext } from "./app";
import "./apps.css";

const MIN_HEIGHT = 40;

export default function AppFrame(props: AppProps) {
  const { server, uri } = props;
  const queryFn = async () => htmlOf(await readPage(server, uri));
  const page = useQuery({ queryKey: ["app", server, uri], queryFn, staleTime: Infinity, retry: false });
  return (
    <section className="app" aria-label={`App of ${server}`}>
      <Loaded query={page} what="the app">{(html) => <Frame html={html} {...props} />}</Loaded>
    </section>
  );
}

interface Question {
  title: string;
  content: React.ReactNode;
  /** What the button says that allows it. */
  accept: string;
  refuse?: string;
  url?: string;
  message?: string;
}

interface OpenQuestion {
  question: Question;
  answer: (isAllowed: boolean) => void;
}

function Frame({ html, ...props }: AppProps & { html: string }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const [height, setHeight] = useState(200);
  const [open, setOpen] = useState<OpenQuestion>();
  const isInChat = useContext(ChatContext) !== undefined;
  const first = useRef(props);
  useEffect(() => {
    const target = frame.current?.contentWindow;
    if (!target) return;
    let isAsking = false;
    // One question at a time: a page cannot cover the screen with dialogs.
    const ask = (question: Question) => isAsking ? Promise.resolve(false) : new Promise<boolean>((resolve) => {
      isAsking = true;
      setOpen({ question, answer: (isAllowed) => {
        isAsking = false;
        setOpen(undefined);
        resolve(isAllowed);
      } });
    });
    const bridge = connect(target, html, first.current, isInChat, ask);
    bridge.addEventListener("sizechange", ({ height: wanted = MIN_HEIGHT }) => setHeight(Math.min(Math.max(wanted, MIN_HEIGHT), MAX_HEIGHT)));
    const theme = new MutationObserver(() => bridge.setHostContext(hostContext()));
    theme.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => {
      theme.disconnect();
      void bridge.close();
    };
  }, [html, isInChat]);
  return (
    <>
      <iframe ref={frame} src="sandbox.html" sandbox="allow-scripts allow-forms" title={`App of ${props.server}`} style={{ height }} />
      {open && <QuestionDialog {...open} />}
    </>
  );
}

function QuestionDialog({ question: { title, content, accept, refuse = "Cancel", url, message }, answer }: OpenQuestion) {
  const chat = useContext(ChatContext);
  const onAccept = () => {
    if (message !== undefined) chat?.send(message);
    answer(true);
  };
  return (
    <Dialog title={title} isOpen onClose={() => answer(false)}>
      {content}
      <div className="row end">
        <Button onClick={() => answer(false)}>{refuse}</Button>
        {url === undefined
          ? <Button kind="primary" disabled={message !== undefined && chat?.isBusy !== false} onClick={onAccept}>{accept}</Button>
          : <a className="button primary" href={url} target="_blank" rel="noopener noreferrer" onClick={onAccept}>{accept}</a>}
      </div>
    </Dialog>
  );
}

const MAX_HEIGHT = 800;

/** A question to the user; it is answered with true only after a click. */
type Ask = (question: Question) => Promise<boolean>;

function readPage(server: string, uri: string): Promise<ReadResourceResult> {
  return request(`/servers${path(server)}/resources/read`, { json: { uri } });
}

/** The page's HTML; servers send it as text or as base64 of UTF-8. */
function htmlOf({ contents: [page] }: ReadResourceResult): string {
  if (page === undefined) throw new Error("The server sent an empty resource instead of the app’s page.");
  if ("text" in page) return page.text;
  return new TextDecoder().decode(Uint8Array.from(atob(page.blob), (char) => char.charCodeAt(0)));
}

/** Connect to the frame; `html` is sent once the sandbox is ready, the tool's input and result once the app is. */
function connect(frame: Window, html: string, { server, input, result }: AppProps, canChat: boolean, ask: Ask): AppBridge {
  const capabilities = { openLinks: {}, serverTools: {}, serverResources: {}, ...(canChat ? { message: { text: {} } } : {}) };
  const bridge = new AppBridge(null, { name: "Toolweave studio", version: "1" }, capabilities, { hostContext: hostContext() });
  bridge.addEventListener("sandboxready", () => void bridge.sendSandboxResourceReady({ html }));
  bridge.addEventListener("initialized", () => {
    void bridge.sendToolInput({ arguments: input as Record<string, unknown> });
    void bridge.sendToolResult(result as CallToolResult);
  });
  bridge.oncalltool = async ({ name, arguments: args = {} }) => {
    const { offers } = await request<ServerDetails>(`/servers${path(server)}`);
    const tool = offers.find((offer) => offer.own_name === name);
    if (tool === undefined || isToolVisibilityModelOnly({ _meta: tool._meta ?? {} })) throw new Error(`There is no tool ${name} for apps.`);
    const content = (
      <>
        <p>The app of {server} wants to call <code>{name}</code>, which needs your approval.</p>
        <JsonView value={args} label="Arguments" />
      </>
    );
    const question = { title: "Allow this call?", content, accept: "Allow once", refuse: "Do not allow" };
    if (tool.requires_approval && !(await ask(question))) throw new Error(`The user did not allow ${name}.`);
    const json = { tool: name, arguments: args };
    return (await request<{ result: CallToolResult }>(`/servers${path(server)}/call`, { json })).result;
  };
  bridge.onreadresource = ({ uri }) => readPage(server, uri);
  bridge.onopenlink = async ({ url }) => {
    const content = <p>The app of {server} wants to open <code className="prose">{url}</code> in a new tab.</p>;
    const isWeb = /^https?:$/.test(URL.parse(url)?.protocol ?? "");
    return { isError: !isWeb || !(await ask({ title: "Open this link?", content, accept: "Open", url })) };
  };
  bridge.onmessage = async ({ content: blocks }) => {
    const text = blocks.map((block) => (block.type === "text" ? block.text : "")).join("\n").trim();
    const content = <><p>The app of {server} wants to write as you:</p><blockquote className="prose">{text}</blockquote></>;
    const question = { title: "Send this message?", content, accept: "Send", message: text };
    return { isError: !canChat || text === "" || !(await ask(question)) };
  };
  bridge.onrequestdisplaymode = () => Promise.resolve({ mode: "inline" });
  void bridge.connect(new PostMessageTransport(frame, frame));
  return bridge;
}

const VARIABLES = {
  "--color-background-primary": "--bg", "--color-background-secondary": "--raised", "--color-background-tertiary": "--hover",
  "--color-text-primary": "--text", "--color-text-secondary": "--muted", "--color-border-primary": "--line",
  "--color-ring-primary": "--accent", "--font-mono": "--mono", "--border-radius-md": "--radius",
};

/** Theme, colours and place of the frame, as they are now. */
function hostContext(): McpUiHostContext {
  const style = getComputedStyle(document.documentElement);
  const variables = Object.fromEntries(Object.entries(VARIABLES).map(([name, own]) => [name, style.getPropertyValue(own)]));
  return {
    theme: document.documentElement.dataset["theme"] === "dark" ? "dark" : "light",
    styles: { variables: { ...variables, "--font-sans": "system-ui, sans-serif" } as McpUiStyles },
    displayMode: "inline", availableDisplayModes: ["inline"], containerDimensions: { maxHeight: MAX_HEIGHT },
    locale: navigator.language, timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone, platform: "web",
  };
}
