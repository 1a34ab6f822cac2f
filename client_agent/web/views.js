// One view at a time, named in the address.

export const VIEWS = ["questions", "activity", "rules", "grants"];
const listeners = new Map();

export function onShow(view, listener) {
  listeners.set(view, listener);
}

export const isShown = (view) => !document.querySelector(`section[data-view="${view}"]`).hidden;

export function show(view) {
  for (const section of document.querySelectorAll("section[data-view]")) section.hidden = section.dataset.view !== view;
  for (const tab of document.querySelectorAll(".tabs button")) {
    if (tab.dataset.view === view) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  if (location.hash !== `#${view}`) history.replaceState(null, "", `#${view}`);
  listeners.get(view)?.();
}

for (const tab of document.querySelectorAll(".tabs button")) {
  tab.addEventListener("click", () => show(tab.dataset.view));
}
