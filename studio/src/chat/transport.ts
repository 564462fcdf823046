/** How the stream reaches the server. */
import { useMemo, useState } from "react";

/**
 * A browser opens six connections to a server over HTTP/1.1, and a streaming tab holds two: the fourth tab would not even load.
 * WebSockets have no such limit, but carry no token, and a proxy may refuse them: then it is server-sent events.
 */
export function useTransport(token: string) {
  const [isRefused, setRefused] = useState(false);
  return useMemo(() => {
    if (token !== "" || isRefused) return { transport: "sse" as const };
    const webSocketFactory = (address: string) => {
      const socket = new WebSocket(address);
      const refuse = () => setRefused(true);
      socket.addEventListener("error", refuse);
      socket.addEventListener("open", () => socket.removeEventListener("error", refuse));
      return socket;
    };
    return { transport: "websocket" as const, webSocketFactory };
  }, [token, isRefused]);
}
