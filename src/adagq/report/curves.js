// Accuracy over time, data or rounds: mean and band per method, single seeds thin, the target and when it was reached.
const AXES = {
  time: { kind: "time", label: "Time", title: DATA.time },
  data: { kind: "data", label: "Data", title: "data per client, both ways" },
  rounds: { kind: "count", label: "Rounds", title: "rounds" },
};
const MARKED = 60;  // points of a curve that are few enough to be marked

function drawAccuracy() {
  const names = inOrder().map((method) => method.name).filter((name) => DATA.curves.time[name]);
  const state = { over: "time", view: "", hidden: new Set() };
  let redraw = () => {};
  const soonest = Math.min(...names.map((name) => METHOD[name].reach.time?.[0] ?? Infinity));
  const legend = () => byId("accuracy-legend").replaceChildren(...names.map((name) => {
    const kind = AXES[state.over].kind;
    const reach = METHOD[name].reach[state.over];
    const button = html("button", { type: "button", "aria-pressed": String(!state.hidden.has(name)) }, [
      svg("svg", { viewBox: "0 0 26 10", "aria-hidden": "true" }, line(1, 5, 25, 5, { stroke: METHOD[name].colour, "stroke-width": 3, "stroke-dasharray": METHOD[name].dash })), name,
      html("small", {}, reach ? quantity(reach[0], kind, unitFor(kind === "time" ? soonest : reach[0], kind)) : "missed")]);
    button.addEventListener("click", () => {
      state.hidden.has(name) ? state.hidden.delete(name) : state.hidden.add(name);
      button.setAttribute("aria-pressed", String(!state.hidden.has(name)));
      redraw();
    });
    return button;
  }));
  const choose = (over) => {
    state.over = over;
    const views = accuracyViews(names, over);
    state.view = views[0][0];
    byId("accuracy-title").textContent = `Accuracy over ${AXES[over].title}`;
    choice(byId("accuracy-scale"), views, (key) => { state.view = key; redraw(); });
    legend();
    redraw();
  };
  choice(byId("accuracy-over"), Object.entries(AXES).map(([key, { label }]) => [key, label]), choose);
  choose("time");
  redraw = responsive(byId("accuracy-plot"), (width) => accuracyChart(width, names.filter((name) => !state.hidden.has(name)), state.view, state.over));
}

// Long after the target is on demand: at first the axis ends a little after the last method got there.
const lastPoint = (names, over) => Math.max(1, ...names.flatMap((name) => DATA.curves[over][name].seeds.map(([x]) => x.at(-1))));
const targetPoint = (names, over) => 1.15 * Math.max(0, ...names.map((name) => METHOD[name].reach[over]).filter(Boolean).map(([mean, std]) => mean + std));
const accuracyViews = (names, over) => [
  ...(targetPoint(names, over) > 0 && lastPoint(names, over) > 1.2 * targetPoint(names, over) ? [["target", "To the target"]] : []),
  ["all", "All rounds"],
  ["log", "Log axis"],
];

function accuracyChart(width, names, view, over) {
  const wide = width > 620;
  const { kind, title } = AXES[over];
  const box = { left: 46, right: width - 12, top: 12, bottom: (wide ? 420 : 320) - 42 };
  const root = svg("svg", { viewBox: `0 0 ${width} ${box.bottom + 42}`, height: box.bottom + 42, role: "img", tabindex: "0", "aria-label": accuracyText(names, over) });
  const curves = Object.fromEntries(names.map((name) => [name, DATA.curves[over][name]]));
  const all = names.flatMap((name) => curves[name].seeds);
  const points = all.flatMap(([x]) => x);
  const values = all.flatMap(([, accuracies]) => accuracies);
  const last = lastPoint(names, over), needed = targetPoint(names, over);
  const end = names.some((name) => curves[name].grid.length === 1) ? 1.05 * last : view === "target" && needed > 0 ? Math.min(needed, last) : last;
  const start = points.length ? Math.min(...points) : 0;
  const low = Math.max(0, Math.floor(20 * Math.min(DATA.target, ...values)) / 20);
  const high = Math.min(1, Math.ceil(20 * Math.max(DATA.target, ...values) + 0.2) / 20);
  const y = (value) => box.bottom - (box.bottom - box.top) * ((value - low) / (high - low || 1));
  for (const tick of ticks(low, high, (box.bottom - box.top) / 48)) {
    root.append(line(box.left, y(tick), box.right, y(tick), { class: "gridline" }), words(box.left - 8, y(tick) + 4, percent(tick, Number.isInteger(Number((100 * tick).toFixed(6))) ? 0 : 1), { class: "soft", "text-anchor": "end" }));
  }
  const logarithmic = view === "log" && start > 0 && end > start;
  const x = logarithmic ? logAxis(root, start, end, kind, box, title) : unitAxis(root, end, kind, box.left, box.right, box.top, box.bottom, title);
  root.append(svg("clipPath", { id: "accuracy-clip" }, svg("rect", { x: box.left, y: box.top - 6, width: box.right - box.left, height: box.bottom - box.top + 6 })));
  const inner = svg("g", { "clip-path": "url(#accuracy-clip)" });
  root.append(inner);
  root.append(line(box.left, box.bottom, box.right, box.bottom, { class: "axis" }));
  root.append(line(box.left, y(DATA.target), box.right, y(DATA.target), { stroke: "var(--soft)", "stroke-dasharray": "3 3" }));
  const path = (xs, ys) => xs.map((each, place) => `${place ? "L" : "M"}${x(each).toFixed(1)} ${y(ys[place]).toFixed(1)}`).join("");
  for (const name of names) {
    const { grid, mean, std } = curves[name];
    const upper = path(grid, mean.map((value, place) => value + std[place]));
    const lower = path([...grid].reverse(), mean.map((value, place) => value - std[place]).reverse()).replace("M", "L");
    inner.append(svg("path", { d: `${upper}${lower}Z`, fill: METHOD[name].colour, opacity: 0.15 }));
  }
  for (const name of names) {
    const { colour, dash, width: stroke } = METHOD[name];
    const { seeds, grid, mean } = curves[name];
    if (seeds.length > 1) {
      for (const [xs, accuracies] of seeds) inner.append(svg("path", { d: path(xs, accuracies), fill: "none", stroke: colour, "stroke-width": 0.8, opacity: 0.45 }));
    }
    inner.append(svg("path", { class: "curve", d: path(grid, mean), fill: "none", stroke: colour, "stroke-width": stroke, "stroke-dasharray": dash, "stroke-linejoin": "round" }));
    if (seeds.length === 1 && grid.length <= MARKED) grid.forEach((each, place) => inner.append(svg("circle", { class: "measured", cx: x(each), cy: y(mean[place]), r: grid.length === 1 ? 3.5 : 2.4, fill: colour })));
  }
  for (const name of names.filter((each) => METHOD[each].reach[over])) {
    const { colour, reach: { [over]: [mean, std] } } = METHOD[name];
    if (std) root.append(line(x(Math.max(0, mean - std)), y(DATA.target), x(Math.min(end, mean + std)), y(DATA.target), { stroke: colour, "stroke-width": 3 }));
    root.append(svg("circle", { cx: x(mean), cy: y(DATA.target), r: 4.5, fill: "var(--card)", stroke: colour, "stroke-width": 2.2 }));
  }
  root.append(words(box.left + 6, y(DATA.target) - 7, `target ${target()}`, { class: "soft", "paint-order": "stroke", stroke: "var(--card)", "stroke-width": 4 }));
  crosshair(root, curves, over, x, box, start, end, logarithmic);
  byId("accuracy-plot").replaceChildren(root);
}

function crosshair(root, curves, over, x, box, start, end, logarithmic) {
  const mark = line(0, box.top, 0, box.bottom, { stroke: "var(--soft)", visibility: "hidden" });
  root.append(mark);
  const show = (point, event) => {
    mark.setAttribute("x1", x(point)); mark.setAttribute("x2", x(point)); mark.setAttribute("visibility", "visible");
    const rows = Object.keys(curves).map((name) => ({ name, at: reading(curves[name], point, over) })).filter((row) => row.at)
      .sort((a, b) => b.at[0] - a.at[0])
      .map(({ name, at }) => [METHOD[name].colour, name, `${percent(at[0])}${DATA.seeds.length > 1 ? ` ± ${(100 * at[1]).toFixed(1)}` : ""}`]);
    showTip(event, over === "rounds" ? `round ${Math.floor(point)}` : quantity(point, AXES[over].kind), rows);
  };
  const hide = () => { mark.setAttribute("visibility", "hidden"); hideTip(); };
  const pointAt = (clientX) => {
    const share = (clientX - root.getBoundingClientRect().left - box.left) / (box.right - box.left);
    const within = Math.min(1, Math.max(0, share));
    return logarithmic ? start * (end / start) ** within : within * end;
  };
  root.addEventListener("pointermove", (event) => show(pointAt(event.clientX), event));
  root.addEventListener("pointerdown", (event) => show(pointAt(event.clientX), event));
  root.addEventListener("pointerleave", hide);
  root.addEventListener("blur", hide);
  let share = 0.5;
  root.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -0.02, ArrowRight: 0.02 }[event.key];
    if (event.key === "Escape") hide();
    if (!step) return;
    event.preventDefault();
    share = Math.min(1, Math.max(0, share + step));
    const place = root.getBoundingClientRect();
    const clientX = place.left + box.left + share * (box.right - box.left);
    show(pointAt(clientX), { clientX, clientY: place.top + 60 });
  });
}

// Mean and deviation at a point: what was measured last, or between two points of a mean over seeds; null outside.
function reading({ seeds, grid, mean, std }, point, over) {
  if (!grid.length || point < grid[0] || point > grid.at(-1)) return null;
  const next = grid.findIndex((each) => each > point);
  const before = (next < 0 ? grid.length : next) - 1;
  if (seeds.length === 1 || over === "rounds" || next < 0) return [mean[before], std[before]];
  const share = (point - grid[before]) / (grid[next] - grid[before]);
  const between = (list) => list[before] + share * (list[next] - list[before]);
  return [between(mean), between(std)];
}
const target = () => percent(DATA.target).replace(".0", "");
const accuracyText = (names, over) => `Accuracy over ${AXES[over].title}. ${names.map((name) => {
  const reach = METHOD[name].reach[over];
  return reach ? `${name} reaches ${target()} after ${quantity(reach[0], AXES[over].kind)}` : `${name} misses ${target()}`;
}).join("; ")}.`;
