// Keeps the section "Now" fresh, and the whole page when a round has closed.
const NOW_MILLISECONDS = 1000;
async function refresh() {
  try {
    const answer = await fetch("now");
    if (answer.ok) {
      const shown = byId("now"), fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = fresh.getElementById("now");
      if (next.dataset.rounds !== shown.dataset.rounds) { location.reload(); return; }
      shown.replaceWith(next);
    }
    document.body.classList.toggle("stale", !answer.ok);
  } catch { document.body.classList.add("stale"); }
  setTimeout(refresh, NOW_MILLISECONDS);
}
setTimeout(refresh, NOW_MILLISECONDS);
