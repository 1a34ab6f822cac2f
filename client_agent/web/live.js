// The connection to the daemon: requests that are answered, events that come by themselves, and trying again.
//
// First both sides prove that they have the key, without sending it: whatever else may listen at this address, it learns
// nothing from this page and cannot pass for the daemon.

import { words } from "./words.js";

const RETRY_MS = 1000;
const PING_MS = 5000; // a daemon that does not answer for so long is not there
const NO_KEY = 1008;
const waiting = new Map();
const listeners = new Map();
let socket = null;
let requests = 0;
let pinging = null;

export function on(event, listener) {
  listeners.set(event, [...(listeners.get(event) ?? []), listener]);
}

function tell(event, data) {
  for (const listener of listeners.get(event) ?? []) listener(data);
}

export function request(op, args = {}) {
  return new Promise((resolve, reject) => {
    if (socket?.readyState !== WebSocket.OPEN) return reject(new Error(words.link.lost));
    requests += 1;
    waiting.set(requests, { resolve, reject });
    socket.send(JSON.stringify({ id: requests, op, args }));
  });
}

export function connect() {
  const mine = new WebSocket(`ws://${location.host}/live`);
  socket = mine;
  mine.onopen = () => greet(mine).then(begin, (problem) => { if (mine === socket) lose(problem.message, false); });
  mine.onclose = ({ code }) => {
    if (mine === socket) lose(code === NO_KEY ? words.link.noKey : words.link.lost, code !== NO_KEY);
  };
}

async function greet(mine) {
  const nonce = random();
  const reply = new Promise((resolve) => { mine.onmessage = ({ data }) => resolve(JSON.parse(data)); });
  mine.send(JSON.stringify({ nonce }));
  const theirs = await reply;
  if (theirs.proof !== await prove("daemon", nonce, theirs.nonce)) throw new Error(words.link.impostor);
  mine.onmessage = receive;
  mine.send(JSON.stringify({ proof: await prove("page", nonce, theirs.nonce) }));
}

async function begin() {
  try {
    tell("standing", await request("watch"));
    keepAsking();
  } catch { /* closed again: `onclose` says so */ }
}

function receive({ data }) {
  const message = JSON.parse(data);
  if (message.event) return tell(message.event, message.data);
  const { resolve, reject } = waiting.get(message.id) ?? {};
  waiting.delete(message.id);
  if (message.error) reject?.(Object.assign(new Error(message.error.message), { code: message.error.code }));
  else resolve?.(message.result);
}

function lose(why, tryAgain) {
  clearInterval(pinging);
  const lost = socket;
  socket = null;
  lost.onclose = lost.onmessage = null;
  lost.close();
  for (const { reject } of waiting.values()) reject(new Error(words.link.lost));
  waiting.clear();
  tell("lost", why);
  if (tryAgain) setTimeout(connect, RETRY_MS);
}

// A connection can be open and nobody behind it: only an answer says that the daemon is there.
function keepAsking() {
  let answered = true;
  pinging = setInterval(() => {
    if (!answered) return lose(words.link.lost, true);
    answered = false;
    request("ping").then(() => { answered = true; }, () => {});
  }, PING_MS);
}

const hex = (bytes) => [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const random = () => hex(crypto.getRandomValues(new Uint8Array(16)));

async function prove(who, theirs, ours) {
  const text = new TextEncoder();
  const secret = sessionStorage.getItem("key");
  if (!secret) throw new Error(words.link.noKey);
  const key = await crypto.subtle.importKey("raw", text.encode(secret), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return hex(await crypto.subtle.sign("HMAC", key, text.encode(`${who} ${theirs} ${ours}`)));
}
