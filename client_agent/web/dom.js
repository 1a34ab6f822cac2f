// Elements by hand. Text is always text: nothing here, or anywhere else, reads markup from a string.

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

export function badge(text, kind = "") {
  return h("span", { class: `badge ${kind}` }, text);
}

export function riskBadge(risk) {
  return risk ? badge(risk, `risk-${risk.toLowerCase()}`) : null;
}

export function say(text) {
  find("news").textContent = text;
}

export function time(seconds) {
  const moment = new Date(seconds * 1000);
  const today = moment.toDateString() === new Date().toDateString();
  const clock = moment.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  return h("time", { datetime: moment.toISOString() }, today ? clock : `${moment.toLocaleDateString()} ${clock}`);
}
