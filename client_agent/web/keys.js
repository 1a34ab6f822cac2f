// Single keys. They can be switched off, and do nothing while somebody writes, or has just been writing.

import { find, h } from "./dom.js";
import * as questions from "./questions.js";
import { isShown, show, VIEWS } from "./views.js";
import { words } from "./words.js";

// Who was typing when the field went away goes on typing for a moment: those letters are no answers.
const TYPING_MS = 1500;
const SWITCH = "single-keys";
// A page that came up by itself came up while somebody did something else: keys that go on are meant for that.
let typedAt = sessionStorage.getItem("unasked") === null ? -TYPING_MS : performance.now();
sessionStorage.removeItem("unasked");

const isText = (element) => /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName);
const isOn = () => localStorage.getItem(SWITCH) !== "off";

const ANSWERS = { y: () => questions.answer("approve"), c: () => questions.answer("approve", "class"), a: questions.answerEverything,
  n: () => questions.answer("reject"), r: questions.writeReason, t: questions.turnLifetime, j: () => questions.step(1), k: () => questions.step(-1) };

export function listen() {
  document.addEventListener("keydown", (event) => {
    const typing = isText(event.target) || performance.now() - typedAt < TYPING_MS;
    if (typing && event.key.length === 1) typedAt = performance.now();
    if (typing || event.ctrlKey || event.altKey || event.metaKey || event.repeat || document.querySelector("dialog[open]")) return;
    const act = event.key === "?" ? showHelp : isOn() ? actFor(event.key.toLowerCase()) : null;
    if (act) {
      event.preventDefault();
      act();
    }
  });
  find("help").addEventListener("click", showHelp);
}

function actFor(key) {
  if (key >= "1" && key <= String(VIEWS.length)) return () => show(VIEWS[Number(key) - 1]);
  return isShown("questions") ? ANSWERS[key] : null;
}

function showHelp() {
  const box = h("input", { type: "checkbox", checked: isOn(), onchange: () => localStorage.setItem(SWITCH, box.checked ? "on" : "off") });
  const dialog = h("dialog", { class: "card", "aria-labelledby": "help-title" },
    h("h2", { id: "help-title" }, words.help.title),
    h("dl", { class: "keys" }, words.help.keys.map(([key, does]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, does)])),
    h("label", { class: "switch" }, box, " ", words.help.single), h("p", { class: "hint" }, words.help.singleHint),
    h("div", { class: "tools" }, h("button", { type: "button", autofocus: true, onclick: () => dialog.close() }, words.close)));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
