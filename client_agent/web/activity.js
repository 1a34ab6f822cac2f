// What happened: a plot over time, filters, and the calls themselves, new ones as they come, with what they write.

import { find, h } from "./dom.js";
import { keyOf, Row } from "./call.js";
import { request } from "./live.js";
import { drawPlot } from "./plot.js";
import { isShown } from "./views.js";
import { words } from "./words.js";

const say = words.activity;
const PAGE = 100;
const MAX_ROWS = 1000;
const STALE_MS = 1500;
const TYPING_MS = 150;
const rows = new Map(); // by key, newest first, as they are on the screen
let minutes = 60;
let stale = null;
let typing = null;

const filters = find("filters");
const select = (name, label, options) =>
  h("label", {}, label, h("select", { name }, h("option", { value: "" }, say.all), options.map(([value, text]) => h("option", { value }, text))));
const same = (names) => names.map((name) => [name, name]);

// Once it is known which tools and workspaces there are.
export function prepare(tools, workspaces) {
  if (!filters.firstChild) filters.append(
    h("label", {}, say.text, h("input", { name: "text", type: "search", placeholder: say.textHint, autocomplete: "off" })),
    select("outcome", say.outcome, Object.entries(say.outcomes)), select("risk", say.risk, Object.entries(words.risk)), select("tool", say.tool, same(tools)),
    ...(workspaces.length > 1 ? [select("workspace", say.workspace, same(workspaces))] : []));
  if (isShown("activity")) refresh();
}
filters.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(refresh, TYPING_MS);
});
filters.addEventListener("submit", (event) => event.preventDefault());

const look = () => Object.fromEntries([...new FormData(filters)].filter(([, value]) => value !== ""));
const isFiltered = () => Object.keys(look()).length > 0;

export async function refresh() {
  const asked = JSON.stringify(look());
  try {
    const [{ calls, more }, plot] = await Promise.all([
      request("activity.list", { ...look(), limit: PAGE }), request("activity.plot", { minutes })]);
    if (asked !== JSON.stringify(look())) return;
    drawPlot(find("plot"), plot, minutes, (chosen) => { minutes = chosen; refresh(); });
    show(calls, more);
  } catch { /* not connected yet: it is asked again when the daemon is back */ }
}

async function showOlder() {
  const last = [...rows.values()].at(-1);
  const { calls, more } = await request("activity.list", { ...look(), limit: PAGE, before: last.call.at });
  for (const call of calls) update(call);
  arrange(more);
}

function show(calls, more) {
  const before = new Map(rows);
  rows.clear();
  for (const call of calls) {
    const key = keyOf(call);
    rows.set(key, before.get(key) ?? new Row());
    rows.get(key).update(call);
  }
  arrange(more);
}

function update(call) {
  const key = keyOf(call);
  if (!rows.has(key)) rows.set(key, new Row());
  rows.get(key).update(call);
}

function arrange(more) {
  const place = find("activity");
  if (!rows.size) return place.replaceChildren(h("p", { class: "empty" }, isFiltered() ? say.noneFiltered : say.none));
  const list = place.querySelector("ol") ?? h("ol", { class: "calls" });
  const wanted = [...rows.values()].map((row) => row.element);
  if (wanted.length !== list.children.length || wanted.some((element, i) => list.children[i] !== element)) list.replaceChildren(...wanted);
  place.replaceChildren(list, more ? h("button", { type: "button", onclick: () => showOlder().catch(() => {}) }, say.older) : "");
}

// Calls as they come. With filters, or on another view, the journal is asked when it is time.
export function add(calls) {
  if (!isShown("activity")) return;
  if (!isFiltered()) {
    for (const call of calls) addOne(call);
    find("activity").querySelector(".empty")?.remove();
  }
  stale ??= setTimeout(() => { stale = null; refresh(); }, STALE_MS);
}

function addOne(call) {
  const key = keyOf(call);
  if (rows.has(key)) return rows.get(key).update(call);
  const row = new Row();
  row.update({ at: Date.now() / 1000, facts: [], ...call });
  const known = [...rows];
  rows.clear();
  for (const [each, value] of [[key, row], ...known].slice(0, MAX_ROWS)) rows.set(each, value);
  const list = find("activity").querySelector("ol");
  if (list) list.prepend(row.element);
  else arrange(false);
}

export function addOutput(pieces) {
  for (const piece of pieces) Row.keepOutput(piece);
}
