// Puts the views together.

import { fillWords } from "./dom.js";
import { connect, on } from "./live.js";
import * as questions from "./questions.js";
import * as rules from "./rules.js";
import * as activity from "./activity.js";
import { showGrants } from "./grants.js";
import { showLost, showStatus } from "./status.js";
import { listen } from "./keys.js";
import { onShow, show, VIEWS } from "./views.js";

fillWords(document);
listen();
onShow("activity", activity.refresh);

on("standing", (data) => {
  document.body.classList.remove("lost");
  showStatus(data.status);
  questions.reset(data.questions);
  rules.show(data.rules, data.presets);
  showGrants(data.grants);
  activity.prepare(data.tools, Object.keys(data.status.workspaces));
});
on("status", showStatus);
on("permissions", (data) => {
  rules.show(data.rules, data.presets);
  showGrants(data.grants);
});
on("lost", (why) => {
  document.body.classList.add("lost");
  questions.reset([]);
  showLost(why);
});
on("question_opened", questions.open);
on("question_closed", questions.close);
on("activity", activity.add);
on("output", activity.addOutput);

const asked = location.hash.slice(1);
if (asked && !VIEWS.includes(asked)) import("./enter.js"); // a new ticket, in a browser that had one before
else {
  show(asked || "questions");
  connect();
}
