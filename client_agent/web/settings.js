// A changed configuration that allows more: what of it waits, to be put in force or declined.

import { find, h, guard, say } from "./dom.js";
import { request } from "./live.js";
import { words } from "./words.js";

let shown = "";

// Drawn anew only when it is another: whoever reads it, or has a finger on a button, keeps the place.
export function showSettings(pending) {
  const name = pending ? `${pending.digest} ${pending.declined}` : "";
  if (name === shown) return;
  shown = name;
  find("settings").replaceChildren(...(pending ? [draw(pending)] : []));
  if (pending && !pending.declined) say(words.settings.waits);
}

function draw(pending) {
  const problem = h("p", { class: "problem", role: "alert" });
  const act = (op) => () => request(op, { digest: pending.digest }).catch((error) => { problem.textContent = error.message; });
  const list = h("dl", { class: "parameters" }, pending.widenings.map(({ key, text }) => [h("dt", {}, h("code", {}, key)), h("dd", {}, text)]));
  const yes = guard(h("button", { type: "button", class: "danger", onclick: act("config.confirm") }, words.settings.confirm));
  if (pending.declined) {
    return h("details", { class: "card waiting declined" }, h("summary", {}, words.settings.declined), list, h("div", { class: "tools" }, yes), problem);
  }
  return h("section", { class: "card waiting", "aria-labelledby": "t-settings" },
    h("h2", { id: "t-settings" }, words.settings.title), h("p", { class: "hint" }, words.settings.hint), list,
    h("div", { class: "tools" }, yes, guard(h("button", { type: "button", onclick: act("config.decline") }, words.settings.decline))), problem);
}
