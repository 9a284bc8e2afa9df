"use strict";
// Small things that all figures share: elements, number formats, axes, the tooltip, redrawing at a new width.
const DATA = JSON.parse(document.getElementById("data").textContent);
const METHOD = Object.fromEntries(DATA.methods.map((method, place) => [method.name, { ...method, colour: `var(--m${place})` }]));
const byId = (id) => document.getElementById(id);

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  for (const child of [].concat(children ?? [])) node.append(child);
  return node;
}
const html = (tag, attributes, children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, children) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const line = (x1, y1, x2, y2, more) => svg("line", { x1, y1, x2, y2, ...more });
const words = (x, y, text, more) => svg("text", { x, y, ...more }, text);

function digits(value, significant = 3) {
  if (value === null || value === undefined || !isFinite(value)) return "–";
  if (value === 0) return "0";
  const exponent = Math.floor(Math.log10(Math.abs(value)));
  if (exponent >= significant - 1) return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
  return value.toFixed(Math.min(8, significant - 1 - exponent));
}
const UNITS = { time: [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]], data: [["GB", 1e9], ["MB", 1e6], ["kB", 1e3], ["B", 1]], count: [["", 1]] };
function unitFor(value, kind) {
  const least = kind === "time" ? 2 : 1;
  return UNITS[kind].find(([, size]) => value >= least * size) || UNITS[kind].at(-1);
}
function quantity(value, kind, [name, size] = unitFor(value, kind)) {
  if (value === null || value === undefined) return "–";
  if (kind === "count") return plain(Number(value.toFixed(1)));
  return `${digits(value / size)}\u00a0${name}`;
}
const percent = (share, decimals = 1) => `${(100 * share).toFixed(decimals)}\u00a0%`;

function ticks(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((each) => each >= rough);
  const result = [];
  for (let place = Math.ceil(low / step - 1e-9); place * step <= high + step * 1e-9; place++) result.push(place * step);
  return result;
}
const plain = (value) => String(Number(value.toPrecision(6)));

// A horizontal axis in the unit that suits its end; returns the scale.
function unitAxis(root, high, kind, left, right, top, bottom, title = "") {
  const [name, size] = unitFor(kind === "time" ? high / 2.5 : high, kind);
  const scale = (value) => left + (right - left) * (value / high);
  for (const tick of ticks(0, high / size, Math.max(2, (right - left) / 72)).filter((each) => kind !== "count" || Number.isInteger(each))) {
    const x = scale(tick * size);
    root.append(line(x, top, x, bottom, { class: "gridline" }), words(x, bottom + 16, plain(tick), { class: "soft", "text-anchor": "middle" }));
  }
  root.append(words(right, bottom + 32, [title, name].filter(Boolean).join(", "), { class: "soft", "text-anchor": "end" }));
  return scale;
}

// The same with equal steps for equal factors, from `start` to `end`.
const CLOCK = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 18000, 36000, 86400, 172800, 432000, 864000];
const DECADES = Array.from({ length: 14 }, (_, power) => [1, 2, 5].map((factor) => factor * 10 ** power)).flat();
function logAxis(root, start, end, kind, box, title) {
  const scale = (value) => box.left + (box.right - box.left) * (Math.log(Math.max(value, start) / start) / Math.log(end / start));
  let last = -Infinity;
  for (const mark of kind === "time" ? CLOCK : DECADES) {
    if (mark < start || mark > end || scale(mark) - last < 48) continue;
    last = scale(mark);
    const [name, size] = UNITS[kind].find(([, each]) => mark >= each);
    root.append(line(last, box.top, last, box.bottom, { class: "gridline" }), words(last, box.bottom + 16, `${plain(mark / size)}\u00a0${name}`.trim(), { class: "soft tick", "text-anchor": "middle" }));
  }
  root.append(words(box.right, box.bottom + 32, title, { class: "soft", "text-anchor": "end" }));
  return scale;
}

// kind: swatch of a method or a phase; rows: [colour, label, value]
function showTip(event, title, rows) {
  const tip = byId("tip");
  tip.replaceChildren(html("b", {}, title), ...rows.map(([colour, label, value]) =>
    html("div", {}, [colour ? html("i", { class: "swatch", style: `background:${colour}` }) : "", label, html("span", {}, value)])));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const x = event.clientX + 16 + box.width > innerWidth ? event.clientX - box.width - 16 : event.clientX + 16;
  const y = Math.min(event.clientY + 14, innerHeight - box.height - 8);
  tip.style.left = `${Math.max(6, x)}px`;
  tip.style.top = `${Math.max(6, y)}px`;
}
const hideTip = () => { byId("tip").hidden = true; };
const hover = (node, title, rows) => {
  node.addEventListener("pointermove", (event) => showTip(event, title, rows));
  node.addEventListener("pointerleave", hideTip);
  return node;
};

// Calls draw(width) now and whenever the container gets another width.
function responsive(container, draw) {
  let last = 0;
  const redraw = () => { const width = Math.floor(container.clientWidth); if (width > 0) { last = width; draw(width); } };
  new ResizeObserver(() => { if (Math.floor(container.clientWidth) !== last) requestAnimationFrame(redraw); }).observe(container);
  redraw();
  return redraw;
}

// Buttons of which one is on; calls pick(key).
function choice(container, options, pick) {
  const buttons = options.map(([key, label]) => html("button", {
    type: "button", onclick: () => { select(key); pick(key); },
  }, label));
  const select = (key) => buttons.forEach((button, place) => button.setAttribute("aria-pressed", String(options[place][0] === key)));
  container.setAttribute("role", "group");
  container.replaceChildren(...buttons);
  select(options[0][0]);
}
function phaseLegend(container, names) {
  container.replaceChildren(...names.map((name) => html("span", {}, [html("i", { class: "swatch", style: `background:var(--p-${name});margin:0` }), name])));
}
