/** The host's side of an app: what its page gets, and what it may ask for. */
import {
  AppBridge, isToolVisibilityModelOnly, type McpUiHostContext, type McpUiStyles, PostMessageTransport,
} from "@modelcontextprotocol/ext-apps/app-bridge";
import type { CallToolResult, ReadResourceResult } from "@modelcontextprotocol/client";

import { request } from "../client/server";
import type { ServerDetails } from "../servers/types";
import { path } from "../ui";
import type { AppProps } from "./app";

export const MAX_HEIGHT = 800;

/** A question to the user; it is answered with true only after a click. */
export type Question =
  | { kind: "link"; url: string }
  | { kind: "message"; text: string }
  | { kind: "tool"; name: string; args: unknown };

export type Ask = (question: Question) => Promise<boolean>;

export function readPage(server: string, uri: string): Promise<ReadResourceResult> {
  return request(`/servers${path(server)}/resources/read`, { method: "POST", json: { uri } });
}

/** The page's HTML; servers send it as text or as base64 of UTF-8. */
export function htmlOf({ contents: [page] }: ReadResourceResult): string {
  if (page === undefined) throw new Error("The server sent an empty resource instead of the app’s page.");
  if ("text" in page) return page.text;
  return new TextDecoder().decode(Uint8Array.from(atob(page.blob), (char) => char.charCodeAt(0)));
}

/** Connect to the frame; `html` is sent once the sandbox is ready, the tool's input and result once the app is. */
export function connect(frame: Window, html: string, { server, input, result }: AppProps, canChat: boolean, ask: Ask): AppBridge {
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
    if (tool.requires_approval && !(await ask({ kind: "tool", name, args }))) throw new Error(`The user did not allow ${name}.`);
    const json = { tool: name, arguments: args };
    return (await request<{ result: CallToolResult }>(`/servers${path(server)}/call`, { method: "POST", json })).result;
  };
  bridge.onreadresource = ({ uri }) => readPage(server, uri);
  bridge.onopenlink = async ({ url }) => ({
    isError: !/^https?:$/.test(URL.parse(url)?.protocol ?? "") || !(await ask({ kind: "link", url })),
  });
  bridge.onmessage = async ({ content }) => {
    const text = content.map((block) => (block.type === "text" ? block.text : "")).join("\n").trim();
    return { isError: !canChat || text === "" || !(await ask({ kind: "message", text })) };
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
export function hostContext(): McpUiHostContext {
  const style = getComputedStyle(document.documentElement);
  const variables = Object.fromEntries(Object.entries(VARIABLES).map(([name, own]) => [name, style.getPropertyValue(own)]));
  return {
    theme: document.documentElement.dataset["theme"] === "dark" ? "dark" : "light",
    styles: { variables: { ...variables, "--font-sans": "system-ui, sans-serif" } as McpUiStyles },
    displayMode: "inline", availableDisplayModes: ["inline"], containerDimensions: { maxHeight: MAX_HEIGHT },
    locale: navigator.language, timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone, platform: "web",
  };
}
