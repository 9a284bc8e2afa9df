// Horizontal bars per method: the stacked time split, and data up and down.
const inOrder = () => DATA.methods.map(({ name }) => METHOD[name]);  // fastest first, the reference last

// As many decimals as the mean has.
function deviation(mean, std, size) {
  return ` ± ${(std / size).toFixed((digits(mean / size).split(".")[1] || "").length)}`;
}

function drawSplit() {
  const phases = DATA.phases.filter((phase) => DATA.methods.some((method) => method.means[`${phase}_seconds`] > 0));
  phaseLegend(byId("split-legend"), phases);
  const unit = unitFor(Math.min(...DATA.methods.map((method) => method.means.seconds)), "time");  // one for all: they are compared
  bars(byId("split-plot"), "time", `${DATA.time} until the target`, inOrder().map((method) => ({
    method,
    end: `${method.reached ? "" : "missed · "}${quantity(method.means.seconds, "time", unit)}${method.stds.seconds ? deviation(method.means.seconds, method.stds.seconds, unit[1]) : ""}`,
    lanes: [phases.map((phase) => ({ name: phase, colour: `var(--p-${phase})`, value: method.means[`${phase}_seconds`] || 0 }))],
  })));
}

function drawBytes() {
  phaseLegend(byId("bytes-legend"), ["upload", "download"]);
  bars(byId("bytes-plot"), "data", "Data per client until the target", inOrder().filter((method) => !method.reference || DATA.methods.length === 1).map((method) => ({
    method,
    lanes: ["upload", "download"].map((way) => [{ name: way, colour: `var(--p-${way})`, value: method.means[`${way}_bytes`] || 0 }]),
    laneEnds: ["upload", "download"].map((way) => quantity(method.means[`${way}_bytes`], "data")),
  })));
}

function bars(container, kind, title, rows) {
  const text = rows.map((row) => `${row.method.name}: ${row.end || row.laneEnds.join(" up, ") + " down"}`).join("; ");
  const longest = Math.max(...rows.flatMap((row) => [row.end || "", ...(row.laneEnds || [])]).map((each) => each.length));
  responsive(container, (width) => {
    const wide = width > 620;
    const left = wide ? 118 : 0, top = 6;
    const right = width - (wide ? 16 + 7.2 * longest : rows[0].laneEnds ? 12 + 6.6 * longest : 4);  // room for labels behind the bars
    const lane = rows[0].lanes.length > 1 ? 13 : 24;
    const head = wide ? 0 : 20;
    const step = head + lane * rows[0].lanes.length + 14;
    const bottom = top + step * rows.length;
    const root = svg("svg", { viewBox: `0 0 ${width} ${bottom + 36}`, height: bottom + 36, role: "img", "aria-label": `${title}. ${text}.` });
    const reach = Math.max(...rows.flatMap((row) => row.lanes.map((parts) => parts.reduce((sum, part) => sum + part.value, 0)))) || 1;
    const scale = unitAxis(root, reach, kind, left, right, top, bottom);
    rows.forEach((row, place) => {
      const y = top + place * step + 7;
      const heading = wide
        ? words(left - 10, y + (lane * row.lanes.length) / 2 + 4, row.method.name, { "text-anchor": "end", style: "font-weight:600" })
        : words(left, y + 10, row.method.name, { style: "font-weight:600" });
      root.append(heading);
      if (!wide && row.end) root.append(words(right, y + 10, row.end, { "text-anchor": "end" }));
      row.lanes.forEach((parts, number) => {
        let from = 0;
        const laneTop = y + head + number * lane;
        for (const part of parts) {
          const node = svg("rect", { class: "part", x: scale(from), y: laneTop, width: Math.max(0, scale(from + part.value) - scale(from)), height: lane - (row.lanes.length > 1 ? 2 : 0), style: `fill:${part.colour}`, opacity: row.method.reached ? 1 : 0.45 });
          const whole = parts.reduce((sum, each) => sum + each.value, 0);
          const lines = parts.map((each) => [each.colour, each.name, quantity(each.value, kind) + (parts.length > 1 && whole ? ` · ${percent(each.value / whole, 0)}` : "")]);
          if (!row.method.reached) root.append(svg("rect", { x: scale(from), y: laneTop, width: node.getAttribute("width"), height: node.getAttribute("height"), style: "fill:var(--card)" }));
          root.append(hover(node, row.method.name, lines));
          from += part.value;
        }
        const end = row.laneEnds ? row.laneEnds[number] : wide ? row.end : "";
        const look = row.laneEnds ? { class: "end", style: "font-size:11.5px" } : { class: "end" };
        if (end) root.append(words(scale(from) + 7, laneTop + (row.laneEnds ? 9.5 : lane / 2 + 4), end, look));
      });
    });
    container.replaceChildren(root);
  });
}
