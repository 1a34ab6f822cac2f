// The connection to the daemon: requests that are answered, events that come by themselves, and trying again.

const RETRY_MS = 1000;
const waiting = new Map();
const listeners = new Map();
let socket = null;
let requests = 0;

export function on(event, listener) {
  listeners.set(event, [...(listeners.get(event) ?? []), listener]);
}

function tell(event, data) {
  for (const listener of listeners.get(event) ?? []) listener(data);
}

export function request(op, args = {}) {
  return new Promise((resolve, reject) => {
    if (socket?.readyState !== WebSocket.OPEN) return reject(new Error("the daemon does not answer"));
    requests += 1;
    waiting.set(requests, { resolve, reject });
    socket.send(JSON.stringify({ id: requests, op, args }));
  });
}

export function connect() {
  socket = new WebSocket(`ws://${location.host}/live`);
  socket.onopen = async () => {
    socket.send(sessionStorage.getItem("key") ?? "");
    try {
      tell("standing", await request("watch"));
    } catch { /* closed again: `onclose` says so */ }
  };
  socket.onmessage = ({ data }) => {
    const message = JSON.parse(data);
    if (message.event) return tell(message.event, message.data);
    const { resolve, reject } = waiting.get(message.id) ?? {};
    waiting.delete(message.id);
    if (message.error) reject?.(new Error(message.error.message));
    else resolve?.(message.result);
  };
  socket.onclose = ({ code }) => {
    for (const { reject } of waiting.values()) reject(new Error("the daemon does not answer"));
    waiting.clear();
    tell("lost", code === 1008 ? "This tab has no key. Run “client-agent ui” to open the page anew." : null);
    if (code !== 1008) setTimeout(connect, RETRY_MS);
  };
}
