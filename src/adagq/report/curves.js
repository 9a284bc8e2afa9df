// Accuracy over time: mean and band per method, single seeds thin, the target and when it was reached.
function drawAccuracy() {
  const names = byTime().map((method) => method.name).filter((name) => DATA.curves[name]);
  const hidden = new Set();
  const views = accuracyViews(names);
  let view = views[0][0];
  let redraw = () => {};
  byId("accuracy-legend").replaceChildren(...names.map((name) => {
    const button = html("button", { type: "button", "aria-pressed": "true" }, [
      svg("svg", { viewBox: "0 0 26 10", "aria-hidden": "true" }, line(1, 5, 25, 5, { stroke: METHOD[name].colour, "stroke-width": 3, "stroke-dasharray": METHOD[name].dash })), name,
      html("small", {}, METHOD[name].reached ? quantity(METHOD[name].means.seconds, "time") : "missed")]);
    button.addEventListener("click", () => {
      hidden.has(name) ? hidden.delete(name) : hidden.add(name);
      button.setAttribute("aria-pressed", String(!hidden.has(name)));
      redraw();
    });
    return button;
  }));
  choice(byId("accuracy-scale"), views, (key) => { view = key; redraw(); });
  redraw = responsive(byId("accuracy-plot"), (width) => accuracyChart(width, names.filter((name) => !hidden.has(name)), view));
}

// Long after the target is on demand: at first the axis ends a little after the last method got there.
const lastTime = (names) => Math.max(1, ...names.flatMap((name) => DATA.curves[name].seeds.map(([seconds]) => seconds.at(-1))));
const targetTime = (names) => 1.15 * Math.max(0, ...names.filter((name) => METHOD[name].reached).map((name) => METHOD[name].means.seconds + METHOD[name].stds.seconds));
const accuracyViews = (names) => [
  ...(targetTime(names) > 0 && lastTime(names) > 1.2 * targetTime(names) ? [["target", "To the target"]] : []),
  ["all", "All rounds"],
  ["log", "Log time"],
];

function accuracyChart(width, names, view) {
  const wide = width > 620;
  const logarithmic = view === "log";
  const box = { left: 46, right: width - 12, top: 12, bottom: (wide ? 420 : 320) - 42 };
  const root = svg("svg", { viewBox: `0 0 ${width} ${box.bottom + 42}`, height: box.bottom + 42, role: "img", tabindex: "0", "aria-label": accuracyText(names) });
  const all = names.flatMap((name) => DATA.curves[name].seeds);
  const times = all.flatMap(([seconds]) => seconds);
  const values = all.flatMap(([, accuracies]) => accuracies);
  const end = names.some((name) => DATA.curves[name].grid.length === 1) ? 1.05 * lastTime(names) : view === "target" && targetTime(names) > 0 ? Math.min(targetTime(names), lastTime(names)) : lastTime(names);
  const start = times.length ? Math.min(...times) : 0;
  const low = Math.max(0, Math.floor(20 * Math.min(DATA.target, ...values)) / 20);
  const high = Math.min(1, Math.ceil(20 * Math.max(DATA.target, ...values) + 0.2) / 20);
  const y = (value) => box.bottom - (box.bottom - box.top) * ((value - low) / (high - low || 1));
  let x;
  for (const tick of ticks(low, high, (box.bottom - box.top) / 48)) {
    root.append(line(box.left, y(tick), box.right, y(tick), { class: "gridline" }), words(box.left - 8, y(tick) + 4, percent(tick, Number.isInteger(Number((100 * tick).toFixed(6))) ? 0 : 1), { class: "soft", "text-anchor": "end" }));
  }
  if (logarithmic && start > 0 && end > start) {
    x = (time) => box.left + (box.right - box.left) * (Math.log(Math.max(time, start) / start) / Math.log(end / start));
    let last = -Infinity;
    for (const mark of [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 18000, 36000, 86400, 172800, 432000, 864000]) {
      if (mark < start || mark > end || x(mark) - last < 48) continue;
      last = x(mark);
      root.append(line(last, box.top, last, box.bottom, { class: "gridline" }), words(last, box.bottom + 16, clockText(mark), { class: "soft tick", "text-anchor": "middle" }));
    }
  } else x = unitAxis(root, end, "time", box.left, box.right, box.top, box.bottom, `${DATA.time}, `);
  root.append(svg("clipPath", { id: "accuracy-clip" }, svg("rect", { x: box.left, y: box.top - 6, width: box.right - box.left, height: box.bottom - box.top + 6 })));
  const inner = svg("g", { "clip-path": "url(#accuracy-clip)" });
  root.append(inner);
  root.append(line(box.left, box.bottom, box.right, box.bottom, { class: "axis" }));
  root.append(line(box.left, y(DATA.target), box.right, y(DATA.target), { stroke: "var(--soft)", "stroke-dasharray": "3 3" }));
  const path = (xs, ys) => xs.map((each, place) => `${place ? "L" : "M"}${x(each).toFixed(1)} ${y(ys[place]).toFixed(1)}`).join("");
  for (const name of names) {
    const { grid, mean, std } = DATA.curves[name];
    const upper = path(grid, mean.map((value, place) => value + std[place]));
    const lower = path([...grid].reverse(), mean.map((value, place) => value - std[place]).reverse()).replace("M", "L");
    inner.append(svg("path", { d: `${upper}${lower}Z`, fill: METHOD[name].colour, opacity: 0.15 }));
  }
  for (const name of names) {
    const { colour, dash, width: stroke } = METHOD[name];
    if (DATA.curves[name].seeds.length > 1) {
      for (const [seconds, accuracies] of DATA.curves[name].seeds) inner.append(svg("path", { d: path(seconds, accuracies), fill: "none", stroke: colour, "stroke-width": 0.8, opacity: 0.45 }));
    }
    if (DATA.curves[name].grid.length === 1) inner.append(svg("circle", { cx: x(DATA.curves[name].grid[0]), cy: y(DATA.curves[name].mean[0]), r: 3.5, fill: colour }));
    inner.append(svg("path", { class: "curve", d: path(DATA.curves[name].grid, DATA.curves[name].mean), fill: "none", stroke: colour, "stroke-width": stroke, "stroke-dasharray": dash, "stroke-linejoin": "round" }));
  }
  for (const name of names.filter((each) => METHOD[each].reached > 0)) {
    const { colour, means, stds } = METHOD[name];
    if (stds.seconds) root.append(line(x(Math.max(0, means.seconds - stds.seconds)), y(DATA.target), x(Math.min(end, means.seconds + stds.seconds)), y(DATA.target), { stroke: colour, "stroke-width": 3 }));
    root.append(svg("circle", { cx: x(means.seconds), cy: y(DATA.target), r: 4.5, fill: "var(--card)", stroke: colour, "stroke-width": 2.2 }));
  }
  root.append(words(box.left + 6, y(DATA.target) - 7, `target ${target()}`, { class: "soft", "paint-order": "stroke", stroke: "var(--card)", "stroke-width": 4 }));
  crosshair(root, names, x, box, start, end, logarithmic);
  byId("accuracy-plot").replaceChildren(root);
}

function crosshair(root, names, x, box, start, end, logarithmic) {
  const mark = line(0, box.top, 0, box.bottom, { stroke: "var(--soft)", visibility: "hidden" });
  root.append(mark);
  const show = (time, event) => {
    mark.setAttribute("x1", x(time)); mark.setAttribute("x2", x(time)); mark.setAttribute("visibility", "visible");
    const rows = names.map((name) => ({ name, at: reading(DATA.curves[name], time) })).filter((row) => row.at)
      .sort((a, b) => b.at[0] - a.at[0])
      .map(({ name, at }) => [METHOD[name].colour, name, `${percent(at[0])}${DATA.seeds.length > 1 ? ` ± ${(100 * at[1]).toFixed(1)}` : ""}`]);
    showTip(event, quantity(time, "time"), rows);
  };
  const hide = () => { mark.setAttribute("visibility", "hidden"); hideTip(); };
  const timeAt = (clientX) => {
    const share = (clientX - root.getBoundingClientRect().left - box.left) / (box.right - box.left);
    const within = Math.min(1, Math.max(0, share));
    return logarithmic && start > 0 ? start * (end / start) ** within : within * end;
  };
  root.addEventListener("pointermove", (event) => show(timeAt(event.clientX), event));
  root.addEventListener("pointerdown", (event) => show(timeAt(event.clientX), event));
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
    show(timeAt(clientX), { clientX, clientY: place.top + 60 });
  });
}

// Mean and deviation at a time, null before the first evaluation and after the last.
function reading({ grid, mean, std }, time) {
  if (!grid.length || time < grid[0] || time > grid.at(-1)) return null;
  const after = Math.max(1, grid.findIndex((each) => each >= time));
  if (grid.length === 1) return [mean[0], std[0]];
  const share = (time - grid[after - 1]) / (grid[after] - grid[after - 1] || 1);
  const between = (list) => list[after - 1] + share * (list[after] - list[after - 1]);
  return [between(mean), between(std)];
}
function clockText(seconds) {
  const [name, size] = UNITS.time.find(([, each]) => seconds >= each);
  return `${plain(seconds / size)}\u00a0${name}`;
}
const target = () => percent(DATA.target).replace(".0", "");
const accuracyText = (names) => `Accuracy over ${DATA.time}. ${names.map((name) => {
  const method = METHOD[name];
  return method.reached > 0 ? `${name} reaches ${target()} after ${quantity(method.means.seconds, "time")}` : `${name} misses ${target()}`;
}).join("; ")}.`;
