// A TCP proxy that cuts its connections in the middle: without a goodbye, as a network does.

import net from "node:net";
import { once } from "node:events";

/** Open a proxy of the server at `url`; `cut()` ends what is connected now, later connections are served;
 *  between `goDown()` and `comeBack()` each connection is refused. What `cut()` gives is a promise: the first bytes that the server sends through a later connection. */
export async function cuttingProxy(url) {
  const { hostname, port } = new URL(url);
  const open = new Set();
  let onAnswer = () => {};
  let isDown = false;
  const server = net.createServer((here) => {
    if (isDown) return here.resetAndDestroy();
    const there = net.connect(Number(port), hostname);
    there.once("data", (bytes) => onAnswer(bytes));
    for (const [from, to] of [[here, there], [there, here]]) {
      open.add(from);
      from.on("error", () => to.destroy());
      from.on("close", () => open.delete(from));
      from.pipe(to);
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const cutAll = () => {
    for (const socket of open) socket.resetAndDestroy();
  };
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    cut: () => {
      cutAll();
      return new Promise((resolve) => {
        onAnswer = resolve;
      });
    },
    goDown: () => {
      isDown = true;
      cutAll();
    },
    comeBack: () => {
      isDown = false;
    },
    close: () => server.close(),
  };
}
