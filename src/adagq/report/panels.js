// One small panel per method: timelines of a round, and heat maps of clients over rounds.
const heading = (method, remark) => html("h3", {}, [html("i", { class: "swatch", style: `background:${method.colour}` }), method.name, html("small", {}, remark || "")]);

function drawTimelines() {
  const names = inOrder().map(({ name }) => name).filter((name) => DATA.timelines[name]);
  if (!names.length) return;
  phaseLegend(byId("timeline-legend"), [...DATA.segments, "server"]);
  let pick = 1;
  let shared = true;
  const redraw = responsive(byId("timeline-plot"), () => {
    const longest = Math.max(...names.map((name) => DATA.timelines[name][pick].total));
    const panels = names.map((name) => html("div", { class: "panel" }, [heading(METHOD[name], `round ${DATA.timelines[name][pick].round} · ${quantity(DATA.timelines[name][pick].total, "time")}`)]));
    byId("timeline-plot").replaceChildren(...panels);
    panels.forEach((panel, place) => panel.append(timeline(names[place], DATA.timelines[names[place]][pick], shared ? longest : DATA.timelines[names[place]][pick].total, Math.floor(panel.clientWidth))));
  });
  choice(byId("timeline-choice"), [[1, "Half-way"], [0, "Second round"], [2, "At the target"]], (key) => { pick = key; redraw(); });
  choice(byId("timeline-axis"), [[true, "One axis"], [false, "Own axes"]], (key) => { shared = key; redraw(); });
}

function timeline(name, round, longest, width) {
  const lane = Math.max(3, Math.min(9, Math.floor(180 / Math.max(1, round.clients.length))));
  const bottom = lane * round.clients.length + 2;
  const idle = round.seconds.map((parts) => parts[3]);
  const text = `${name}, round ${round.round}: ${quantity(round.total, "time")}; clients wait ${quantity(Math.min(...idle), "time")} to ${quantity(Math.max(...idle), "time")}.`;
  const root = svg("svg", { viewBox: `0 0 ${width} ${bottom + 36}`, height: bottom + 36, role: "img", "aria-label": text });
  const scale = unitAxis(root, longest, "time", 0, width - 2, 0, bottom);
  round.clients.forEach((client, place) => {
    const group = svg("g");
    let from = 0;
    const parts = [...DATA.segments.map((segment, number) => [segment, round.seconds[place][number]]), ["server", round.server]];
    for (const [segment, seconds] of parts) {
      group.append(svg("rect", { class: "part", x: scale(from), y: place * lane, width: Math.max(0, scale(from + seconds) - scale(from)), height: lane - (lane > 4 ? 1 : 0.4), style: `fill:var(--p-${segment})` }));
      from += seconds;
    }
    root.append(hover(group, `client ${client}`, parts.map(([segment, seconds]) => [`var(--p-${segment})`, segment, quantity(seconds, "time")])));
  });
  return root;
}

const HEATS = {
  levels: { label: "Levels", note: "Quantization levels (mean of the rounds in a cell).", none: "Without levels", text: (value) => digits(value), log: true },
  upload_bytes: { label: "Uploaded", note: "Bytes that a client sent in a round.", none: "Nothing sent", text: (value) => quantity(value, "data"), log: true },
  waiting_seconds: { label: "Waiting", note: "Seconds that a client waited for the others.", none: "Unknown", text: (value) => quantity(value, "time"), log: false },
};

function drawHeats() {
  const keys = Object.keys(HEATS).filter((key) => Object.values(DATA.heats).some((heat) => heat.values[key].flat().some((value) => value > 0)));
  const varies = (key) => Object.values(DATA.heats).some((heat) => new Set(heat.values[key].flat().filter((value) => value > 0)).size > 1);
  keys.sort((one, two) => varies(two) - varies(one));  // what is the same everywhere is not shown first
  if (!keys.length) { byId("heat").hidden = true; return; }
  choice(byId("heat-choice"), keys.map((key) => [key, HEATS[key].label]), showHeat);
  showHeat(keys[0]);
}

function showHeat(key) {
  const kind = HEATS[key];
  const all = inOrder().map(({ name }) => [name, DATA.heats[name]]).filter(([, heat]) => heat);
  const usable = (heat) => heat.values[key].flat().filter((value) => value !== null && (value > 0 || !kind.log));
  const some = all.filter(([, heat]) => usable(heat).length);
  const same = some.filter(([, heat]) => new Set(usable(heat)).size === 1);
  const drawn = some.filter((entry) => !same.includes(entry));
  const values = drawn.flatMap(([, heat]) => usable(heat));
  const low = kind.log ? Math.min(...values) : 0, high = Math.max(...values);
  const place = (value) => {
    if (high <= low) return 1;
    return kind.log ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : value / high;
  };
  const left = all.filter((entry) => !some.includes(entry)).map(([name]) => name);
  const fixed = same.map(([name, heat]) => `${name} ${kind.text(usable(heat)[0])}`);
  byId("heat-note").textContent = [kind.note, kind.log ? "Logarithmic colours." : "",
    fixed.length ? `Always the same, not drawn: ${fixed.join(", ")}.` : "", left.length ? `${kind.none}: ${left.join(", ")}.` : ""].filter(Boolean).join(" ");
  byId("heat-ramp").replaceChildren(...(drawn.length ? [kind.text(low), html("i", { style: `background:linear-gradient(90deg, ${DATA.shades.join(",")})` }), kind.text(high)] : []));
  byId("heat-plot").replaceChildren(...drawn.map(([name, heat]) => html("div", { class: "panel" }, [
    heading(METHOD[name]),
    heatMap(name, heat, heat.values[key], place, kind),
    html("div", { class: "ends", "aria-hidden": "true" }, [html("span", {}, `round ${heat.rounds[0]}`), html("span", {}, String(heat.last))]),
  ])));
}

const SHADES = DATA.shades.map((shade) => [1, 3, 5].map((at) => parseInt(shade.slice(at, at + 2), 16)));
function shade(share) {
  const at = Math.min(1, Math.max(0, share)) * (SHADES.length - 1);
  const low = Math.min(SHADES.length - 2, Math.floor(at));
  return SHADES[low].map((value, channel) => Math.round(value + (at - low) * (SHADES[low + 1][channel] - value)));
}

function heatMap(name, heat, table, place, kind) {
  const columns = heat.rounds.length, lines = table.length;
  const known = table.flat().filter((value) => value !== null);
  const canvas = html("canvas", { width: columns, height: lines, role: "img", style: `height:${Math.min(200, Math.max(80, lines * 7))}px`,
    "aria-label": `${name}, ${kind.label.toLowerCase()} per client and round: from ${kind.text(Math.min(...known))} to ${kind.text(Math.max(...known))}` });
  const pixels = new ImageData(columns, lines);
  table.forEach((values, row) => values.forEach((value, column) => {
    if (value !== null) pixels.data.set([...shade(place(value)), 255], 4 * (row * columns + column));
  }));
  canvas.getContext("2d").putImageData(pixels, 0, 0);
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const column = Math.min(columns - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * columns)));
    const row = Math.min(lines - 1, Math.max(0, Math.floor(((event.clientY - box.top) / box.height) * lines)));
    const last = (heat.rounds[column + 1] ?? heat.last + 1) - 1;
    const span = last > heat.rounds[column] ? `rounds ${heat.rounds[column]}–${last}` : `round ${last}`;
    showTip(event, `${heat.clients[row]}, ${span}`, [["", kind.label.toLowerCase(), table[row][column] === null ? "did not take part" : kind.text(table[row][column])]]);
  });
  canvas.addEventListener("pointerleave", hideTip);
  return canvas;
}
