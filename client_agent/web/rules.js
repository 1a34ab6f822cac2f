// Permission rules: seen, added, changed in place, tried before they are in force, removed after a second thought.

import { badge, find, h } from "./dom.js";
import { request } from "./live.js";

const TEXTS = [
  ["server_id", "Server", "filesystem, shell"],
  ["tool_name", "Tool, exactly", "write_file"],
  ["tool_pattern", "Tool, by pattern", "read_*"],
  ["argument_pattern", "Path or command line", "src/** or git log ..."],
  ["note", "Note", "a name for people"],
];
let editing = null;
let last = { rules: [], presets: [] };

export function show(rules, presets) {
  last = { rules, presets };
  find("presets").replaceChildren(...presets.map((preset) =>
    h("button", { type: "button", "aria-pressed": String(preset.on), title: preset.title,
      onclick: () => request("rules.preset", { name: preset.name, on: !preset.on }) }, preset.on ? "✓ " : "", preset.name)));
  if (editing === null || !rules.some((rule) => rule.id === editing)) drawRules();
  if (!find("new-rule").firstChild) drawNew();
}

function drawRules() {
  find("rules").replaceChildren(...(last.rules.length ? last.rules.map((rule) => rule.id === editing ? drawForm(rule) : drawRule(rule))
    : [h("p", { class: "empty" }, "No rules yet.")]));
}

function drawRule(rule) {
  const conditions = [["server", rule.server_id], ["tool", rule.tool_name], ["tools", rule.tool_pattern], ["arguments", rule.argument_pattern]]
    .filter(([, value]) => value !== null);
  const row = h("div", { class: "row card rule", "data-id": rule.id },
    h("div", {},
      badge(`priority ${rule.priority}`),
      rule.auto_approve ? badge(`runs unasked up to ${rule.max_risk}`, "good") : badge("always asks", "risk-medium"),
      conditions.length ? conditions.map(([name, value]) => badge(`${name}: ${value}`)) : badge("everything"),
      rule.note ? h("p", { class: "hint" }, rule.note) : null,
      rule.expires_at ? h("p", { class: "hint" }, `until ${new Date(rule.expires_at * 1000).toLocaleString()}`) : null),
    h("div", { class: "tools" },
      h("button", { type: "button", onclick: () => { editing = rule.id; drawRules(); find("rules").querySelector("input")?.focus(); } }, "Edit"),
      h("button", { type: "button", class: "danger", onclick: (event) => confirmRemoval(rule, event.target) }, "Delete")));
  return row;
}

function confirmRemoval(rule, button) {
  const again = h("div", { class: "tools", role: "group", "aria-label": "Delete this rule?" },
    h("span", {}, "Delete this rule?"),
    h("button", { type: "button", class: "danger", onclick: () => request("rules.remove", { id: rule.id }) }, "Yes, delete"),
    h("button", { type: "button", onclick: drawRules }, "Keep it"));
  button.parentElement.replaceWith(again);
  again.querySelector("button:last-child").focus();
}

function drawNew() {
  find("new-rule").replaceChildren(h("button", { type: "button", class: "primary", onclick: () => {
    find("new-rule").replaceChildren(drawForm(null));
    find("new-rule").querySelector("input").focus();
  } }, "Add a rule"));
}

function drawForm(rule) {
  const fields = TEXTS.map(([name, label, hint]) =>
    h("label", {}, label, h("input", { name, type: "text", value: rule?.[name] ?? "", placeholder: hint, maxlength: "1000", autocomplete: "off" })));
  const approve = h("select", { name: "auto_approve" },
    h("option", { value: "false" }, "always ask"), h("option", { value: "true" }, "run without asking"));
  approve.value = String(rule?.auto_approve ?? false);
  const risk = h("select", { name: "max_risk" }, ["LOW", "MEDIUM", "HIGH"].map((word) => h("option", { value: word }, word)));
  risk.value = rule?.max_risk ?? "MEDIUM";
  const priority = h("input", { name: "priority", type: "number", step: "1", value: rule?.priority ?? 0 });
  const preview = h("div", { class: "preview", "aria-live": "polite" });
  const problem = h("p", { class: "problem", role: "alert" });
  const form = h("form", { class: "card form", "aria-label": rule ? "Change the rule" : "A new rule" },
    h("div", { class: "fields" }, h("label", {}, "What it does", approve), h("label", {}, "Up to risk", risk), h("label", {}, "Priority", priority), fields),
    preview, problem,
    h("div", { class: "tools" },
      h("button", { type: "submit", class: "primary" }, rule ? "Save" : "Add"),
      h("button", { type: "button", onclick: () => leave(rule) }, "Cancel")));
  form.addEventListener("input", () => showPreview(form, rule, preview, problem));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      if (rule) await request("rules.edit", { id: rule.id, rule: read(form, rule) });
      else await request("rules.add", { rule: read(form, null) });
      leave(rule);
    } catch (error) {
      problem.textContent = error.message;
    }
  });
  showPreview(form, rule, preview, problem);
  return form;
}

function leave(rule) {
  if (!rule) return drawNew();
  editing = null;
  drawRules();
}

function read(form, rule) {
  const data = Object.fromEntries(new FormData(form));
  return { ...data, auto_approve: data.auto_approve === "true", priority: Number(data.priority || 0), expires_at: rule?.expires_at ?? null };
}

async function showPreview(form, rule, place, problem) {
  let told;
  const asked = JSON.stringify(read(form, rule));
  form.dataset.asked = asked;
  try {
    told = await request("rules.preview", { rule: read(form, rule) });
  } catch (error) {
    if (form.dataset.asked === asked) {
      problem.textContent = error.message;
      place.replaceChildren();
    }
    return;
  }
  if (form.dataset.asked !== asked) return;
  problem.textContent = "";
  place.replaceChildren(
    h("p", {}, `Of the last ${told.recorded} calls it matches ${told.matches}`,
      told.too_risky ? `; ${told.too_risky} of them are riskier than it approves, and would still ask` : "", "."),
    told.examples.length ? h("ul", {}, told.examples.map((example) => h("li", {}, h("code", {}, example))),
      told.more ? h("li", { class: "hint" }, `and ${told.more} others`) : null) : "");
}
