// A rule as it is written, with what it would have matched.

import { h } from "./dom.js";
import { request } from "./live.js";
import { words } from "./words.js";

const say = words.rules;
const PREVIEW_MS = 120; // while somebody types

// For a rule that is there, or for the beginnings of a new one. `leave` is called when it is done with.
export function drawForm(rule, leave) {
  const text = ([name, [label, hint]]) =>
    h("label", {}, label, h("input", { name, type: "text", value: rule[name] ?? "", placeholder: hint, maxlength: "1000", autocomplete: "off" }));
  const choice = (name, options, value) => {
    const element = h("select", { name }, options.map(([key, word]) => h("option", { value: key }, word)));
    element.value = value;
    return element;
  };
  const approve = choice("auto_approve", [["false", say.doesAsk], ["true", say.doesRun]], String(rule.auto_approve ?? false));
  const risk = choice("max_risk", Object.entries(words.risk), rule.max_risk ?? "MEDIUM");
  const parts = { preview: h("div", { class: "preview", "aria-live": "polite" }), warning: h("p", { class: "warning", hidden: true }),
    problem: h("p", { class: "problem", role: "alert" }) };
  const form = h("form", { class: "card form", "aria-label": rule.id ? say.formEdit : say.formNew },
    h("div", { class: "fields" }, h("label", {}, say.does, approve), h("label", {}, say.upTo, risk),
      h("label", {}, say.priorityField, h("input", { name: "priority", type: "number", step: "1", value: rule.priority ?? 0 })),
      Object.entries(say.fields).map(text)),
    parts.warning, parts.preview, parts.problem,
    h("div", { class: "tools" },
      h("button", { type: "submit", class: "primary" }, rule.id ? say.save : say.create),
      h("button", { type: "button", onclick: () => leave(rule) }, words.cancel)));
  const look = () => {
    risk.disabled = approve.value === "false"; // a rule that asks, asks at every risk
    warn(form, parts.warning);
    showPreview(form, rule, parts);
  };
  let pending = null;
  form.addEventListener("input", () => {
    clearTimeout(pending);
    pending = setTimeout(look, PREVIEW_MS);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form, rule, parts.problem, leave);
  });
  look();
  return form;
}

async function send(form, rule, problem, leave) {
  try {
    if (rule.id) await request("rules.edit", { id: rule.id, rule: read(form, rule) });
    else await request("rules.add", { rule: read(form, rule) });
    leave(rule);
  } catch (error) {
    problem.textContent = error.message;
  }
}

function read(form, rule) {
  const data = Object.fromEntries(new FormData(form));
  return { ...data, auto_approve: data.auto_approve === "true", priority: Number(data.priority || 0), expires_at: rule.expires_at ?? null };
}

function warn(form, warning) {
  const rule = read(form, {});
  const wide = !rule.server_id && !rule.tool_name && !rule.tool_pattern && !rule.argument_pattern;
  const text = [rule.auto_approve && wide ? say.wide : "", rule.auto_approve && rule.max_risk === "HIGH" ? say.high : ""].filter(Boolean).join(" ");
  warning.hidden = !text;
  warning.textContent = text;
}

async function showPreview(form, rule, { preview, problem }) {
  const draft = read(form, rule);
  const asked = form.dataset.asked = JSON.stringify(draft);
  try {
    const told = await request("rules.preview", { rule: draft });
    if (form.dataset.asked !== asked) return;
    problem.textContent = "";
    preview.replaceChildren(
      h("p", {}, say.preview(told.recorded, told.matches), told.too_risky ? say.tooRisky(told.too_risky) : "", "."),
      told.examples.length ? h("ul", {}, told.examples.map((example) => h("li", {}, h("code", {}, example))),
        told.more ? h("li", { class: "hint" }, say.others(told.more)) : null) : "");
  } catch (error) {
    if (form.dataset.asked !== asked) return;
    problem.textContent = error.message;
    preview.replaceChildren();
  }
}
