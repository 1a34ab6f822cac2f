// Puts the views together and says how things stand.

import { badge, find, h } from "./dom.js";
import { connect, on, request } from "./live.js";
import * as questions from "./questions.js";
import * as rules from "./rules.js";
import * as activity from "./activity.js";

const VIEWS = ["questions", "activity", "rules", "grants"];

function show(view) {
  for (const section of document.querySelectorAll("section[data-view]")) section.hidden = section.dataset.view !== view;
  for (const tab of document.querySelectorAll(".tabs button")) {
    if (tab.dataset.view === view) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  if (location.hash !== `#${view}`) history.replaceState(null, "", `#${view}`);
  if (view === "activity") activity.refresh();
}

for (const tab of document.querySelectorAll(".tabs button")) {
  tab.addEventListener("click", () => show(tab.dataset.view));
}

function showStatus(status) {
  const links = Object.entries(status.workspaces).map(([name, link]) => {
    const good = link.state === "connected";
    const kind = good ? "good" : ["connecting", "retrying"].includes(link.state) ? "wait" : "bad";
    const more = link.outbox ? `, ${link.outbox} not delivered` : "";
    return h("li", { title: `${link.server}${link.detail ? ` – ${link.detail}` : ""}` },
      h("span", { class: `dot ${kind}`, "aria-hidden": "true" }), `${name}: ${link.state}${more}`);
  });
  find("links").replaceChildren(...links);
  find("pauses").replaceChildren(...status.paused.map((pause) =>
    h("div", { class: "card paused" },
      h("p", {}, `A session in ${pause.workspace} is paused: you refused ${pause.what} three times in a row.`),
      h("button", { type: "button", onclick: () => request("sessions.resume", { workspace: pause.workspace, session_id: pause.session_id }) },
        "Let it ask again"))));
  trouble(status.journal_trouble ? `Nothing can be recorded, so nothing runs: ${status.journal_trouble}` : null);
}

function trouble(text) {
  find("trouble").hidden = !text;
  find("trouble").textContent = text ?? "";
}

function showGrants(grants) {
  find("grants").replaceChildren(...(grants.length ? grants.map((grant) =>
    h("div", { class: "row card" },
      h("div", {},
        h("strong", {}, grant.everything ? "Everything" : grant.covers), " ",
        badge(`up to ${grant.max_risk}`, grant.everything ? "risk-high" : ""),
        h("p", { class: "hint" }, `session ${grant.session} in ${grant.workspace}, until ${new Date(grant.expires_at * 1000).toLocaleTimeString()}`)),
      h("button", { type: "button", onclick: () => request("grants.revoke", { id: grant.id }) }, "End it")))
    : [h("p", { class: "empty" }, "Nothing is granted: every call that must be asked is asked.")]));
}

on("standing", (data) => {
  document.body.classList.remove("lost");
  showStatus(data.status);
  questions.reset(data.questions);
  rules.show(data.rules, data.presets);
  showGrants(data.grants);
});
on("status", showStatus);
on("permissions", (data) => {
  rules.show(data.rules, data.presets);
  showGrants(data.grants);
});
on("lost", (why) => {
  document.body.classList.add("lost");
  questions.reset([]);
  find("links").replaceChildren();
  trouble(why ?? "The daemon does not answer. It may have stopped; this page tries again by itself.");
});
on("question_opened", questions.open);
on("question_closed", questions.close);
on("activity", activity.add);

const asked = location.hash.slice(1);
if (asked && !VIEWS.includes(asked)) import("./enter.js"); // a new ticket, in a browser that had one before
else {
  show(asked || "questions");
  connect();
}
