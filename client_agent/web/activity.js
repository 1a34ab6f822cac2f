// What happened: a plot over time, filters, and the calls themselves, new ones as they come.

import { badge, find, h, riskBadge, time } from "./dom.js";
import { request } from "./live.js";
import { drawPlot } from "./plot.js";

const MAX_ROWS = 200;
const STATES = { COMPLETED: ["ran", "good"], FAILED: ["failed", "risk-high"], REJECTED: ["refused by you", "risk-medium"], TIMEOUT: ["no answer in time", "risk-medium"],
  AWAITING_APPROVAL: ["asks", ""], APPROVED: ["allowed", ""], EXECUTING: ["running", ""], PENDING: ["decided", ""] };
let rows = new Map();
let stale = null;

const filters = find("filters");
const select = (name, label, options) =>
  h("label", {}, label, h("select", { name }, h("option", { value: "" }, "all"), options.map(([value, text]) => h("option", { value }, text))));
filters.append(
  h("label", {}, "Text", h("input", { name: "text", type: "search", placeholder: "path, command, id" })),
  select("outcome", "Outcome", [["ran", "ran"], ["failed", "failed"], ["refused", "refused by policy"], ["rejected", "refused by you"], ["open", "open"]]),
  select("risk", "Risk", [["LOW", "LOW"], ["MEDIUM", "MEDIUM"], ["HIGH", "HIGH"]]),
  select("tool", "Tool", ["read_file", "write_file", "list_directory", "execute_command"].map((name) => [name, name])));
filters.addEventListener("input", refresh);
filters.addEventListener("submit", (event) => event.preventDefault());

function look() {
  return Object.fromEntries([...new FormData(filters)].filter(([, value]) => value !== ""));
}

export async function refresh() {
  try {
    const [{ calls }, plot] = await Promise.all([request("activity.list", look()), request("activity.plot", { minutes: 60 })]);
    rows = new Map(calls.map((call) => [`${call.workspace} ${call.tool_id}`, call]));
    draw();
    drawPlot(find("plot"), plot);
  } catch { /* not connected yet: it is asked again when the view is shown */ }
}

export function add(calls) {
  if (find("activity").closest("section").hidden) return;
  if (Object.keys(look()).length) return later();
  for (const call of calls) {
    const key = `${call.workspace} ${call.tool_id}`;
    const known = rows.get(key);
    if (known) Object.assign(known, call);
    else rows = new Map([[key, { at: Date.now() / 1000, facts: [], ...call }], ...rows].slice(0, MAX_ROWS));
  }
  draw();
  later();
}

function later() {
  stale ??= setTimeout(() => { stale = null; refresh(); }, 1500);
}

function draw() {
  const list = [...rows.values()];
  find("activity").replaceChildren(list.length
    ? h("ol", { class: "calls" }, list.map(drawCall))
    : h("p", { class: "empty" }, "No calls."));
}

function drawCall(call) {
  const [word, kind] = call.state === "FAILED" && call.verdict === "refuse" ? ["refused by policy", "risk-medium"] : STATES[call.state] ?? [call.state, ""];
  return h("li", {}, h("details", {},
    h("summary", {}, time(call.at), badge(word, kind), riskBadge(call.risk), h("span", { class: "what" }, `${call.tool} ${call.target}`)),
    h("dl", { class: "parameters" },
      pair("decision", `${call.verdict ?? "–"} (${call.code ?? "–"})`),
      pair("facts", (call.facts ?? []).join("; ")),
      pair("answered by", call.approver), pair("rule", call.rule_id), pair("grant", call.grant_id), pair("failure", call.failure),
      pair("took", typeof call.took_s === "number" ? `${(call.took_s * 1000).toFixed(1)} ms` : null),
      pair("parameters, masked", call.parameters), pair("call", call.tool_id), pair("workspace", call.workspace))));
}

function pair(name, value) {
  return value ? [h("dt", {}, name), h("dd", {}, h("code", {}, value))] : [];
}
