// Exchanges the ticket in the address for a cookie and a key, and takes it out of the address.

import { words } from "./words.js";

const place = document.getElementById("word") ?? document.getElementById("trouble");
const tell = (word) => {
  place.hidden = false;
  place.textContent = word;
};
const [ticket, unasked] = location.hash.slice(1).split("~");
history.replaceState(null, "", "/");
tell(ticket ? words.enter.opening : words.enter.noTicket);

if (ticket) {
  try {
    const answer = await fetch("/session", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ ticket }),
    });
    if (answer.ok) {
      sessionStorage.setItem("key", (await answer.json()).key);
      if (unasked !== undefined) sessionStorage.setItem("unasked", "");
      location.replace("/");
    } else tell(words.enter.badTicket);
  } catch {
    tell(words.enter.failed);
  }
}
