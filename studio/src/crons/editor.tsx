/** Create a cron: a schedule, and the run that it starts. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { CheckBox, submitTo, TextField, useChange } from "../admin/parts";
import { langgraph } from "../client/server";
import { Button } from "../ui/button";
import { JsonEditor } from "../ui/json";
import { ErrorBox } from "../ui/states";

const TIME_ZONES = ["UTC", ...Intl.supportedValuesOf("timeZone")];
const EXAMPLE = { messages: [{ role: "user", content: "What is due today?" }] };

export function CronEditor({ onSaved }: { onSaved: () => void }) {
  const assistants = useQuery({
    queryKey: ["assistants", "all"],
    queryFn: () => langgraph().assistants.search({ limit: 1000, sortBy: "name", sortOrder: "asc" }),
  });
  const [assistantId, setAssistantId] = useState("");
  const [schedule, setSchedule] = useState("0 9 * * *");
  const [timezone, setTimezone] = useState(Intl.DateTimeFormat().resolvedOptions().timeZone);
  const [threadId, setThreadId] = useState("");
  const [isKept, setKept] = useState(false);
  const [input, setInput] = useState<unknown>(EXAMPLE);
  const chosen = assistantId || assistants.data?.[0]?.assistant_id;
  const create = useChange(async () => {
    const payload = { schedule, timezone, input: input as Record<string, unknown> };
    const { crons } = langgraph();
    if (threadId !== "") await crons.createForThread(threadId, chosen ?? "", payload);
    else await crons.create(chosen ?? "", { ...payload, onRunCompleted: isKept ? "keep" : "delete" });
  }, "crons", onSaved);
  return (
    <form className="stack" onSubmit={submitTo(() => create.mutate(undefined))}>
      <label>
        Assistant
        <select value={chosen} onChange={(event) => setAssistantId(event.target.value)}>
          {assistants.data?.map((each) => <option key={each.assistant_id} value={each.assistant_id}>{each.name}</option>)}
        </select>
      </label>
      {assistants.isError && <ErrorBox error={assistants.error} />}
      <div className="form-grid">
        <TextField label="Schedule: minute, hour, day, month, day of week" required className="mono" value={schedule} onChange={setSchedule} />
        <TextField label="Time zone" required list="time-zones" value={timezone} onChange={setTimezone} />
        <datalist id="time-zones">{TIME_ZONES.map((zone) => <option key={zone} value={zone} />)}</datalist>
      </div>
      <TextField label="Thread (empty: a new one for each run)" className="mono" placeholder="Id of a thread" value={threadId} onChange={(text) => setThreadId(text.trim())} />
      {threadId === "" && (
        <CheckBox label="Keep the threads of ended runs" checked={isKept} onChange={setKept} />
      )}
      <JsonEditor label="Input of each run" rows={6} value={EXAMPLE} onChange={setInput} />
      {create.isError && <ErrorBox error={create.error} />}
      <div className="row end">
        <Button kind="primary" type="submit" disabled={create.isPending || input === undefined || chosen === undefined}>Create the cron</Button>
      </div>
    </form>
  );
}
