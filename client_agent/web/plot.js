// Calls over time, stacked by what was decided.

import { h, svg } from "./dom.js";
import { words } from "./words.js";

const say = words.plot;
const HEIGHT = 120, FOOT = 20, HEAD = 8;
const KINDS = Object.entries(say.kinds);
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

// `choose` is told when another span of time is wanted.
export function drawPlot(place, { start, width_s: width, counts }, minutes, choose) {
  const span = say.spans[minutes];
  const across = place.clientWidth < 500 ? 360 : 720; // its text is as large on a phone
  const totals = KINDS.map(([kind, word]) => [kind, say.part(sum(counts[kind]), word)]);
  const picture = svg("svg", { viewBox: `0 0 ${across} ${HEIGHT + FOOT}`, role: "img",
    "aria-label": say.label(span, totals.map(([, text]) => text).join(", ")) },
  svg("line", { x1: 0, x2: across, y1: HEIGHT + 0.5, y2: HEIGHT + 0.5, class: "ground" }),
  ...drawBars(start, width, counts, minutes, across), ...drawScale(start, width * counts.unasked.length, counts, minutes, across));
  const picked = place.querySelector("select");
  const select = picked ?? h("select", { "aria-label": say.span, onchange: (event) => choose(Number(event.target.value)) },
    Object.entries(say.spans).map(([value, text]) => h("option", { value }, text)));
  select.value = String(minutes);
  const legend = totals.filter(([kind]) => kind !== "open" || sum(counts.open)).map(([kind, text]) =>
    h("span", {}, h("i", { class: `key key-${kind}`, "aria-hidden": "true" }), text));
  if (picked) {
    place.querySelector("svg").replaceWith(picture);
    place.querySelector(".legend").replaceChildren(...legend);
  } else place.replaceChildren(picture, h("figcaption", {}, h("span", { class: "legend" }, legend), select));
}

function drawBars(start, width, counts, minutes, across) {
  const size = counts.unasked.length;
  const step = across / size;
  const top = Math.max(1, ...counts.unasked.map((_, i) => sum(KINDS.map(([kind]) => counts[kind][i]))));
  return Array.from({ length: size }, (_, i) => {
    let y = HEIGHT;
    return KINDS.filter(([kind]) => counts[kind][i]).map(([kind, word]) => {
      const tall = (counts[kind][i] / top) * (HEIGHT - HEAD);
      y -= tall;
      return svg("rect", { class: `bar-${kind}`, x: i * step + 1, y, width: Math.max(1, step - 2), height: tall, rx: 1.5 },
        svg("title", {}, say.bar(moment(start + i * width, minutes), counts[kind][i], word)));
    });
  }).flat();
}

function drawScale(start, length, counts, minutes, across) {
  const top = Math.max(...counts.unasked.map((_, i) => sum(KINDS.map(([kind]) => counts[kind][i]))));
  const label = (x, anchor, text, y = HEIGHT + FOOT - 4) => svg("text", { x, y, "text-anchor": anchor, class: "axis" }, text);
  return [label(0, "start", moment(start, minutes)), label(across / 2, "middle", moment(start + length / 2, minutes)),
    label(across, "end", moment(start + length, minutes)), ...(top ? [label(0, "start", top.toLocaleString(), 12)] : [])];
}

function moment(seconds, minutes) {
  const options = { hour: "2-digit", minute: "2-digit", hour12: false };
  return new Date(seconds * 1000).toLocaleString([], minutes > 1440 ? { weekday: "short", ...options } : options);
}
