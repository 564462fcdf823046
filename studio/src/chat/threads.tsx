/** The list of conversations: newest first, with search and deletion. */
import { useState } from "react";
import { useLocation } from "wouter";

import { useThreads } from "../client/queries";
import { langgraph } from "../client/server";
import { Ago, DeleteButton, Loaded, NavList, SearchField } from "../ui";

const MAX_THREADS = 200;

export function ThreadList({ current, onOpen }: { current: string | undefined; onOpen: () => void }) {
  const threads = useThreads(MAX_THREADS);
  const [text, setText] = useState("");
  const [, navigate] = useLocation();
  const empty = text === "" ? "Threads appear here once you have sent a message." : `No thread contains “${text}”.`;
  return (
    <>
      <SearchField label="Search threads" value={text} onChange={setText} />
      <Loaded query={threads} what="threads">
        {(all) => (
          <NavList label="Threads" limit={MAX_THREADS} empty={empty} onOpen={onOpen} items={all
            .filter(({ title }) => title.toLowerCase().includes(text.trim().toLowerCase()))
            .map(({ id, title, updated, status }) => ({
              href: `/chat/${id}`, title, hint: <Ago time={updated} />, isOpen: id === current,
              ...(status === "idle" ? {} : { status }),
              action: (
                <DeleteButton what={title} kind="quiet" changed={["threads"]} onDelete={() => langgraph().threads.delete(id)}
                  onDone={() => { if (id === current) navigate("/chat"); }}>×</DeleteButton>
              ),
            }))} />
        )}
      </Loaded>
    </>
  );
}
