// Permission rules: seen, added, changed in place, tried before they are in force, removed after a second thought.

import { badge, confirm, find, h } from "./dom.js";
import { request } from "./live.js";
import { drawForm } from "./ruleform.js";
import { show as showView } from "./views.js";
import { words } from "./words.js";

const say = words.rules;
let editing = null;
let last = { rules: [], presets: [] };

export function show(rules, presets) {
  last = { rules, presets };
  find("presets").replaceChildren(...presets.map((preset) =>
    h("button", { type: "button", "aria-pressed": String(preset.on),
      onclick: () => request("rules.preset", { name: preset.name, on: !preset.on }).catch(() => {}) },
    h("strong", {}, preset.on ? "✓ " : "", preset.name), h("span", { class: "hint" }, preset.title))));
  if (editing === null || !rules.some((rule) => rule.id === editing)) drawRules();
  if (!find("new-rule").firstChild) drawNew();
}

function drawRules() {
  find("rules").replaceChildren(...(last.rules.length
    ? [h("ol", { class: "plain" }, last.rules.map((rule) => h("li", {}, rule.id === editing ? drawForm(rule, leave) : drawRule(rule))))]
    : [h("p", { class: "empty" }, say.none)]));
}

const conditionsOf = (rule) => Object.entries(say.conditions).filter(([name]) => rule[name] !== null).map(([name, word]) => [word, rule[name]]);

function drawRule(rule) {
  const conditions = conditionsOf(rule);
  return h("div", { class: "row card rule", "data-id": rule.id },
    h("div", {},
      badge(say.priority(rule.priority)),
      rule.auto_approve ? badge(say.runs(rule.max_risk), rule.max_risk === "HIGH" ? "risk-high" : "good") : badge(say.asks, "risk-medium"),
      conditions.length ? conditions.map(([word, value]) => badge(`${word}: ${value}`)) : badge(say.everything),
      rule.note ? h("p", { class: "hint" }, rule.note) : null,
      rule.expires_at ? h("p", { class: "hint" }, say.until(new Date(rule.expires_at * 1000).toLocaleString())) : null),
    h("div", { class: "tools" },
      h("button", { type: "button", onclick: () => edit(rule.id) }, say.edit),
      h("button", { type: "button", class: "danger", onclick: () => remove(rule) }, say.remove)));
}

function edit(id) {
  editing = id;
  drawRules();
  find("rules").querySelector("select")?.focus();
}

async function remove(rule) {
  const { title, text, yes, no } = say.sure;
  const what = conditionsOf(rule).map(([word, value]) => `${word}: ${value}`).join(", ") || say.everything;
  if (await confirm({ title, text: text(what), yes, no })) request("rules.remove", { id: rule.id }).catch(() => {});
}

function drawNew() {
  find("new-rule").replaceChildren(h("button", { type: "button", class: "primary", onclick: () => begin() }, say.add));
}

// A rule for calls like this one, to be widened or narrowed before it is saved.
export function beginRule({ kind, tool, target, risk }) {
  showView("rules");
  begin({ auto_approve: true, max_risk: risk, tool_name: kind ?? tool, argument_pattern: target });
}

function begin(draft = {}) {
  find("new-rule").replaceChildren(drawForm(draft, leave));
  find("new-rule").querySelector("select").focus();
}

function leave(rule) {
  if (!rule.id) return drawNew();
  editing = null;
  drawRules();
  find("rules").querySelector(`[data-id="${rule.id}"] button`)?.focus();
}
