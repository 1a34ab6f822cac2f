// What was allowed beyond one call, and the way to end it.

import { badge, find, h, left, time } from "./dom.js";
import { request } from "./live.js";
import { words } from "./words.js";

export function showGrants(grants) {
  find("granted").hidden = grants.length === 0;
  find("granted").textContent = grants.length;
  find("grants").replaceChildren(...(grants.length ? grants.map(drawGrant) : [h("p", { class: "empty" }, words.grants.none)]));
}

function drawGrant(grant) {
  const until = grant.expires_at * 1000;
  return h("div", { class: `row card ${grant.everything ? "wide" : ""}` },
    h("div", {},
      h("strong", {}, grant.everything ? words.grants.everything : h("code", {}, grant.covers)), " ",
      badge(words.grants.upTo(grant.max_risk), `risk-${grant.max_risk.toLowerCase()}`),
      h("p", { class: "hint" }, words.grants.where(grant.session, grant.workspace), time(grant.expires_at), " · ",
        h("span", { class: "left", "data-until": until }, left(until)))),
    h("button", { type: "button", onclick: () => request("grants.revoke", { id: grant.id }).catch(() => {}) }, words.grants.revoke));
}
