// Draws every figure that the page has, and switches colours.
for (const node of document.querySelectorAll(".ledger-seed")) node.textContent = DATA.ledgerSeed;
byId("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
if (Object.keys(DATA.curves.time).length) drawAccuracy(); else byId("accuracy").hidden = true;
drawSplit();
drawBytes();
if (byId("timeline")) { drawTimelines(); drawHeats(); }
document.documentElement.dataset.drawn = "yes";
