// Calls over time, stacked by what was decided.

import { h, svg } from "./dom.js";

const WIDTH = 720, HEIGHT = 120, FOOT = 18;
const KINDS = [["run", "ran unasked"], ["ask", "asked"], ["refuse", "refused by policy"]];

export function drawPlot(place, { start, width_s: width, counts }) {
  const size = counts.run.length;
  const totals = counts.run.map((_, i) => KINDS.reduce((sum, [kind]) => sum + counts[kind][i], 0));
  const top = Math.max(1, ...totals);
  const step = WIDTH / size;
  const bars = totals.flatMap((_, i) => {
    let y = HEIGHT;
    return KINDS.filter(([kind]) => counts[kind][i]).map(([kind, word]) => {
      const tall = (counts[kind][i] / top) * (HEIGHT - 8);
      y -= tall;
      const at = new Date((start + i * width) * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
      return svg("rect", { class: `bar-${kind}`, x: i * step + 1, y, width: Math.max(1, step - 2), height: tall, rx: 1.5 },
        svg("title", {}, `${at}: ${counts[kind][i]} ${word}`));
    });
  });
  const label = (x, anchor, seconds) => svg("text", { x, y: HEIGHT + FOOT - 4, "text-anchor": anchor, class: "axis" },
    new Date(seconds * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }));
  const sums = KINDS.map(([kind, word]) => `${counts[kind].reduce((a, b) => a + b, 0)} ${word}`).join(", ");
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT + FOOT}`, role: "img", "aria-label": `Calls of the last hour: ${sums}` },
    svg("line", { x1: 0, x2: WIDTH, y1: HEIGHT + 0.5, y2: HEIGHT + 0.5, class: "ground" }), ...bars,
    label(0, "start", start), label(WIDTH, "end", start + size * width));
  const legend = h("figcaption", {}, KINDS.map(([kind, word]) =>
    h("span", {}, h("i", { class: `key key-${kind}`, "aria-hidden": "true" }), `${counts[kind].reduce((a, b) => a + b, 0)} ${word}`)), h("span", { class: "hint" }, "last hour"));
  place.replaceChildren(picture, legend);
}
