/** The sandboxed frame of an app, and the questions that its page may put to the user. */
import { useQuery } from "@tanstack/react-query";
import { useContext, useEffect, useRef, useState } from "react";

import { Button, Dialog, JsonView, Loaded } from "../ui";
import { type AppProps, ChatContext } from "./app";
import { connect, hostContext, htmlOf, MAX_HEIGHT, type Question, readPage } from "./bridge";
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
      {open && <QuestionDialog server={props.server} {...open} />}
    </>
  );
}

const TITLES = { link: "Open this link?", message: "Send this message?", tool: "Allow this call?" };

function QuestionDialog({ server, question, answer }: OpenQuestion & { server: string }) {
  const chat = useContext(ChatContext);
  const accept = () => {
    if (question.kind === "message") chat?.send(question.text);
    answer(true);
  };
  return (
    <Dialog title={TITLES[question.kind]} isOpen onClose={() => answer(false)}>
      {question.kind === "link" && <p>The app of {server} wants to open <code className="app-text">{question.url}</code> in a new tab.</p>}
      {question.kind === "message" && <>
        <p>The app of {server} wants to write as you:</p>
        <blockquote className="app-text">{question.text}</blockquote>
      </>}
      {question.kind === "tool" && <>
        <p>The app of {server} wants to call <code>{question.name}</code>, which needs your approval.</p>
        <JsonView value={question.args} label="Arguments" />
      </>}
      <div className="row end">
        <Button onClick={() => answer(false)}>{question.kind === "tool" ? "Do not allow" : "Cancel"}</Button>
        {question.kind === "link"
          ? <a className="button primary" href={question.url} target="_blank" rel="noopener noreferrer" onClick={accept}>Open</a>
          : <Button kind="primary" disabled={question.kind === "message" && chat?.isBusy !== false} onClick={accept}>
              {question.kind === "tool" ? "Allow once" : "Send"}
            </Button>}
      </div>
    </Dialog>
  );
}
