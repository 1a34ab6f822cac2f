// How things stand: connections, pauses, and trouble.

import { find, h, time } from "./dom.js";
import { request } from "./live.js";
import { showSettings } from "./settings.js";
import { words } from "./words.js";

const roots = new Map();

export const rootOf = (workspace) => roots.get(workspace) ?? "";

export function showStatus(status) {
  const links = Object.entries(status.workspaces);
  for (const [name, link] of links) roots.set(name, link.root);
  const states = links.map(([, link]) => link.state);
  const good = states.filter((state) => state === "connected").length;
  const paused = links.filter(([, link]) => link.pause).map(([name]) => name);
  const text = (links.length === 1 ? words.link.one(links[0][0], word(states[0])) : words.link.several(good, links.length)) +
    (paused.length ? words.pause.short : "");
  const open = find("links").open;
  find("links").replaceChildren(
    h("summary", { "aria-label": `${words.link.label}: ${text}` }, dot(paused.length && worst(states) === "good" ? "wait" : worst(states)), text),
    h("div", { class: "card" }, links.map(([name, link]) => drawLink(name, link))));
  find("links").open = open;
  showPauses(status.paused);
  const { problem, pending } = status.configuration;
  showSettings(pending);
  showTrouble(status.journal_trouble ? words.link.journal(status.journal_trouble) : problem ? words.settings.problem(problem)
    : status.dead_posts ? words.link.dead(status.dead_posts) : "");
}

export function showLost(why) {
  find("links").replaceChildren();
  find("pauses").replaceChildren();
  showSettings(null);
  showTrouble(why);
}

const word = (state) => words.link.states[state] ?? state;
const kindOf = (state) => (state === "connected" ? "good" : ["connecting", "retrying"].includes(state) ? "wait" : "bad");
const worst = (states) => ["bad", "wait", "good"].find((kind) => states.some((state) => kindOf(state) === kind)) ?? "wait";
const dot = (kind) => h("span", { class: `dot ${kind}`, "aria-hidden": "true" });

function drawLink(name, link) {
  const pair = (label, value) => (value ? [h("dt", {}, label), h("dd", {}, value)] : []);
  const when = (moment) => (moment ? time(Date.parse(moment) / 1000) : null);
  return h("section", {},
    h("p", {}, dot(kindOf(link.state)), words.link.one(name, word(link.state))),
    drawPause(name, link.pause),
    h("dl", { class: "parameters" },
      pair(words.link.detail, link.detail), pair(words.link.server, link.server), pair(words.link.directory, link.root),
      pair(words.link.since, when(link.since)), pair(words.link.retryAt, when(link.retry_at)),
      pair(words.link.undelivered, link.outbox ? String(link.outbox) : ""), pair(words.link.open, link.calls_open ? String(link.calls_open) : "")));
}

// A paused workspace refuses what it is asked for until somebody lets it go on.
function drawPause(name, pause) {
  const [op, text] = pause ? ["workspaces.resume", words.pause.goOn] : ["workspaces.pause", words.pause.stop];
  return h("div", { class: "tools" }, pause ? h("span", {}, words.pause.paused(pause.note)) : null,
    h("button", { type: "button", class: "quiet", onclick: () => request(op, { workspaces: [name] }).catch(() => {}) }, text));
}

function showPauses(pauses) {
  find("pauses").replaceChildren(...pauses.map((pause) =>
    h("div", { class: "card paused" },
      h("p", {}, words.pause.text(pause.workspace, pause.what)),
      h("button", { type: "button", onclick: () => request("sessions.resume", { workspace: pause.workspace, session_id: pause.session_id }).catch(() => {}) },
        words.pause.resume))));
}

function showTrouble(text) {
  find("trouble").hidden = !text;
  if (find("trouble").textContent !== text) find("trouble").textContent = text;
}
