// Elements by hand. Text is always text: nothing here, or anywhere else, reads markup from a string.

import { words } from "./words.js";

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && typeof value === "boolean") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function svg(tag, properties = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export const find = (id) => document.getElementById(id);

// Fills in what the page's own file leaves to `words.js`: data-word="rules.hint" is its text.
export function fillWords(root) {
  const look = (path) => path.split(".").reduce((place, name) => place[name], words);
  for (const element of root.querySelectorAll("[data-word]")) element.append(look(element.dataset.word));
  for (const element of root.querySelectorAll("[data-label]")) element.setAttribute("aria-label", look(element.dataset.label));
}

export function badge(text, kind = "") {
  return h("span", { class: `badge ${kind}` }, text);
}

export function riskBadge(risk) {
  return risk ? badge(words.risk[risk] ?? risk, `risk-${risk.toLowerCase()}`) : null;
}

// What a call would do, verb first. What the server says is set apart, so that it cannot pass for our own words.
export function headline({ kind, tool, target }) {
  const verb = words.tools[kind];
  return verb ? [h("span", {}, verb), " ", h("code", {}, target)] : [h("span", {}, words.unknownTool), " ", h("code", {}, tool), " ", h("code", {}, target)];
}

export function headlineText({ kind, tool, target }) {
  return words.tools[kind] ? `${words.tools[kind]} ${target}` : `${words.unknownTool} ${tool} ${target}`;
}

export function say(text) {
  find("news").textContent = text;
}

export function left(until) {
  return words.question.left(Math.max(0, Math.round((until - Date.now()) / 1000)));
}

export function time(seconds) {
  const moment = new Date(seconds * 1000);
  const today = moment.toDateString() === new Date().toDateString();
  const clock = moment.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
  return h("time", { datetime: moment.toISOString() }, today ? clock : `${moment.toLocaleDateString()} ${clock}`);
}

// Not to be pressed before it could be read: a click or key on its way before that is no answer.
export const TOO_SOON_MS = 350;

export function guard(button) {
  button.disabled = true;
  setTimeout(() => { button.disabled = false; }, TOO_SOON_MS);
  return button;
}

// Asks before something that is not easily taken back. `key` pressed again means yes, too. Nothing counts too soon.
export function confirm({ title, text, yes, no, body = [] }, key = null) {
  return new Promise((resolve) => {
    const shownAt = performance.now();
    const agree = () => { if (performance.now() - shownAt >= TOO_SOON_MS) dialog.close("yes"); };
    const dialog = h("dialog", { "aria-labelledby": "sure-title", "aria-describedby": "sure-text", class: "card" },
      h("h2", { id: "sure-title" }, title), h("p", { id: "sure-text" }, text), body,
      h("div", { class: "tools" },
        h("button", { type: "button", class: "danger", onclick: agree, "aria-keyshortcuts": key }, yes, key ? [" ", h("kbd", { "aria-hidden": "true" }, key)] : null),
        h("button", { type: "button", autofocus: true, onclick: () => dialog.close("no") }, no)));
    dialog.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (key && event.key.toLowerCase() === key && !event.repeat) agree();
    });
    dialog.addEventListener("close", () => { dialog.remove(); resolve(dialog.returnValue === "yes"); });
    document.body.append(dialog);
    dialog.showModal();
  });
}

export function closeDialogs() {
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close("no");
}
