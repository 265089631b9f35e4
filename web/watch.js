// SPDX-License-Identifier: Apache-2.0 OR MIT
// The page of `weirgate watch`. Text is only ever set as text, never as markup:
// names come from the kernel, the policy and the network.
"use strict";

const byId = (id) => document.getElementById(id);
const HOUR = 3600e3;
let about = { legend: { links: [], classes: [], rules: [] }, span_ms: null };
let now = null;
let period = { hours: 12, end: 0 };
// The period that the address asked for last.
let asked;

function element(name, properties, ...children) {
  const made = document.createElement(name);
  Object.assign(made, properties);
  made.append(...children);
  return made;
}

function drawn(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function human(value, unit) {
  if (value === undefined || value === null || Number.isNaN(value)) return "–";
  if (unit === "s") {
    return value >= 1 ? value.toFixed(2) + " s" : (value * 1e3).toFixed(1) + " ms";
  }
  const digits = (number) => (number >= 100 ? 0 : number >= 10 ? 1 : 2);
  for (const [size, prefix] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (value >= size) return (value / size).toFixed(digits(value / size)) + " " + prefix + unit;
  }
  return (Number.isInteger(value) || unit ? value.toFixed(0) : value.toFixed(1)) + (unit ? " " + unit : "");
}

// ---- Now ----

function className(labels) {
  const name = labels.class;
  return labels.direction ? labels.direction + " " + name : labels.device + " " + name;
}

function rows(table, all) {
  const body = byId(table).tBodies[0];
  body.replaceChildren(...all.map((cells) => {
    const row = document.createElement("tr");
    cells.forEach((cell, place) => {
      const made = document.createElement(place === 0 ? "th" : "td");
      if (place === 0) made.scope = "row";
      if (cell instanceof Node) made.append(cell); else made.textContent = cell;
      row.append(made);
    });
    return row;
  }));
}

const PROMISES = {
  idle: ["nothing waits", "faint"],
  kept: ["kept", "kept"],
  rate: ["broken: too little", "broken"],
  wait: ["broken: waits long", "broken"],
  unknown: ["unknown", "faint"],
};

function showNow() {
  if (!now) return;
  const of = (sort) => now.objects.filter((one) => one.sort === sort);
  // What stands above the policy's classes repeats their bytes.
  const named = of("class").filter((one) => one.labels.direction);
  const classes = named.length ? named : of("class");
  rows("classes", classes.map((one) => {
    const n = one.numbers;
    const [words, look] = PROMISES[one.promise] || ["", "faint"];
    const rate = n.sent_bytes === undefined ? undefined : n.sent_bytes * 8;
    return [
      className(one.labels), element("span", { className: look, textContent: words }),
      human(rate, "bit/s"), one.guaranteed ? human(one.guaranteed, "bit/s") : "–",
      // Measured packet by packet where that is allowed, else estimated.
      n.wait_95th_seconds === undefined ? human(n.estimated_wait_seconds, "s")
        : human(n.wait_seconds, "s") + ", 95 %: " + human(n.wait_95th_seconds, "s"),
      human(n.rtt_outside_seconds, "s"),
      n.backlog_packets ? human(n.backlog_packets, "") + " (" + human(n.backlog_bytes, "B") + ")" : "0",
      human(n.sent_packets, ""), human(n.drops, ""), human(n.marks, ""),
    ];
  }));
  byId("links").replaceChildren(...about.legend.links.map(([way, device, gate]) => {
    const own = classes.filter((one) => one.labels.device === device && one.labels.direction);
    const sum = own.reduce((all, one) => all + (one.numbers.sent_bytes || 0) * 8, 0);
    const words = way + " (" + device + "): " + human(sum, "bit/s") + " of " + human(gate, "bit/s");
    const bar = drawn("svg", { viewBox: "0 0 1000 10", preserveAspectRatio: "none", role: "img" });
    bar.setAttribute("aria-label", words);
    let x = 0;
    own.forEach((one, place) => {
      const width = Math.min(1000 - x, (one.numbers.sent_bytes || 0) * 8000 / gate);
      bar.append(drawn("rect", { x, y: 0, width, height: 10, class: "s" + place % 8 }));
      x += width;
    });
    return element("div", {}, element("div", { textContent: words }), element("div", { className: "bar" }, bar));
  }));
  rows("devices", of("device").map((one) => [
    one.labels.device, human(one.numbers.received_bytes * 8, "bit/s"),
    human(one.numbers.sent_bytes * 8, "bit/s"),
    human((one.numbers.sent_drops || 0) + (one.numbers.received_drops || 0), ""),
  ]));
  const probes = of("probe");
  byId("probes").hidden = probes.length === 0;
  rows("probes", probes.map((one) => [
    one.labels.probe, one.labels.host, human(one.numbers.rtt_seconds, "s"), human(one.numbers.lost, ""),
  ]));
  const connections = of("connections")[0];
  byId("connections").hidden = !connections;
  if (connections) {
    byId("connections").textContent = connections.numbers.tracked + " connections are tracked, " +
      connections.numbers.unanswered + " without an answer.";
  }
  showHosts(of("host"));
  const reasons = new Map(about.legend.rules.map((rule) => [rule.counter, rule]));
  const rules = of("rule");
  rows("rules", rules.map((one) => {
    const rule = reasons.get(one.labels.rule) || { line: 0, reason: "" };
    return [rule.line || "", rule.reason, human(one.numbers.packets, ""),
      human(one.numbers.bytes * 8, "bit/s"), one.labels.rule];
  }));
  byId("norules").hidden = rules.length > 0;
  byId("norules").textContent = about.without_privilege
    ? "Rules and connections cannot be read: " + about.without_privilege : "The policy has no rules that count.";
  byId("state").textContent = "at " + new Date(now.time_ms).toLocaleTimeString();
}

// ---- Hosts ----

function showHosts(hosts) {
  const rate = (one) => (one.numbers.received_bytes || 0) + (one.numbers.sent_bytes || 0);
  hosts.sort((one, other) => rate(other) - rate(one));
  rows("hosts", hosts.map((one) => {
    const n = one.numbers;
    const address = one.labels.host;
    return [
      element("a", { href: "#hosts/" + encodeURIComponent(address), textContent: address }),
      human(n.received_bytes * 8, "bit/s"), human(n.sent_bytes * 8, "bit/s"),
      human(n.rtt_inside_seconds, "s"), human(n.rtt_outside_seconds, "s"),
    ];
  }));
  byId("nohosts").hidden = hosts.length > 0;
  byId("nohosts").textContent = about.without_packets
    ? "Packets that pass cannot be looked at: " + about.without_packets
    : about.legend.inside.length ? "No host was heard of yet."
      : "No device on the inside is known: the policy has no `lan`.";
}

const HOST_GRAPHS = [
  { title: "Receives", metric: "host_received_bytes", unit: "bit/s", factor: 8 },
  { title: "Sends", metric: "host_sent_bytes", unit: "bit/s", factor: 8 },
  { title: "Round trip to it", metric: "host_rtt_inside_seconds", unit: "s", factor: 1e-6 },
  { title: "Round trip outside", metric: "host_rtt_outside_seconds", unit: "s", factor: 1e-6 },
];

// One host's history, of the period that the history shows.
async function showHost(address) {
  byId("host-name").textContent = address ? "Host " + address : "";
  byId("host-graphs").replaceChildren();
  if (address) {
    await drawGraphs("host-graphs", HOST_GRAPHS, (name) => labelsOf(name).host === address);
  }
}

// ---- History ----

const GRAPHS = [
  { title: "Rate by class", metric: "class_sent_bytes", unit: "bit/s", factor: 8, sum: "all classes" },
  { title: "Wait by class, measured", metric: "class_wait_seconds", unit: "s", factor: 1e-6 },
  { title: "Wait by class, measured: 95 % wait no longer", metric: "class_wait_95th_seconds", unit: "s", factor: 1e-6 },
  { title: "Round trips of TCP by class, to the outside", metric: "class_rtt_outside_seconds", unit: "s", factor: 1e-6 },
  { title: "Wait by class, estimated: the first classes", metric: "class_estimated_wait_seconds", unit: "s", factor: 1e-6, first: 2 },
  { title: "Wait by class, estimated: all", metric: "class_estimated_wait_seconds", unit: "s", factor: 1e-6 },
  { title: "Round trips of probes", metric: "probe_rtt_seconds", unit: "s", factor: 1e-6 },
  { title: "Probes lost by the second", metric: "probe_lost", unit: "", factor: 1 },
  { title: "Bytes waiting", metric: "class_backlog_bytes", unit: "B", factor: 1 },
  { title: "Packets dropped by the second", metric: "class_drops", unit: "", factor: 1 },
  { title: "Received by device", metric: "device_received_bytes", unit: "bit/s", factor: 8 },
];

function labelsOf(name) {
  const labels = {};
  for (const [, key, value] of name.matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g)) {
    labels[key] = value.replace(/\\(.)/g, (_, letter) => (letter === "n" ? "\n" : letter));
  }
  return labels;
}

// Leaves of the policy first; what stands above them repeats their bytes.
function wanted(names, graph) {
  let own = names.filter((name) => name.startsWith(graph.metric + "{"));
  if (graph.metric.startsWith("class_")) {
    const known = own.filter((name) => labelsOf(name).direction);
    if (known.length) own = known;
    const order = new Map(about.legend.classes.map((one, place) => [one.device + " " + one.handle, place]));
    const place = (name) => order.get(labelsOf(name).device + " " + labelsOf(name).handle) ?? 1e6;
    own.sort((one, other) => place(one) - place(other));
    if (graph.first) {
      const seen = {};
      own = own.filter((name) => (seen[labelsOf(name).device] = (seen[labelsOf(name).device] || 0) + 1) <= graph.first);
    }
  }
  return own.slice(0, 24);
}

const title = (name) => {
  const labels = labelsOf(name);
  if (labels.class !== undefined) return className(labels);
  return labels.probe || labels.host || labels.device || name;
};

async function get(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

const query = (names, from, to, step) =>
  "from=" + Math.round(from) + "&to=" + Math.round(to) + "&step=" + Math.round(step) +
  names.map((name) => "&series=" + encodeURIComponent(name)).join("");

let drawing = 0;

function showHistory() {
  document.querySelectorAll("[data-hours]").forEach((button) =>
    button.setAttribute("aria-pressed", String(Number(button.dataset.hours) === period.hours)));
  return drawGraphs("graphs", GRAPHS, () => true);
}

// Draws those graphs that something is known for, of the series that are
// `chosen`.
async function drawGraphs(place, graphs, chosen) {
  const mine = ++drawing;
  const hours = period.hours;
  const latest = about.span_ms ? about.span_ms[1] : Date.now();
  const end = period.end || Math.max(latest, now ? now.time_ms : 0);
  const start = end - hours * HOUR;
  byId("span").textContent = new Date(start).toLocaleString() + " to " + new Date(end).toLocaleString();
  const step = Math.max(1000, (end - start) / 600);
  try {
    const known = (await get("api/series?from=" + Math.round(start) + "&to=" + Math.round(end))).series;
    const names = known.filter(chosen);
    const compare = Number(byId("compare").value);
    const back = compare === 1 ? end - start : compare * HOUR;
    const figures = [];
    const all = [];
    for (const graph of graphs) {
      const own = wanted(names, graph);
      if (!own.length) continue;
      all.push(...own);
      const data = await get("api/read?" + query(own, start, end, step));
      const before = back ? await get("api/read?" + query(own, start - back, end - back, step)) : null;
      if (mine !== drawing) return;
      figures.push(figure(graph, own, data, before, back, start, end));
    }
    byId(place).replaceChildren(...figures);
    if (!figures.length) byId(place).textContent = "Nothing is known of this time.";
    byId("csv").href = "api/read.csv?" + query([...new Set(all)].slice(0, 64), start, end, step);
    byId(place).dataset.ready = String(mine);
  } catch (error) {
    if (mine === drawing) byId(place).textContent = "The history cannot be read: " + error.message;
  }
}

// Points with a gap where nothing is known: more than two steps apart.
function path(points, x, y, value) {
  let text = "";
  let last = null;
  for (const point of points) {
    const gap = last === null || point[0] - last[1] > 2 * (point[1] - point[0]);
    const middle = (point[0] + point[1]) / 2;
    text += (gap ? "M" : "L") + x(middle).toFixed(1) + " " + y(value(point)).toFixed(1);
    if (gap) text += "h.5";
    last = point;
  }
  return text;
}

// The range from least to greatest, in pieces where something is not known.
function area(points, x, y, factor) {
  let from = 0;
  let text = "";
  points.forEach((point, place) => {
    const next = points[place + 1];
    if (next && next[0] - point[1] <= 2 * (point[1] - point[0])) return;
    text += piece(points.slice(from, place + 1), x, y, factor);
    from = place + 1;
  });
  return text;
}

function piece(points, x, y, factor) {
  if (points.length < 2) return "";
  const top = points.map((p) => x((p[0] + p[1]) / 2).toFixed(1) + " " + y(p[4] * factor).toFixed(1));
  const bottom = points.map((p) => x((p[0] + p[1]) / 2).toFixed(1) + " " + y(p[3] * factor).toFixed(1));
  return "M" + top.join("L") + "L" + bottom.reverse().join("L") + "Z";
}

// The sums of what goes one way through one device, where the policy names it.
function summed(names, data) {
  const groups = new Map();
  for (const name of names) {
    const labels = labelsOf(name);
    if (!labels.direction) continue;
    const all = groups.get(labels.direction) || new Map();
    groups.set(labels.direction, all);
    for (const p of data.series[name].points) {
      const sum = all.get(p[0]) || [p[0], p[1], 0];
      sum[2] += p[2];
      all.set(p[0], sum);
    }
  }
  return [...groups].map(([name, all]) =>
    ({ name, points: [...all.values()].sort((one, other) => one[0] - other[0]) }));
}

function figure(graph, names, data, before, back, start, end) {
  const width = 640, height = 240, left = 72, right = 8, top = 8, bottom = 24;
  const lines = names.map((name) => ({ name: title(name), points: data.series[name].points,
    old: before ? before.series[name].points.map((p) => [p[0] + back, p[1] + back, ...p.slice(2)]) : [] }));
  const gauge = names.some((name) => data.series[name].kind === "gauge");
  let most = 0;
  for (const line of lines) {
    for (const p of [...line.points, ...line.old]) {
      most = Math.max(most, (gauge ? p[4] : p[2]) * graph.factor);
    }
  }
  const sums = graph.sum ? summed(names, data) : [];
  for (const sum of sums) {
    for (const p of sum.points) most = Math.max(most, p[2] * graph.factor);
  }
  most = most || 1;
  const x = (time) => left + (time - start) / (end - start) * (width - left - right);
  const y = (value) => height - bottom - value / most * (height - top - bottom);
  const svg = drawn("svg", { viewBox: "0 0 " + width + " " + height, role: "img" });
  const values = lines.flatMap((line) => line.points.map((p) => (gauge ? p[4] : p[2]) * graph.factor));
  svg.setAttribute("aria-label", graph.title + ": " + lines.length + " series, at most " +
    human(values.reduce((one, other) => Math.max(one, other), 0), graph.unit));
  for (let part = 0; part <= 4; part++) {
    const value = most * part / 4;
    svg.append(drawn("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), class: "axis" }));
    const words = drawn("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end", class: "tick" });
    words.textContent = human(value, graph.unit);
    svg.append(words);
  }
  const long = end - start > 49 * HOUR;
  for (let part = 0; part <= 4; part++) {
    const time = start + (end - start) * part / 4;
    const anchor = part === 0 ? "start" : part === 4 ? "end" : "middle";
    const words = drawn("text", { x: x(time), y: height - 6, "text-anchor": anchor, class: "tick" });
    words.textContent = long ? new Date(time).toLocaleDateString()
      : new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    svg.append(words);
  }
  for (const event of data.events.slice(-100)) {
    const line = drawn("line", { x1: x(event.time_ms), x2: x(event.time_ms), y1: top, y2: height - bottom, class: "event" });
    const words = drawn("title", {});
    words.textContent = new Date(event.time_ms).toLocaleString() + ": " + event.text;
    line.append(words);
    svg.append(line);
  }
  const key = element("ul", { className: "key" });
  const entry = (look, words) => {
    const sample = drawn("svg", { viewBox: "0 0 20 6", "aria-hidden": "true" });
    sample.append(drawn("path", { d: "M0 3H20", class: "now " + look }));
    const item = element("li", {}, words);
    item.prepend(sample);
    key.append(item);
  };
  lines.forEach((line, place) => {
    const look = "s" + place % 8 + (place >= 8 ? " d" + Math.floor(place / 8) % 3 : "");
    if (gauge) svg.append(drawn("path", { d: area(line.points, x, y, graph.factor), class: "range s" + place % 8 }));
    svg.append(drawn("path", { d: path(line.old, x, y, (p) => p[2] * graph.factor), class: "before " + look }));
    svg.append(drawn("path", { d: path(line.points, x, y, (p) => p[2] * graph.factor), class: "now " + look }));
    const peak = line.points.reduce((most, p) => Math.max(most, p[4] * graph.factor), 0);
    entry(look, line.name + ", at most " + human(peak, graph.unit));
  });
  sums.forEach((sum, place) => {
    const look = "s7" + (place ? " d" + place % 3 : "");
    svg.append(drawn("path", { d: path(sum.points, x, y, (p) => p[2] * graph.factor), class: "now " + look }));
    entry(look, graph.sum + " " + sum.name);
  });
  zoom(svg, (part) => start + (part * width - left) / (width - left - right) * (end - start));
  return element("figure", {}, element("figcaption", { textContent: graph.title }), svg, key);
}

// Dragging over a graph shows that part of the time.
function zoom(svg, timeAt) {
  let from = null;
  let mark = null;
  const part = (event) => (event.clientX - svg.getBoundingClientRect().left) / svg.getBoundingClientRect().width;
  svg.addEventListener("pointerdown", (event) => {
    from = part(event);
    mark = drawn("rect", { y: 0, height: 240, x: from * 640, width: 0, class: "pick" });
    svg.append(mark);
  });
  svg.addEventListener("pointermove", (event) => {
    if (from === null) return;
    mark.setAttribute("x", Math.min(from, part(event)) * 640);
    mark.setAttribute("width", Math.abs(part(event) - from) * 640);
  });
  svg.addEventListener("pointercancel", () => { if (mark) mark.remove(); from = null; });
  svg.addEventListener("pointerup", (event) => {
    if (from === null) return;
    const [start, end] = [from, part(event)].sort((one, other) => one - other).map(timeAt);
    mark.remove();
    from = null;
    if (end - start > 5000) {
      period = { hours: (end - start) / HOUR, end };
      showView();
    }
  });
}

function move(by, factor) {
  const latest = Math.max(about.span_ms ? about.span_ms[1] : 0, now ? now.time_ms : 0) || Date.now();
  const length = period.hours * HOUR;
  const end = (period.end || latest) + by * length;
  const middle = end - length / 2;
  period.hours = Math.min(50000, Math.max(0.01, period.hours * factor));
  const moved = factor === 1 ? end : middle + period.hours * HOUR / 2;
  period.end = moved >= latest ? 0 : moved;
  showHistory();
}

// ---- Events ----

async function showEvents() {
  const end = Date.now() + HOUR;
  try {
    const events = (await get("api/events?from=" + (end - 720 * HOUR) + "&to=" + end)).events;
    rows("events", events.reverse().slice(0, 500).map((event) =>
      [new Date(event.time_ms).toLocaleString(), event.kind, event.text]));
  } catch (error) {
    rows("events", [["", "", "Events cannot be read: " + error.message]]);
  }
}

// ---- The page ----

function showView() {
  const [view, option] = (location.hash.slice(1) || "now").split("/");
  const known = ["now", "history", "hosts", "rules", "events"].includes(view) ? view : "now";
  for (const section of document.querySelectorAll("main > section")) {
    section.hidden = section.id !== "view-" + known;
  }
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === "#" + known) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (known === "history") {
    if (option && option !== asked) period = { hours: Number(option) || 12, end: 0 };
    asked = option;
    showHistory();
  }
  if (known === "hosts") showHost(option ? decodeURIComponent(option) : "");
  if (known === "events") showEvents();
}

async function loadAbout() {
  about = await get("api/about");
  const history = about.history;
  const steps = history.spans_ms.map((span, place) => span &&
    (history.steps_ms[place] ? "steps of " + history.steps_ms[place] / 60000 + " min" : "as seen") +
    " since " + new Date(span[0]).toLocaleString()).filter(Boolean);
  byId("about").textContent = "weirgate " + about.version +
    (about.legend.source ? ", policy " + about.legend.source : ", no policy known: classes have numbers") +
    "; history: " + history.series + " series, at most " + human(history.bytes, "B") +
    (steps.length ? ", " + steps.join(", ") : "");
  const troubles = [];
  if (history.failing) troubles.push(history.failing);
  if (history.lost) troubles.push(history.lost + " rows of the history were lost");
  if (history.left_out) troubles.push(history.left_out + " values had no room in the history");
  byId("warning").hidden = troubles.length === 0;
  byId("warning").textContent = troubles.join("; ");
}

function listen() {
  const source = new EventSource("api/live");
  source.onmessage = (event) => {
    now = JSON.parse(event.data);
    showNow();
  };
  source.onerror = () => { byId("state").textContent = "no connection; trying again"; };
}

for (const button of document.querySelectorAll("[data-hours]")) {
  button.addEventListener("click", () => {
    period = { hours: Number(button.dataset.hours), end: 0 };
    showHistory();
  });
}
byId("earlier").addEventListener("click", () => move(-0.5, 1));
byId("later").addEventListener("click", () => move(0.5, 1));
byId("closer").addEventListener("click", () => move(0, 0.5));
byId("farther").addEventListener("click", () => move(0, 2));
byId("compare").addEventListener("change", showHistory);
addEventListener("hashchange", showView);

(async () => {
  try {
    await loadAbout();
    now = await get("api/now").catch(() => null);
    showNow();
  } catch (error) {
    byId("state").textContent = "no connection: " + error.message;
  }
  showView();
  // A browser test asks for a page that comes to rest.
  if (!location.search.includes("still")) {
    listen();
    setInterval(() => loadAbout().catch(() => {}), 60e3);
  }
})();
