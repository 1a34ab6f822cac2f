// One question in full: what would happen first, then why it is asked, then everything about it, and the answers.

import { badge, guard, h, headline, left, riskBadge } from "./dom.js";
import { drawDiff } from "./diff.js";
import { beginRule } from "./rules.js";
import { rootOf } from "./status.js";
import { words } from "./words.js";

const say = words.question;
const LIFETIMES_S = ["", 3600, 900]; // how long a wider yes holds; without a word, as long as it can

// `acts` are what can be done: answer(word, scope), everything(), holdFor(seconds), showWhole().
export function drawCard(question, acts) {
  const title = `title-${question.id}`;
  return h("article", { class: `card question ${question.risk.toLowerCase()}`, "aria-labelledby": title, tabindex: "-1", "data-id": question.id },
    h("progress", { class: "time-left", max: question.timeout_s, value: question.seconds_left, "aria-hidden": "true" }),
    h("header", {},
      h("div", {}, riskBadge(question.risk), h("span", { class: "place" }, say.place(question.workspace, rootOf(question.workspace)))),
      h("span", { class: "left", role: "timer", "aria-label": say.timeLeft, "data-until": question.until }, left(question.until))),
    h("h3", { id: title }, headline(question)),
    drawAccess(question),
    question.again ? h("p", { class: "warning" }, say.again) : null,
    question.risk === "HIGH" ? h("p", { class: "warning" }, say.harm) : null,
    drawFacts(question),
    question.change ? drawChange(question, acts) : null,
    drawParameters(question, acts),
    h("p", { class: "hint" }, say.tool(question.tool, question.server), " · ", question.session === null ? say.noSession : say.session(question.session), " · ",
      h("span", { title: say.bindingHint }, say.binding(question.binding.slice(0, 8))), " · ",
      h("button", { type: "button", class: "link", onclick: () => beginRule(question) }, words.rules.make)),
    drawActions(acts),
    drawWider(question, acts));
}

function drawAccess({ network, writes }) {
  return h("p", { class: "access", "aria-label": say.gets },
    badge(writes ? say.writes : say.readsOnly, writes ? "risk-medium" : "good"),
    badge(network ? say.network : say.noNetwork, network ? "risk-high" : "good"));
}

function drawFacts({ facts }) {
  return h("ul", { class: "facts", "aria-label": say.why }, facts.map((fact) => h("li", {}, fact)));
}

function drawParameters({ parameters }, acts) {
  if (!parameters.length) return null;
  const cut = parameters.some((parameter) => parameter.left_out);
  return h("div", { class: "block" }, h("h4", {}, say.parameters),
    h("dl", { class: "parameters" }, parameters.map(({ name, value }) => [h("dt", {}, name), h("dd", {}, h("code", {}, value))])),
    cut ? wholeButton(acts) : null);
}

function drawChange({ change }, acts) {
  return h("div", { class: "block" }, drawDiff(change),
    change.left_out ? h("p", { class: "warning" }, say.notWhole(change.left_out), " ", wholeButton(acts)) : null);
}

function wholeButton(acts) {
  return h("button", { type: "button", onclick: acts.showWhole }, say.showWhole);
}

function drawActions(acts) {
  const reason = h("input", { type: "text", maxlength: "500", id: "reason", placeholder: say.reasonHint, "aria-label": say.reason, autocomplete: "off",
    onkeydown: (event) => { if (event.key === "Enter") acts.answer("reject"); else if (event.key === "Escape") event.target.blur(); } });
  return h("div", { class: "actions" },
    h("div", { class: "first" },
      button("y", say.once, "primary", () => acts.answer("approve")),
      button("n", say.refuse, "danger", () => acts.answer("reject")),
      reason),
    h("p", { class: "problem", id: "problem", role: "alert" }));
}

function drawWider(question, acts) {
  if (!question.grantable) return null;
  return h("div", { class: "wider" },
    button("c", say.ofClass(question.class), "quiet", () => acts.answer("approve", "class")),
    button("a", say.everything, "quiet", acts.everything),
    h("label", { class: "lifetime" }, say.holdsFor, " ",
      h("select", { id: "lifetime", "aria-keyshortcuts": "t", onchange: (event) => acts.holdFor(event.target.value) },
        LIFETIMES_S.map((seconds) => h("option", { value: seconds, selected: String(seconds) === acts.lifetime }, say.lifetimes[seconds]))),
      h("kbd", { "aria-hidden": "true" }, "t")));
}

function button(key, text, kind, act) {
  return guard(h("button", { type: "button", class: kind, "aria-keyshortcuts": key, onclick: act }, text, " ", h("kbd", { "aria-hidden": "true" }, key)));
}
