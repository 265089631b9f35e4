// SPDX-License-Identifier: Apache-2.0 OR MIT
// The page of `weirgate watch`. Text is only ever set as text, never as markup:
// names come from the kernel, the policy and the network.
"use strict";

import { drawn, element, figure, histogram, human } from "./figures.js";

const byId = (id) => document.getElementById(id);
const HOUR = 3600e3;
let about = { legend: { links: [], classes: [], rules: [] }, span_ms: null };
let now = null;
let period = { hours: 12, end: 0 };
// The period that the address asked for last.
let asked;

// ---- Now ----

function className(labels) {
  const name = labels.class;
  return labels.direction ? labels.direction + " " + name : labels.device + " " + name;
}

// Where a class stands in the policy, so that it has the same colour everywhere.
function inOrder() {
  const order = new Map(about.legend.classes.map((one, place) => [one.device + " " + one.handle, place]));
  return (labels) => order.get(labels.device + " " + labels.handle) ?? 1e6;
}

// Changes only what is another, so that the keyboard's place and what is marked
// stay where they are from look to look.
function rows(table, all) {
  const body = byId(table).tBodies[0];
  const place = body.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  while (body.rows.length > all.length) body.deleteRow(-1);
  all.forEach((cells, line) => {
    const row = body.rows[line] || body.insertRow();
    cells.forEach((cell, column) => {
      if (!row.cells[column]) {
        row.append(element(column === 0 ? "th" : "td", column === 0 ? { scope: "row" } : {}));
      }
      const node = cell instanceof Node ? cell : document.createTextNode(cell);
      const before = row.cells[column].firstChild;
      if (!before || !before.isEqualNode(node)) row.cells[column].replaceChildren(node);
    });
  });
  if (place && !body.contains(document.activeElement)) {
    [...body.querySelectorAll("a")].find((link) => link.getAttribute("href") === place)?.focus();
  }
}

const PROMISES = {
  idle: ["nothing waits", "faint"],
  kept: ["kept", "kept"],
  rate: ["broken: too little", "broken"],
  wait: ["broken: waits long", "broken"],
  unknown: ["unknown", "faint"],
};

// What waits, in packets and bytes.
function waiting(n) {
  return n.backlog_packets ? human(n.backlog_packets, "") + " (" + human(n.backlog_bytes, "B") + ")" : "0";
}

// A part of a whole in percent.
function part(some, whole) {
  return some === undefined || !whole ? "–" : (Math.min(1, some / whole) * 100).toFixed(0) + " %";
}

// The part of what is sent that is the link layer's: its packets' mean length on
// the wire against that in IP bytes.
function overhead(n) {
  if (!n.sent_packets || !n.timed_packets || n.ip_bytes === undefined) return undefined;
  return Math.max(0, 1 - (n.ip_bytes / n.timed_packets) / (n.sent_bytes / n.sent_packets));
}

const end = (address, port) =>
  !port ? address : address.includes(":") ? "[" + address + "]:" + port : address + ":" + port;

function showFlows(flows) {
  byId("flows").hidden = !flows.length;
  rows("flows", flows.slice(0, 10).map((flow) => [
    end(flow.host, flow.host_port), end(flow.remote, flow.remote_port), flow.protocol,
    (flow.up_class || "–") + ", " + (flow.down_class || "–"),
    human(flow.down, "bit/s"), human(flow.up, "bit/s"),
  ]));
}

// The class whose queue it is, where the policy names it.
function queueName(labels) {
  const minor = labels.parent.split(":")[1];
  const own = about.legend.classes.find((one) =>
    one.device === labels.device && (one.handle === labels.parent || one.handle.split(":")[1] === minor));
  return own ? own.direction + " " + own.name : labels.device + " " + labels.parent;
}

function showQueues(queues, tins, services) {
  const ofTins = tins.map((one) => {
    const n = one.numbers;
    return [queueName(one.labels) + ", " + one.labels.tin, "tin of cake", waiting(n),
      human(n.delay_seconds, "s"), "–", String(n.flows), human(n.drops, ""), "–", human(n.marks, "")];
  });
  rows("queues", queues.map((one) => {
    const n = one.numbers;
    const dropping = n.aqm_dropping === undefined ? "–" : n.aqm_dropping ? "drops now" : "lets go";
    return [
      queueName(one.labels), one.labels.kind, waiting(n),
      human(n.aqm_delay_seconds, "s"),
      n.aqm_probability === undefined ? dropping : (n.aqm_probability * 100).toFixed(2) + " %",
      n.aqm_flows === undefined ? "–" : String(n.aqm_flows),
      human(n.drops, ""), human(n.aqm_full_drops, ""), human(n.marks, ""),
    ];
  }).concat(ofTins));
  services.sort((one, other) => other.numbers.connections - one.numbers.connections);
  byId("services").hidden = !services.length;
  rows("services", services.map((one) => [
    one.labels.protocol + (one.labels.port ? " " + one.labels.port : ""),
    String(one.numbers.connections), String(one.numbers.unanswered),
  ]));
}

// A row for each conditioner, of the objects for its colours.
function showConditioners(objects) {
  const all = new Map();
  for (const one of objects) {
    const key = one.labels.conditioner + " " + one.labels.at + " " + one.labels.device;
    if (!all.has(key)) all.set(key, { labels: one.labels });
    all.get(key)[one.labels.colour] = human(one.numbers.bytes * 8, "bit/s");
  }
  byId("conditioners").hidden = !all.size;
  rows("conditioners", [...all.values()].map((one) => [one.labels.conditioner,
    one.labels.at + " " + one.labels.device, one.green || "–", one.yellow || "–", one.red || "–"]));
}

function showWindows(objects) {
  byId("windows").hidden = !objects.length;
  rows("windows", objects.map(({ labels, numbers: n }) => [labels.device, human(n.rewritten_packets, ""),
    human(n.held_acknowledgements, ""), human(n.unknown_packets, ""), human(n.active, "")]));
}

// Rates of both directions.
function showRates(links, classes) {
  byId("rates").hidden = !links.length;
  byId("nolink").hidden = links.length > 0;
  byId("nolink").textContent = "No policy is known: name it with --policy.";
  rows("rates", links.map((one) => {
    const n = one.numbers;
    const own = classes.filter((other) => other.labels.device === one.labels.device && other.labels.direction);
    const sent = own.reduce((all, other) => all + (other.numbers.sent_bytes || 0) * 8, 0);
    const rate = n.rate_bits_per_second ?? n.policy_bits_per_second;
    return [
      one.labels.direction + " (" + one.labels.device + ")",
      human(sent, "bit/s") + ", " + part(sent, rate),
      human(n.rate_bits_per_second, "bit/s"), human(n.policy_bits_per_second, "bit/s"),
      n.tracked_blind ? element("span", { className: "broken", textContent: "nobody answers" })
        : human(n.tracked_bits_per_second, "bit/s"),
      n.tracked_floor_bits_per_second === undefined ? "–"
        : human(n.tracked_floor_bits_per_second, "bit/s") + ", " + human(n.tracked_ceiling_bits_per_second, "bit/s"),
    ];
  }));
}

function showNow() {
  if (!now) return;
  const of = (sort) => now.objects.filter((one) => one.sort === sort);
  // What stands above the policy's classes repeats their bytes.
  const named = of("class").filter((one) => one.labels.direction);
  const classes = named.length ? named : of("class");
  const place = inOrder();
  classes.sort((one, other) => place(one.labels) - place(other.labels));
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
      waiting(n),
      human(n.sent_packets, ""), human(n.drops, ""), human(n.marks, ""),
      part(n.borrowed_packets, n.sent_packets), part(overhead(n), 1),
      n.connections === undefined ? "–" : String(n.connections),
    ];
  }));
  const links = of("link");
  showRates(links, classes);
  showFlows(now.flows || []);
  showQueues(of("qdisc").filter((one) => one.labels.kind !== "noqueue"), of("tin"), of("service"));
  showConditioners(of("conditioner"));
  showWindows(of("receive"));
  byId("links").replaceChildren(...about.legend.links.map(([way, device, policy]) => {
    const link = links.find((one) => one.labels.device === device && one.labels.direction === way);
    const gate = (link && link.numbers.rate_bits_per_second) || policy;
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
    one.labels.probe, one.labels.host, human(one.numbers.rtt_seconds, "s"),
    human(one.numbers.variation_seconds, "s"), human(one.numbers.lost, ""),
  ]));
  const connections = of("connections")[0];
  byId("connections").hidden = !connections;
  if (connections) {
    byId("connections").textContent = connections.numbers.tracked + " connections are tracked, " +
      connections.numbers.unanswered + " without an answer" +
      (connections.numbers.limit ? "; there may be " + connections.numbers.limit : "") + ".";
  }
  showHosts(of("host"));
  const reasons = new Map(about.legend.rules.map((rule) => [rule.counter, rule]));
  const rules = of("rule");
  rows("rules-rows", rules.map((one) => {
    const rule = reasons.get(one.labels.rule) || { line: 0, reason: "" };
    return [rule.line || "", rule.reason, human(one.numbers.packets, ""),
      human(one.numbers.bytes * 8, "bit/s"), one.labels.rule];
  }));
  byId("norules").hidden = rules.length > 0;
  byId("norules").textContent = about.without_privilege
    ? "Rules and connections cannot be read: " + about.without_privilege : "The policy has no rules that count.";
  said("");
  byId("at").textContent = "at " + new Date(now.time_ms).toLocaleTimeString();
}

// ---- Hosts ----

function showHosts(hosts) {
  const rate = (one) => (one.numbers.received_bytes || 0) + (one.numbers.sent_bytes || 0);
  hosts.sort((one, other) => rate(other) - rate(one));
  const cells = hosts.map((one) => {
    const n = one.numbers;
    const address = one.labels.host;
    return [
      element("a", { href: "#hosts/" + encodeURIComponent(address), textContent: address }),
      human(n.received_bytes * 8, "bit/s"), human(n.sent_bytes * 8, "bit/s"),
      human(n.rtt_inside_seconds, "s"), human(n.rtt_outside_seconds, "s"),
    ];
  });
  byId("top-hosts").hidden = !hosts.length;
  // A node stands in one place only.
  rows("top-hosts", cells.slice(0, 5).map(([host, ...others]) => [host.cloneNode(true), ...others]));
  rows("hosts-rows", cells);
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

const LINK_RATES = ["link_rate_bits_per_second", "link_policy_bits_per_second", "link_tracked_bits_per_second"];

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
  { title: "Rate of the link", metrics: LINK_RATES, unit: "bit/s", factor: 1 },
  { title: "Connections by class", metric: "class_connections", unit: "", factor: 1 },
  { title: "Received by device", metric: "device_received_bytes", unit: "bit/s", factor: 8 },
];

const LINK_GRAPHS = [
  { title: "Rate of the link", metrics: LINK_RATES, unit: "bit/s", factor: 1 },
  { title: "Sent by class", metric: "class_sent_bytes", unit: "bit/s", factor: 8, sum: "all classes" },
  { title: "Round trips of probes", metric: "probe_rtt_seconds", unit: "s", factor: 1e-6 },
  { title: "How much a round trip differs from the one before", metric: "probe_variation_seconds", unit: "s", factor: 1e-6 },
  { title: "Probes lost by the second", metric: "probe_lost", unit: "", factor: 1 },
  { title: "Round trips of TCP by class, to the outside", metric: "class_rtt_outside_seconds", unit: "s", factor: 1e-6 },
  { title: "Dropped of what arrives, by the second", metric: "qdisc_drops", parent: "ingress", unit: "", factor: 1 },
  { title: "Receive windows changed by the second", metric: "receive_rewritten_packets", unit: "", factor: 1 },
  { title: "Delay by the queue management's own measure", metrics: ["qdisc_aqm_delay_seconds", "tin_delay_seconds"], unit: "s", factor: 1e-6 },
];

// What a histogram can be of.
const SPREADS = {
  probe_rtt_seconds: "round trips of the probe",
  class_wait_seconds: "waits of",
  class_rtt_outside_seconds: "round trips outside of",
  class_estimated_wait_seconds: "estimated waits of",
};

function labelsOf(name) {
  const labels = {};
  for (const [, key, value] of name.matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g)) {
    labels[key] = value.replace(/\\(.)/g, (_, letter) => (letter === "n" ? "\n" : letter));
  }
  return labels;
}

// Leaves of the policy first; what stands above them repeats their bytes.
function wanted(names, graph) {
  const metrics = graph.metrics || [graph.metric];
  let own = names.filter((name) => metrics.some((metric) => name.startsWith(metric + "{")));
  if (graph.parent) own = own.filter((name) => labelsOf(name).parent === graph.parent);
  if (metrics[0].startsWith("class_")) {
    const known = own.filter((name) => labelsOf(name).direction);
    if (known.length) own = known;
    const place = inOrder();
    own.sort((one, other) => place(labelsOf(one)) - place(labelsOf(other)));
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
  if (name.startsWith("link_")) {
    const words = { link_rate: "has", link_policy: "by the policy", link_tracked: "line as tracked" };
    return labels.direction + " " + (words[name.split("_bits")[0]] || name);
  }
  if (labels.parent !== undefined) return queueName(labels) + (labels.tin === undefined ? "" : ", " + labels.tin);
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
  return drawGraphs("graphs", GRAPHS, () => true);
}

async function showLink() {
  await drawGraphs("link-graphs", LINK_GRAPHS, () => true);
  await showSpread(true);
}

// The end of what is shown unless asked otherwise: the last look. What the
// history has beyond it is of a clock that was set back since.
function latest() {
  return now ? now.time_ms : about.span_ms ? about.span_ms[1] : Date.now();
}

function span() {
  const to = period.end || latest();
  return [to - period.hours * HOUR, to];
}

const spreadName = (name) => SPREADS[name.split("{")[0]] + " " + title(name);

// How the values of one series are spread: each as long as it held. `fresh` asks
// which series there are.
async function showSpread(fresh) {
  const [asked, to] = span();
  const from = about.span_ms ? Math.max(asked, about.span_ms[0]) : asked;
  const choice = byId("spread-of");
  try {
    if (fresh) {
      const known = (await get("api/series?from=" + Math.round(from) + "&to=" + Math.round(to))).series;
      const before = choice.value;
      const names = Object.keys(SPREADS).flatMap((metric) => wanted(known, { metric }));
      choice.replaceChildren(...names.map((name) =>
        element("option", { value: name, textContent: spreadName(name) })));
      if (names.includes(before)) choice.value = before;
    }
    byId("h-spread").hidden = choice.parentElement.hidden = !choice.value;
    byId("spread").replaceChildren();
    if (!choice.value) return;
    const step = to - from > 20000e3 ? (to - from) / 20000 : 0;
    const data = await get("api/read?" + query([choice.value], from, to, step));
    byId("spread").replaceChildren(...histogram(spreadName(choice.value), data.series[choice.value].points, step));
  } catch (error) {
    byId("spread").textContent = "The history cannot be read: " + error.message;
  }
}

function pressed() {
  document.querySelectorAll("[data-hours]").forEach((button) =>
    button.setAttribute("aria-pressed", String(Number(button.dataset.hours) === period.hours)));
}

// Draws those graphs that something is known for, of the series that are
// `chosen`.
async function drawGraphs(place, graphs, chosen) {
  const mine = ++drawing;
  const [start, end] = span();
  pressed();
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
      figures.push(figure(graph, shown(graph, own, data, before, back), start, end, pick));
    }
    byId(place).replaceChildren(...figures);
    if (!figures.length) byId(place).textContent = "Nothing is known of this time.";
    byId("csv").href = "api/read.csv?" + query([...new Set(all)].slice(0, 64), start, end, step);
    byId(place).dataset.ready = String(mine);
  } catch (error) {
    if (mine === drawing) byId(place).textContent = "The history cannot be read: " + error.message;
  }
}

// What a graph shows of its series: those of the time before moved by `back`.
function shown(graph, names, data, before, back) {
  const lines = names.map((name) => ({ name: title(name), points: data.series[name].points,
    old: before ? before.series[name].points.map((p) => [p[0] + back, p[1] + back, ...p.slice(2)]) : [] }));
  const gauge = names.some((name) => data.series[name].kind === "gauge");
  return { lines, gauge, sums: graph.sum ? summed(names, data) : [], events: data.events };
}

function pick(start, end) {
  period = { hours: (end - start) / HOUR, end };
  showView();
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

function move(by, factor) {
  const length = period.hours * HOUR;
  const end = (period.end || latest()) + by * length;
  const middle = end - length / 2;
  period.hours = Math.min(50000, Math.max(0.01, period.hours * factor));
  const moved = factor === 1 ? end : middle + period.hours * HOUR / 2;
  period.end = moved >= latest() ? 0 : moved;
  showView();
}

// ---- Events ----

async function showEvents() {
  const end = Math.max(latest(), about.span_ms ? about.span_ms[1] : 0) + HOUR;
  try {
    const events = (await get("api/events?from=" + (end - 720 * HOUR) + "&to=" + end)).events;
    rows("events-rows", events.reverse().slice(0, 500).map((event) =>
      [new Date(event.time_ms).toLocaleString(), event.kind, event.text]));
  } catch (error) {
    rows("events-rows", [["", "", "Events cannot be read: " + error.message]]);
  }
}

// ---- The page ----

function showView() {
  const [view, option] = (location.hash.slice(1) || "now").split("/");
  const known = ["now", "history", "hosts", "link", "rules", "events"].includes(view) ? view : "now";
  for (const section of document.querySelectorAll("main > section")) {
    section.hidden = section.id !== "view-" + known;
  }
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === "#" + known) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const timed = known === "history" || known === "link" || (known === "hosts" && Boolean(option));
  byId("period").hidden = byId("span").hidden = !timed;
  if (known === "history" || known === "link") {
    if (option && option !== asked) period = { hours: Number(option) || 12, end: 0 };
    asked = option;
    if (known === "link") showLink();
    else showHistory();
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

// What there is to say of the connection: read aloud when it is another, which
// the time of the last look is not.
function said(words) {
  if (byId("state").textContent !== words) byId("state").textContent = words;
}

// Looks are told while somebody can see them: a browser has few connections to one
// machine, and every page in the background would take one.
let source = null;

function listen() {
  if (document.hidden) {
    if (source) source.close();
    source = null;
  } else if (!source) {
    source = new EventSource("api/live");
    source.onmessage = (event) => {
      now = JSON.parse(event.data);
      showNow();
    };
    source.onerror = () => {
      said("no connection; trying again");
      // The browser tries again by itself, but not after it was refused.
      if (source && source.readyState === EventSource.CLOSED) {
        source = null;
        setTimeout(listen, 5000);
      }
    };
  }
}

for (const button of document.querySelectorAll("[data-hours]")) {
  button.addEventListener("click", () => {
    period = { hours: Number(button.dataset.hours), end: 0 };
    showView();
  });
}
byId("earlier").addEventListener("click", () => move(-0.5, 1));
byId("later").addEventListener("click", () => move(0.5, 1));
byId("closer").addEventListener("click", () => move(0, 0.5));
byId("farther").addEventListener("click", () => move(0, 2));
byId("compare").addEventListener("change", showView);
byId("spread-of").addEventListener("change", () => showSpread(false));
addEventListener("hashchange", showView);

(async () => {
  try {
    await loadAbout();
    now = await get("api/now").catch(() => null);
    showNow();
  } catch (error) {
    said("no connection: " + error.message);
  }
  showView();
  // A browser test asks for a page that comes to rest.
  if (!location.search.includes("still")) {
    listen();
    document.addEventListener("visibilitychange", listen);
    setInterval(() => loadAbout().catch(() => {}), 60e3);
  }
})();
