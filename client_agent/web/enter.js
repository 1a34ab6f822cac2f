// Exchanges the ticket in the address for a cookie and a key, and takes it out of the address.

const word = document.getElementById("word") ?? document.getElementById("trouble");
word.hidden = false;
const ticket = location.hash.slice(1);
history.replaceState(null, "", "/");

if (!ticket) {
  word.textContent = "This page opens with a ticket. Run “client-agent ui” in a terminal.";
} else {
  const answer = await fetch("/session", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ticket }),
  });
  if (answer.ok) {
    sessionStorage.setItem("key", (await answer.json()).key);
    location.replace("/");
  } else {
    word.textContent = "This link was used before, or is too old. Run “client-agent ui” again.";
  }
}
