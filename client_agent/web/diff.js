// A change as a unified diff, or why there is none to compare.

import { h } from "./dom.js";
import { words } from "./words.js";

const say = words.question;
const KINDS = { "+": "added", "-": "removed", "@": "hunk" };

export function drawDiff(change) {
  const isDiff = change.lines[0].startsWith("--- ");
  // Only the first two lines are the diff's own head: a line of the file may look like one.
  const rows = change.lines.map((line, index) => h("span", { class: isDiff && index < 2 ? "file" : KINDS[line[0]] ?? "" }, `${line}\n`));
  const counts = isDiff ? [" ", h("span", { class: "added" }, `+${change.added}`), " ", h("span", { class: "removed" }, `−${change.removed}`), ` ${say.lines}`] : null;
  return [h("h4", {}, say.change, counts), h("pre", { class: "diff", tabindex: "0", role: "region", "aria-label": say.changeLabel }, rows)];
}
