// SPDX-License-Identifier: Apache-2.0 OR MIT
// The page of `weirgate watch`. Text is only set as text, never as markup, because names
// come from the kernel, the policy and the network.
"use strict";

import { drawn, element, figure, histogram, human, strip } from "./figures.js";
import { chooseCircuit, followCircuits, startCircuits } from "./circuits.js";
import { CIRCUIT_GRAPHS, GRAPHS, HOST_GRAPHS, LINK_GRAPHS, NOW_GRAPHS, RULE_GRAPHS, SPREADS, className, inOrder, labelsOf, policy, shown, title, wanted } from "./series.js";
import { byId, overhead, part, promise, rows, sentBits, showConditioners, showAlerts, showFlows, showQueues, showRates, showSiteLinks, showWindows, waited, waiting } from "./tables.js";

const HOUR = 3600e3;
let about = { legend: policy.legend, span_ms: null, host_names: {} };
let now = null;
let period = { hours: 12, end: 0 };
// Whether the user selected the period; otherwise its length follows that of the history.
let chosen = false;
// The period in the last address.
let asked;

// ---- Now ----

function showNow() {
  if (!now) return;
  const of = (sort) => now.objects.filter((one) => one.sort === sort);
  // Inner classes above the policy's classes repeat their bytes.
  const named = of("class").filter((one) => one.labels.direction);
  const classes = named.length ? named : of("class");
  const place = inOrder();
  classes.sort((one, other) => place(one.labels) - place(other.labels));
  const cells = classes.map((one) => {
    const n = one.numbers;
    const rate = n.sent_bytes === undefined ? undefined : n.sent_bytes * 8;
    return {
      name: className(one.labels), promise: promise(one), rate: human(rate, "bit/s"),
      guarantee: one.guaranteed ? human(one.guaranteed, "bit/s") : "–",
      wait: waited(n), roundTrip: human(n.rtt_outside_seconds, "s"), waiting: waiting(n),
      packets: human(n.sent_packets, ""), drops: human(n.drops, ""), marks: human(n.marks, ""),
      borrowed: part(n.borrowed_packets, n.sent_packets), layer: part(overhead(n), 1),
      connections: n.connections === undefined ? "–" : String(n.connections),
    };
  });
  rows("classes", cells.map((one) => [one.name, one.promise, one.rate, one.guarantee, one.wait,
    one.roundTrip, one.waiting, one.drops, one.connections]));
  rows("classes-more", cells.map((one) => [one.name, one.guarantee, one.packets, one.marks,
    one.borrowed, one.layer, one.roundTrip, one.waiting, one.drops, one.connections]));
  const links = of("link");
  showRates(links, classes);
  showSiteLinks(now.links || [], of("device"), classes, about.legend.links);
  showFlows(now.flows || [], hostName);
  showAlerts(now.alerts || []);
  showQueues(of("qdisc").filter((one) => one.labels.kind !== "noqueue"), of("tin"), of("service"));
  showConditioners(of("conditioner"));
  showWindows(of("receive"));
  byId("links").replaceChildren(...about.legend.links.map(([way, device, policy]) => {
    const link = links.find((one) => one.labels.device === device && one.labels.direction === way);
    const gate = (link && link.numbers.rate_bits_per_second) || policy;
    const own = classes.filter((one) => one.labels.device === device && one.labels.direction);
    const words = way + " (" + device + "): " + human(sentBits(own), "bit/s") + " of " + human(gate, "bit/s");
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
  byId("arriving").hidden = about.legend.arriving.length === 0;
  byId("arriving").textContent = about.legend.arriving.join("\n");
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
      (connections.numbers.limit ? "; there may be " + connections.numbers.limit : "") +
      (connections.numbers.unsorted ? "; the classes of " + connections.numbers.unsorted + " are not found yet" : "") + ".";
  }
  showHosts(of("host"));
  byId("to-circuits").hidden = !of("circuits").length && !about.without_circuits;
  if (!byId("view-circuits").hidden) followCircuits();
  const reasons = new Map(about.legend.rules.map((rule) => [rule.counter, rule]));
  const rules = of("rule");
  const line = (one) => (reasons.get(one.labels.rule) || { line: 0 }).line;
  rules.sort((one, other) => line(one) - line(other));
  rows("rules-rows", rules.map((one) => {
    const rule = reasons.get(one.labels.rule) || { line: 0, reason: "" };
    const counter = one.labels.rule;
    return [rule.line || "", rule.reason, human(one.numbers.packets, ""),
      human(one.numbers.bytes * 8, "bit/s"), human(one.totals.packets, ""), human(one.totals.bytes, "B"),
      element("a", { href: "#rules/" + encodeURIComponent(counter), textContent: counter })];
  }));
  byId("norules").hidden = rules.length > 0;
  byId("norules").textContent = about.without_privilege
    ? "Rules and connections cannot be read: " + about.without_privilege : "The policy has no rules that count.";
  said("");
  byId("at").textContent = "at " + new Date(now.time_ms).toLocaleTimeString();
}

// ---- Hosts ----

// Returns the name of a host from the DHCP server or /etc/hosts, if it has one.
const hostName = (address) => about.host_names[address] || address;

const known = (value) => (value === undefined ? "not known" : human(value, ""));

function showHosts(hosts) {
  const rate = (one) => (one.numbers.received_bytes || 0) + (one.numbers.sent_bytes || 0);
  hosts.sort((one, other) => rate(other) - rate(one));
  const cells = hosts.map((one) => {
    const n = one.numbers;
    const address = one.labels.host;
    return [
      element("a", { href: "#hosts/" + encodeURIComponent(address), textContent: hostName(address), title: address }),
      human(n.received_bytes * 8, "bit/s"), human(n.sent_bytes * 8, "bit/s"),
      human(n.rtt_inside_seconds, "s"), human(n.rtt_outside_seconds, "s"),
      // Without a known queue, its values are unknown; without packets, there is no wait.
      n.received_drops === undefined ? "not known" : human(n.wait_seconds, "s"),
      known(n.backlog_packets), known(n.received_drops), known(n.received_marks),
    ];
  });
  byId("top-hosts").hidden = !hosts.length;
  // A node can only be in one place, so clone it.
  rows("top-hosts", cells.slice(0, 5).map(([host, ...others]) => [host.cloneNode(true), ...others.slice(0, 4)]));
  rows("hosts-rows", cells);
  byId("noqueue").hidden = !hosts.length || hosts.every((one) => one.numbers.received_marks !== undefined);
  byId("nohosts").hidden = hosts.length > 0;
  byId("nohosts").textContent = about.without_packets
    ? "Packets that pass cannot be looked at: " + about.without_packets
    : about.legend.inside.length ? "No host was heard of yet."
      : "No device on the inside is known: the policy has no `lan`.";
}

// Shows one host's history, for the period of the history.
async function showHost(address) {
  const name = hostName(address);
  byId("host-name").textContent = !address ? "" : "Host " + (name === address ? name : name + " (" + address + ")");
  byId("host-graphs").replaceChildren();
  if (address) {
    await drawGraphs("host-graphs", HOST_GRAPHS, (name) => labelsOf(name).host === address);
  }
}

// Shows one rule's history, for the period of the history.
async function showRule(counter) {
  byId("rule-name").textContent = counter ? "Rule " + counter : "";
  byId("rule-graphs").replaceChildren();
  if (counter) {
    await drawGraphs("rule-graphs", RULE_GRAPHS, (name) => labelsOf(name).rule === counter);
  }
}

// ---- Circuits ----

// Shows one circuit or site of a device, with the history of a site; or the busiest ones,
// with the last minutes of the whole device.
async function showCircuit(device, name, kind) {
  const chosen = await chooseCircuit(device, name, kind);
  if (!chosen || byId("view-circuits").hidden) return;
  const isSite = chosen.kind === "site";
  byId("period").hidden = byId("span").hidden = !isSite;
  byId("site-history-name").hidden = chosen.kind === "circuit";
  byId("site-history").replaceChildren();
  if (chosen.kind === "circuit") return;
  const end = latest();
  await drawGraphs("site-history", CIRCUIT_GRAPHS, (series) => {
    const labels = labelsOf(series);
    return labels.device === chosen.device && labels.site === chosen.name;
  }, isSite ? undefined : [notBefore(end - NOW_HOURS * HOUR, end), end]);
}

// ---- History ----

async function get(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

const query = (names, from, to, step) =>
  "from=" + Math.round(from) + "&to=" + Math.round(to) + "&step=" + Math.round(step) +
  names.map((name) => "&series=" + encodeURIComponent(name)).join("");

let drawing = 0;
const NOW_HOURS = 0.25;

// Shows the last minutes of the link, with its current values.
async function showNowGraphs() {
  const end = latest();
  await drawGraphs("now-graphs", NOW_GRAPHS, () => true, [notBefore(end - NOW_HOURS * HOUR, end), end]);
}

function showHistory() {
  return drawGraphs("graphs", GRAPHS, () => true);
}

async function showLink() {
  await drawGraphs("link-graphs", LINK_GRAPHS, () => true);
  await showSpread(true);
}

// Returns the default end of the period: the last sample. Later entries of the history
// are from before the clock was set back.
function latest() {
  return now ? now.time_ms : about.span_ms ? about.span_ms[1] : Date.now();
}

// Limits a start to the history's, but at least a minute before the end.
function notBefore(start, end) {
  return about.span_ms ? Math.max(start, Math.min(about.span_ms[0], end - HOUR / 60)) : start;
}

function span() {
  const to = period.end || latest();
  const from = to - period.hours * HOUR;
  return [chosen ? from : notBefore(from, to), to];
}

const spreadName = (name) => SPREADS[name.split("{")[0]][0] + " " + title(name);

let spreading = 0;

// Shows the distribution of one series' values, weighted by how long each held. `fresh`
// requests the list of series. Of several concurrent requests, the last one counts.
async function showSpread(fresh) {
  const mine = ++spreading;
  const [asked, to] = span();
  const from = about.span_ms ? Math.max(asked, about.span_ms[0]) : asked;
  const choice = byId("spread-of");
  try {
    if (fresh) {
      const known = (await get("api/series?from=" + Math.round(from) + "&to=" + Math.round(to))).series;
      if (mine !== spreading) return;
      const before = choice.value;
      const names = Object.keys(SPREADS).flatMap((metric) => wanted(known, { metric })[0]);
      choice.replaceChildren(...names.map((name) =>
        element("option", { value: name, textContent: spreadName(name) })));
      if (names.includes(before)) choice.value = before;
    }
    byId("h-spread").hidden = choice.parentElement.hidden = !choice.value;
    byId("spread").replaceChildren();
    if (!choice.value) return;
    const step = to - from > 20000e3 ? (to - from) / 20000 : 0;
    const data = await get("api/read?" + query([choice.value], from, to, step));
    if (mine !== spreading) return;
    const each = SPREADS[choice.value.split("{")[0]][1];
    byId("spread").replaceChildren(...histogram(spreadName(choice.value), each, data.series[choice.value].points, step));
  } catch (error) {
    if (mine === spreading) byId("spread").textContent = "The history cannot be read: " + error.message;
  }
}

// Returns the shortest offered period that contains the whole history, at most twelve
// hours, so that a new history fills the graph.
function fitted() {
  const known = about.span_ms ? (latest() - about.span_ms[0]) / HOUR : 12;
  const offered = [...document.querySelectorAll("[data-hours]")].map((button) => Number(button.dataset.hours));
  return offered.find((hours) => hours >= Math.min(known, 12)) || 12;
}

function pressed() {
  document.querySelectorAll("[data-hours]").forEach((button) =>
    button.setAttribute("aria-pressed", String(Number(button.dataset.hours) === period.hours)));
}

// Returns a step that is a multiple of the history's steps, so that points are exact:
// some 600 points for a graph, at most 1,200.
function wholeStep(least) {
  const own = [7200e3, 600e3, 60e3, 1e3].find((one) => one <= least) || 1e3;
  return Math.max(1, Math.floor(least / own)) * own;
}

// Draws the graphs with known values, of the series that `wished` selects. A series in
// several graphs is requested once. `within` is a period that overrides the selected one.
async function drawGraphs(place, graphs, wished, within) {
  const mine = ++drawing;
  const [start, end] = within || span();
  pressed();
  byId("span").textContent = new Date(start).toLocaleString() + " to " + new Date(end).toLocaleString();
  const step = wholeStep((end - start) / 600);
  const reader = (from, to) => {
    const read = { series: {}, events: [] };
    return async (names) => {
      const more = names.filter((name) => !read.series[name]);
      if (more.length) {
        const data = await get("api/read?" + query(more, from, to, step));
        Object.assign(read.series, data.series);
        read.events = data.events;
      }
      return read;
    };
  };
  try {
    const known = (await get("api/series?from=" + Math.round(start) + "&to=" + Math.round(end))).series;
    if (mine !== drawing) return;
    const names = known.filter(wished);
    const compare = within ? 0 : Number(byId("compare").value);
    const back = compare === 1 ? end - start : compare * HOUR;
    const now = reader(start, end);
    const then = reader(start - back, end - back);
    const figures = [];
    const all = [];
    for (const graph of graphs) {
      const [own, more] = wanted(names, graph);
      if (!own.length) continue;
      all.push(...own);
      const data = await now(own);
      const before = back ? await then(own) : null;
      if (mine !== drawing) return;
      const [words, contents] = shown(graph, own, more, data, before, back);
      const nothing = (one) => [...one.points, ...one.old].every((p) => p[4] === 0);
      if ((graph.quiet || graph.share) && contents.lines.every(nothing)) continue;
      const draw = graph.strip ? strip : figure;
      // Only the views with a period can show a chosen one.
      const picked = !within ? pick : place === "now-graphs" ? pickInHistory : () => {};
      figures.push(draw({ ...graph, title: words }, contents, start, end, picked));
    }
    byId(place).replaceChildren(...figures);
    if (!figures.length) byId(place).textContent = "Nothing is known of this time.";
    byId("csv").href = "api/read.csv?" + query([...new Set(all)].slice(0, 64), start, end, step);
    byId(place).dataset.ready = String(mine);
  } catch (error) {
    if (mine === drawing) byId(place).textContent = "The history cannot be read: " + error.message;
  }
}

function pick(start, end) {
  period = { hours: (end - start) / HOUR, end };
  chosen = true;
  showView();
}

function pickInHistory(start, end) {
  period = { hours: (end - start) / HOUR, end };
  chosen = true;
  location.hash = "#history";
}

function move(by, factor) {
  const length = period.hours * HOUR;
  chosen = true;
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

// Decodes a part of the page's address; returns nothing if it is invalid.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

function showView() {
  // What was requested for the previous view is not drawn any more.
  ++drawing;
  const [view, option, more, kind] = (location.hash.slice(1) || "now").split("/");
  const known = ["now", "history", "hosts", "link", "circuits", "rules", "events"].includes(view) ? view : "now";
  for (const section of document.querySelectorAll("main > section")) {
    section.hidden = section.id !== "view-" + known;
  }
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === "#" + known) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const one = ["hosts", "rules"].includes(known) ? decoded(option || "") : "";
  const timed = known === "history" || known === "link" || Boolean(one);
  byId("period").hidden = byId("span").hidden = !timed;
  if (known === "history" || known === "link") {
    if (option && option !== asked) {
      period = { hours: Number(option) || 12, end: 0 };
      chosen = true;
    }
    asked = option;
    if (!chosen) period = { hours: fitted(), end: 0 };
    if (known === "link") showLink();
    else showHistory();
  }
  if (known === "now") showNowGraphs();
  if (known === "hosts") showHost(one);
  if (known === "circuits") showCircuit(decoded(option || ""), decoded(more || ""), kind || "");
  if (known === "rules") showRule(one);
  if (known === "events") showEvents();
}

async function loadAbout() {
  about = await get("api/about");
  policy.legend = about.legend;
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
  if (about.times_left_out) troubles.push("there was no room for the waits and round trips of more classes");
  if (history.left_out) troubles.push(history.left_out + " values had no room in the history");
  byId("warning").hidden = troubles.length === 0;
  byId("warning").textContent = troubles.join("; ");
}

// Sets the text about the connection only if it changes, because screen readers announce
// it; the time of the last sample is not announced.
function said(words) {
  if (byId("state").textContent !== words) byId("state").textContent = words;
}

// Receive samples only while the page is visible: a browser has few connections to one
// machine, and every page in the background would take one.
let source = null;
// Restarted by each sample. A connection that ended without a word brings no event.
let silence;

function hear() {
  clearTimeout(silence);
  if (!source || !now) return;
  silence = setTimeout(() => {
    said("no new sample since " + new Date(now.time_ms).toLocaleTimeString());
  }, Math.max(5000, 4 * now.interval_ms));
}

function listen() {
  if (document.hidden) {
    if (source) source.close();
    source = null;
  } else if (!source) {
    source = new EventSource("api/live");
    source.onmessage = (event) => {
      now = JSON.parse(event.data);
      showNow();
      hear();
    };
    hear();
    source.onerror = () => {
      said("no connection; trying again");
      // The browser reconnects on its own, except after a refusal.
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
    chosen = true;
    showView();
  });
}
byId("earlier").addEventListener("click", () => move(-0.5, 1));
byId("later").addEventListener("click", () => move(0.5, 1));
byId("closer").addEventListener("click", () => move(0, 0.5));
byId("farther").addEventListener("click", () => move(0, 2));
byId("compare").addEventListener("change", showView);
byId("spread-of").addEventListener("change", () => showSpread(false));
document.querySelector("a.skip").addEventListener("click", (event) => {
  // Its address would be one of another view.
  event.preventDefault();
  byId("main").focus();
});
startCircuits();
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
  // A browser test requests a page that stops updating.
  if (!location.search.includes("still")) {
    listen();
    document.addEventListener("visibilitychange", listen);
    setInterval(() => {
      if (!document.hidden) loadAbout().catch(() => {});
    }, 60e3);
    setInterval(() => {
      if (!document.hidden && !byId("view-now").hidden) showNowGraphs();
    }, 10e3);
  }
})();
