// Open questions: one in full, the others as a line each. The daemon sends lines; what is shown in full is asked for.

import { closeDialogs, confirm, find, h, headline, headlineText, left, riskBadge, say, TOO_SOON_MS } from "./dom.js";
import { drawCard } from "./card.js";
import { request } from "./live.js";
import { words } from "./words.js";

const LINES = 50;
const DRAW_MS = 50;
const SPOKEN = 3; // more than so many at once are counted, not read out
const open_ = new Map();
let chosen = null;
let shown = null; // the question in full that is on the screen
let shownAt = 0;
let lines = LINES;
let drawnAt = 0;
let drawing = null;
let lifetime = ""; // chosen once, it stays for the next question: it can only shorten

export function reset(list) {
  open_.clear();
  shown = null;
  for (const line of list) keep(line);
  draw();
}

export function open(line) {
  keep(line);
  say(open_.size > SPOKEN ? words.question.waiting(open_.size) : words.question.opened(line.risk, headlineText(line)));
  drawSoon();
}

export function close({ id, outcome, by }) {
  const line = open_.get(id);
  if (!line) return;
  open_.delete(id);
  const word = words.question.outcomes[outcome] ?? outcome;
  say(words.question.closed(headlineText(line), word, by && by !== "page" ? by : ""));
  if (id === shown?.id) shown = null; // from now on nothing answers it
  drawSoon();
}

const keep = (line) => open_.set(line.id, { ...line, until: Date.now() + line.seconds_left * 1000 });

// At once, unless it was drawn just now: a thousand questions in a moment are drawn a few times, not a thousand.
function drawSoon() {
  const wait = DRAW_MS - (performance.now() - drawnAt);
  if (wait <= 0) draw();
  else drawing ??= setTimeout(draw, wait);
}

function draw() {
  clearTimeout(drawing);
  drawing = null;
  drawnAt = performance.now();
  find("count").hidden = open_.size === 0;
  find("count").textContent = open_.size.toLocaleString();
  document.title = open_.size ? `(${open_.size}) ${words.title}` : words.title;
  if (!open_.has(chosen)) choose(open_.keys().next().value ?? null);
  drawOthers();
}

// Shows a question in full, or that there is none.
function choose(id, whole = false) {
  const place = find("question");
  const hadFocus = place.contains(document.activeElement);
  const reason = id === chosen ? find("reason")?.value : "";
  if (id !== chosen) closeDialogs();
  chosen = id;
  shown = null;
  if (id !== null) return fetchQuestion(id, whole, { hadFocus, reason });
  lines = LINES;
  place.replaceChildren(h("div", { class: "empty" }, h("p", {}, words.question.none), h("p", { class: "hint" }, words.question.noneHint)));
  if (hadFocus) find("t-questions").focus();
}

async function fetchQuestion(id, whole, { hadFocus, reason }) {
  let question;
  try {
    question = await request("questions.show", { id, whole });
  } catch {
    return; // closed meanwhile, or not connected: either is told by an event of its own
  }
  if (id !== chosen || !open_.has(id)) return;
  shown = { ...question, until: open_.get(id).until };
  shownAt = performance.now();
  const card = drawCard(shown, { answer, everything: answerEverything, showWhole: () => choose(id, true), lifetime, holdFor });
  find("question").replaceChildren(card);
  find("reason").value = reason ?? "";
  if (hadFocus) card.focus({ preventScroll: true });
}

function drawOthers() {
  const others = [...open_.values()].filter((line) => line.id !== chosen);
  if (!others.length) return find("others").replaceChildren();
  const focused = find("others").contains(document.activeElement) ? document.activeElement.dataset.id : null;
  const rows = others.slice(0, lines).map((line) =>
    h("li", {}, h("button", { type: "button", class: "line", "data-id": line.id, onclick: () => pick(line.id) },
      riskBadge(line.risk), h("span", { class: "what" }, headline(line)), clock(line))));
  const more = others.length - rows.length;
  find("others").replaceChildren(h("div", { class: "heading" }, h("h3", {}, words.question.others(others.length)), drawRefuseAll()),
    h("ol", { class: "lines" }, rows),
    more ? h("button", { type: "button", onclick: () => { lines += 2 * LINES; drawOthers(); } }, words.question.more(Math.min(more, 2 * LINES))) : "");
  if (focused) find("others").querySelector(`[data-id="${focused}"]`)?.focus({ preventScroll: true });
}

const clock = (line) => h("span", { class: "left", "data-until": line.until }, left(line.until));

function drawRefuseAll() {
  const line = open_.get(chosen);
  const alike = [...open_.values()].filter((each) => each.session === line?.session && each.workspace === line?.workspace);
  if (line?.session == null || alike.length < 3) return null;
  return h("button", { type: "button", class: "danger quiet", onclick: async () => {
    const { title, text, yes, no } = words.question.refuseAllSure;
    if (!await confirm({ title, text: text(alike.length, line.session), yes, no })) return;
    for (const { id, binding } of alike) if (open_.has(id)) request("questions.answer", { id, binding, answer: "reject" }).catch(() => {});
  } }, words.question.refuseAll(alike.length));
}

function pick(id) {
  find("question").querySelector("article")?.focus({ preventScroll: true });
  choose(id);
  drawOthers();
  scrollTo({ top: 0 });
}

// The next or previous one, round and round.
export function step(by) {
  const ids = [...open_.keys()];
  if (ids.length > 1) pick(ids[(ids.indexOf(chosen) + by + ids.length) % ids.length]);
}

export function writeReason() {
  find("reason")?.focus();
}

function holdFor(seconds) {
  lifetime = seconds;
  say(words.question.heldFor(words.question.lifetimes[seconds]));
}

// The next of the lifetimes, round and round.
export function turnLifetime() {
  const choice = find("lifetime");
  if (!choice) return;
  choice.selectedIndex = (choice.selectedIndex + 1) % choice.options.length;
  holdFor(choice.value);
}

export async function answerEverything() {
  const question = shown;
  if (!question?.grantable || tooSoon()) return;
  const { title, text, yes, no } = words.question.sure;
  if (await confirm({ title, text: text(question.session, words.question.lifetimes[lifetime]), yes, no }, "a") && shown?.id === question.id) answer("approve", "session");
}

export async function answer(word, scope = "once") {
  const question = shown;
  if (!question || tooSoon() || (scope !== "once" && !question.grantable)) return;
  const reason = word === "reject" ? find("reason").value : "";
  const for_s = scope === "once" || !lifetime ? null : Number(lifetime);
  try {
    await request("questions.answer", { id: question.id, binding: question.binding, answer: word, scope, for_s, reason });
  } catch (error) {
    if (shown?.id === question.id) find("problem").textContent = error.message;
  }
}

const tooSoon = () => performance.now() - shownAt < TOO_SOON_MS;

setInterval(() => {
  for (const element of document.querySelectorAll("[data-until]")) element.textContent = left(Number(element.dataset.until));
  const bar = document.querySelector(".time-left");
  if (bar && shown) bar.value = Math.max(0, shown.until - Date.now()) / 1000;
}, 1000);
