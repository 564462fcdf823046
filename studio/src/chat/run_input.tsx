/** The input of a run: a message if the graph is a chat, otherwise a form of its schema; both also as JSON. */
import { useState } from "react";

import type { Json } from "../client/json";
import { Button, SchemaInput } from "../ui";
import { Composer, type Content } from "./composer";

interface RunInputProps {
  schema: object | null | undefined;
  isRunning: boolean;
  isBlocked: boolean;
  placeholder: string;
  onRun: (input: Json) => void;
  onStop: () => void;
}

export function isChat(schema: object | null | undefined): boolean {
  return "messages" in ((schema as { properties?: object } | null | undefined)?.properties ?? {});
}

export function messageInput(content: Content, id: string = crypto.randomUUID()): Json {
  return { messages: [{ type: "human", content, id }] };
}

export function RunInput({ schema, isRunning, isBlocked, placeholder, onRun, onStop }: RunInputProps) {
  const [isJson, setJson] = useState(false);
  const hasMessages = isChat(schema);
  if (hasMessages && !isJson) {
    return (
      <Composer isRunning={isRunning} isBlocked={isBlocked} placeholder={placeholder} onStop={onStop}
        onSend={(content) => onRun(messageInput(content))}>
        <Button kind="quiet" onClick={() => setJson(true)}>As JSON</Button>
      </Composer>
    );
  }
  return (
    <div className="run-input">
      <SchemaInput label="Input" submit="Run" isDisabled={isRunning || isBlocked} onSubmit={(input) => onRun(input as Json)}
        {...(hasMessages ? { schema: undefined, value: messageInput("") } : { schema: schema ? { ...schema, title: "", description: "" } : undefined })}
        actions={
          <>
            {hasMessages && <Button kind="quiet" onClick={() => setJson(false)}>As a message</Button>}
            {isRunning && <Button onClick={onStop}>Stop</Button>}
          </>
        } />
    </div>
  );
}
