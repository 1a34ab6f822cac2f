// Open questions: the oldest in full, the others as a line each.

import { badge, find, h, riskBadge, say } from "./dom.js";
import { request } from "./live.js";

const TOO_SOON_MS = 350; // a key or click on its way before the question could be read is no answer to it
const MAX_LINES = 50;
const open_ = new Map();
let chosen = null;
let shownAt = 0;
let warned = false;

export function reset(list) {
  open_.clear();
  for (const question of list) keep(question);
  draw();
}

export function open(question) {
  keep(question);
  say(`New question, ${question.risk} risk: ${question.tool} ${question.target}`);
  draw();
}

export function close({ id, outcome, by }) {
  const question = open_.get(id);
  if (!question) return;
  open_.delete(id);
  const word = { approved: "allowed", rejected: "refused", timed_out: "time is over", withdrawn: "withdrawn" }[outcome] ?? outcome;
  say(`${question.tool} ${question.target}: ${word}${by && by !== "page" ? ` (${by})` : ""}`);
  draw();
}

function keep(question) {
  open_.set(question.id, { ...question, until: Date.now() + question.seconds_left * 1000 });
}

const current = () => open_.get(chosen);

function draw() {
  find("count").hidden = open_.size === 0;
  find("count").textContent = open_.size;
  document.title = open_.size ? `(${open_.size}) client-agent` : "client-agent";
  const before = chosen;
  if (!open_.has(chosen)) chosen = open_.keys().next().value ?? null;
  const place = find("questions");
  if (chosen === null) {
    place.replaceChildren(h("div", { class: "empty" }, h("p", {}, "Nothing to answer."),
      h("p", { class: "hint" }, "Questions appear here as agents ask for something that needs your word.")));
    return;
  }
  const card = before === chosen && place.querySelector("article");
  if (card) card.after(...replaceLines(place));
  else {
    shownAt = performance.now();
    warned = false;
    place.replaceChildren(drawCard(current()), ...replaceLines(place));
  }
}

function replaceLines(place) {
  place.querySelector(".others")?.remove();
  const others = [...open_.values()].filter((question) => question.id !== chosen);
  if (!others.length) return [];
  const lines = others.slice(0, MAX_LINES).map((question) =>
    h("li", {}, h("button", { type: "button", class: "line", onclick: () => choose(question.id) },
      riskBadge(question.risk), h("span", { class: "what" }, `${question.tool} ${question.target}`),
      h("span", { class: "left", "data-until": question.until }, left(question.until)))));
  const more = others.length > MAX_LINES ? h("li", { class: "hint" }, `and ${others.length - MAX_LINES} more`) : null;
  return [h("div", { class: "others" }, h("h3", {}, `${others.length} more waiting`), h("ol", {}, lines, more))];
}

function choose(id) {
  chosen = id;
  shownAt = performance.now();
  warned = false;
  find("questions").replaceChildren(drawCard(current()), ...replaceLines(find("questions")));
  find("questions").querySelector("article").focus();
}

function drawCard(question) {
  const title = `title-${question.id}`;
  const card = h("article", { class: `card question ${question.risk.toLowerCase()}`, "aria-labelledby": title, tabindex: "-1", "data-id": question.id },
    h("header", {},
      h("div", {}, riskBadge(question.risk), badge(question.server || "unknown server"), badge(question.workspace)),
      h("span", { class: "left", role: "timer", "aria-label": "time left", "data-until": question.until }, left(question.until))),
    h("h3", { id: title }, h("span", {}, question.tool), " ", h("code", {}, question.target)),
    question.risk === "HIGH" ? h("p", { class: "warning" }, "This can do real harm. Allow it only if you know why the agent wants it.") : null,
    h("ul", { class: "facts" }, question.facts.map((fact) => h("li", {}, fact)),
      h("li", {}, question.network ? "It would reach the network." : "No network."),
      h("li", {}, `It ${question.access}.`)),
    drawParameters(question),
    question.change ? drawChange(question) : null,
    drawActions(question),
  );
  setTimeout(() => card.querySelectorAll(".actions button").forEach((button) => { button.disabled = false; }), TOO_SOON_MS);
  return card;
}

function drawParameters({ parameters, id }) {
  if (!parameters.length) return null;
  const cut = parameters.some((parameter) => parameter.left_out);
  return h("div", { class: "block" }, h("h4", {}, "Parameters"),
    h("dl", { class: "parameters" }, parameters.map(({ name, value }) => [h("dt", {}, name), h("dd", {}, h("code", {}, value))])),
    cut ? wholeButton(id) : null);
}

function drawChange({ change, id }) {
  const lines = change.lines.map((line) => {
    const kind = line.startsWith("+++") || line.startsWith("---") ? "file" : { "+": "added", "-": "removed", "@": "place" }[line[0]] ?? "";
    return h("span", { class: kind }, `${line}\n`);
  });
  return h("div", { class: "block" },
    h("h4", {}, "Change ", h("span", { class: "added" }, `+${change.added}`), " ", h("span", { class: "removed" }, `−${change.removed}`), " lines"),
    h("pre", { class: "diff", tabindex: "0", "aria-label": "What would change" }, lines),
    change.left_out ? h("p", { class: "warning" }, `${change.left_out} lines are not shown in full. `, wholeButton(id)) : null);
}

function wholeButton(id) {
  return h("button", { type: "button", onclick: async () => {
    const whole = await request("questions.show", { id });
    if (!open_.has(id)) return;
    keep(whole);
    choose(id);
  } }, "Show all of it");
}

function drawActions(question) {
  const button = (key, text, kind, act) =>
    h("button", { type: "button", class: kind, disabled: true, "aria-keyshortcuts": key, onclick: act }, text, " ", h("kbd", { "aria-hidden": "true" }, key));
  const reason = h("input", { type: "text", maxlength: "500", id: "reason", placeholder: "Why not? The agent is told.", "aria-label": "Reason for a no",
    onkeydown: (event) => { if (event.key === "Enter") answer("reject"); } });
  return h("div", { class: "actions" },
    h("div", { class: "yes" },
      button("y", "Allow once", "primary", () => answer("approve")),
      question.grantable ? button("c", `Allow every “${question.class}” of this session`, "", () => answer("approve", "class")) : null,
      question.grantable ? button("a", "Allow everything of this session", "", everything) : null),
    h("p", { class: "warning", id: "everything", role: "alert", hidden: true },
      "Everything this session asks for will then run unasked, HIGH risk too. Press again if you mean it."),
    h("div", { class: "no" }, button("n", "Refuse", "danger", () => answer("reject")), reason),
    h("p", { class: "problem", id: "problem", role: "alert" }));
}

function everything() {
  if (!current()?.grantable) return;
  if (!warned) {
    warned = true;
    find("everything").hidden = false;
    return;
  }
  answer("approve", "session");
}

async function answer(word, scope = "once") {
  const question = current();
  if (!question || performance.now() - shownAt < TOO_SOON_MS) return;
  if (scope !== "once" && !question.grantable) return;
  const reason = word === "reject" ? find("reason").value : "";
  try {
    await request("questions.answer", { id: question.id, answer: word, scope, reason, binding: question.binding });
  } catch (error) {
    if (find("problem")) find("problem").textContent = error.message;
  }
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.repeat || /INPUT|TEXTAREA|SELECT/.test(event.target.tagName)) return;
  if (find("questions").closest("section").hidden || !current()) return;
  const act = { y: () => answer("approve"), c: () => answer("approve", "class"), a: everything, n: () => answer("reject") }[event.key.toLowerCase()];
  if (act) {
    event.preventDefault();
    act();
  }
});

function left(until) {
  const seconds = Math.max(0, Math.round((until - Date.now()) / 1000));
  return seconds >= 60 ? `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, "0")} s left` : `${seconds} s left`;
}

setInterval(() => {
  for (const clock of document.querySelectorAll("[data-until]")) clock.textContent = left(Number(clock.dataset.until));
}, 1000);
