// SPDX-License-Identifier: Apache-2.0 OR MIT
// The circuits of a provider: the link of a device, its sites, the busiest circuits, and
// one selected circuit or site. Text is only set as text, never as markup, because names
// come from the author of the list.

import { drawn, element, figure, human } from "./figures.js";
import { byId, rows } from "./tables.js";

// The maximum number of samples that the page keeps of the selected circuit or site.
const MOST_LOOKS = 900;
const ROWS = 50;
// The current selection: the device, the circuit or site, and the offsets of both lists. A
// circuit may have the name of a site; an address without a kind is that of the site then.
let view = { device: "", name: "", kind: "", from: 0, sites_from: 0 };
let watched = { of: "", looks: [] };
let asking = 0;
let underway = 0;

const many = (number, one) => number + " " + one + (number === 1 ? "" : "s");
const bits = (value) => human(value === null ? undefined : value, "bit/s");
const count = (value) => human(value === null ? undefined : value, "");
const delay = (one) => human(one.delay_ms === null ? undefined : one.delay_ms / 1e3, "s");
const waits = (one) => (one.queued_packets ? count(one.queued_packets) + " (" + human(one.queued_bytes, "B") + ")" : "0");
const address = (device, one) => "#circuits/" + encodeURIComponent(device) + "/" + encodeURIComponent(one.name) + "/" + one.kind;
const chosenOf = (found) => (found.chosen || []).find((one) => !view.kind || one.kind === view.kind);

// Shows a rate as a part of its ceiling, in words and as a bar.
function use(one) {
  if (!one.ceiling_bit_s || one.rate_bit_s === null) return "–";
  const words = Math.round(one.rate_bit_s / one.ceiling_bit_s * 100) + " %";
  const bar = drawn("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" });
  bar.append(drawn("rect", { x: 0, y: 0, width: Math.min(100, one.rate_bit_s / one.ceiling_bit_s * 100), height: 10, class: "s0" }));
  return element("span", { className: "use" }, element("span", { className: "bar" }, bar), words);
}

function cells(device, one) {
  return [
    element("a", { href: address(device, one), textContent: one.name }),
    bits(one.rate_bit_s), one.ceiling_bit_s ? bits(one.ceiling_bit_s) : "–", use(one), delay(one),
    waits(one), count(one.dropped_s), count(one.marked_s),
  ];
}

// Shows which rows of a list are shown, and buttons for the others.
function listed(kind, words, list) {
  byId(kind).hidden = !list || !list.rows.length;
  rows(kind, list ? list.rows.map((one) => {
    const [name, ...others] = cells(view.device, one);
    return [name, kind === "circuits-rows" ? one.below : count(one.circuits_below), ...others];
  }) : []);
  const place = byId(kind + "-more");
  place.hidden = !list || (!list.more && !list.from);
  if (!list) return;
  const last = list.from + list.rows.length;
  const of = list.rows.length ? list.from + 1 + " to " + last + " of " : "";
  place.querySelector("span").textContent = of + many(list.all, words);
  const [back, on] = place.querySelectorAll("button");
  back.disabled = !list.from;
  on.disabled = !list.more || last > 10000 - ROWS;
}

// Shows the figures of one circuit or site.
function showChosen(found) {
  const one = chosenOf(found);
  const title = one ? (one.kind === "site" ? "Site " : "Circuit ") + one.name
    : view.name ? "No circuit and no site of " + view.device + " is called " + view.name : "";
  if (byId("circuit-name").textContent !== title) byId("circuit-name").textContent = title;
  byId("circuit-back").hidden = !view.name;
  byId("circuit-back").querySelector("a").href = "#circuits/" + encodeURIComponent(view.device);
  byId("circuit").hidden = !one;
  const graphs = byId("circuit-graphs");
  if (!one) {
    graphs.replaceChildren();
    return;
  }
  const of = found.device + "/" + one.kind + "/" + one.name;
  if (watched.of !== of) watched = { of, looks: [] };
  const last = watched.looks[watched.looks.length - 1];
  // The clock was set back.
  if (last && found.time_ms < last.time) watched.looks = [];
  if (found.interval_ms && (!last || last.time !== found.time_ms)) {
    watched.looks = [...watched.looks, { time: found.time_ms, interval: found.interval_ms, one }].slice(-MOST_LOOKS);
  }
  rows("circuit", [
    ["Rate", bits(one.rate_bit_s)], ["Use of its ceiling", use(one)],
    ["Ceiling", one.ceiling_bit_s ? bits(one.ceiling_bit_s) : "none"],
    ["Guarantee", one.guarantee_bit_s ? bits(one.guarantee_bit_s) : "none"],
    ["Packets/s", count(one.packets_s)], ["Delay at its ceiling", delay(one)], ["Waiting", waits(one)],
    ["Dropped/s, in all", count(one.dropped_s) + ", " + count(one.dropped)],
    ["Marked/s, in all", count(one.marked_s) + ", " + count(one.marked)],
    ["Sent in all", count(one.sent_packets) + " packets, " + human(one.sent_bytes, "B")],
    ["Below", one.below || "–"], ["Sending queue", one.queue === undefined ? "–" : String(one.queue)],
    ...(one.circuits_below === undefined ? [] : [["Circuits below", count(one.circuits_below)]]),
  ]);
  if (watched.looks.length < 2) {
    graphs.textContent = "Graphs begin with the second look.";
    return;
  }
  const line = (name, value) => ({
    name, rough: [], old: [],
    points: watched.looks.map(({ time, interval, one: own }) => [time - interval, time, value(own), value(own), value(own), 0, 1]),
  });
  const end = found.time_ms;
  const start = Math.min(watched.looks[0].time - watched.looks[0].interval, end - 60e3);
  const draw = (words, unit, lines) => figure({ title: words, unit, factor: 1 },
    { lines, sums: [], gauge: false, events: [] }, start, end, () => {});
  const ceiling = one.ceiling_bit_s ? [line("ceiling", (own) => own.ceiling_bit_s)] : [];
  graphs.replaceChildren(
    draw("Rate, since this page looks", "bit/s", [line("rate", (own) => own.rate_bit_s), ...ceiling]),
    draw("Delay at its ceiling, since this page looks", "s", [line("delay", (own) => (own.delay_ms || 0) / 1e3)]),
    draw("Dropped and marked by the second, since this page looks", "",
      [line("dropped", (own) => own.dropped_s), line("marked", (own) => own.marked_s)]),
  );
}

function show(found) {
  const { devices } = found;
  const why = found.refused || (!devices.length ? "No device has circuits." : found.link ? "" : view.device + " has no circuits.");
  byId("nocircuits").hidden = !why;
  if (byId("nocircuits").textContent !== why) byId("nocircuits").textContent = why;
  const choice = byId("circuits-device");
  choice.parentElement.hidden = devices.length < 2;
  const names = devices.map((one) => one.device);
  if ([...choice.options].map((one) => one.value).join("\n") !== names.join("\n")) {
    choice.replaceChildren(...names.map((name) => element("option", { value: name, textContent: name })));
  }
  byId("circuits-form").hidden = !devices.length;
  if (!view.device) view.device = found.device || "";
  choice.value = view.device;
  const own = devices.find((one) => one.device === found.device);
  byId("circuits-link").hidden = !own;
  rows("circuits-link", own ? [["The link", found.link], ["Others", found.others]].filter((one) => one[1]).map(([name, one]) => {
    const [, ...others] = cells(found.device, one);
    return [name, one.circuits_below === undefined ? "–" : count(one.circuits_below), ...others];
  }) : []);
  byId("circuits-about").textContent = own ? found.device + " sends what goes " +
    (own.direction === "down" ? "to" : "from") + " subscribers, by " + many(own.queues, "queue") +
    ": " + many(own.circuits, "circuit") + ", " + many(own.sites, "site") + "." : "";
  const wanted = byId("circuits-search").value.trim();
  if (!wanted && chosenOf(found)?.kind === "circuit") {
    // These are of the site with its name.
    delete found.sites;
    delete found.circuits;
  }
  listed("sites-rows", "site", found.sites);
  listed("circuits-rows", "circuit", found.circuits);
  const words = !wanted || !found.sites ? "" : found.sites.all + found.circuits.all === 0 ? "Nothing has it in its name or keys."
    : many(found.circuits.all, "circuit") + " and " + many(found.sites.all, "site") + " have it in their names or keys.";
  if (byId("circuits-found").textContent !== words) byId("circuits-found").textContent = words;
  showChosen(found);
}

// Requests the selection and shows it. Of several concurrent requests, the last one
// counts. Returns the device, kind and name of the selected one; nothing if there is
// nothing to show.
async function showCircuits() {
  const mine = ++asking;
  underway++;
  const wanted = {
    device: view.device, name: view.name, q: byId("circuits-search").value.trim(), order: byId("circuits-order").value,
    from: view.from || "", sites_from: view.sites_from || "",
  };
  const query = Object.entries(wanted).filter((one) => one[1] !== "")
    .map(([name, value]) => name + "=" + encodeURIComponent(value)).join("&");
  try {
    const answer = await fetch("api/circuits?" + query);
    const text = await answer.text();
    if (mine !== asking) return undefined;
    if (!answer.ok) throw new Error(text.trim());
    const found = JSON.parse(text);
    show(found);
    const one = view.name ? chosenOf(found) : found.link;
    return one && { device: found.device, kind: one.kind, name: one.name };
  } catch (error) {
    if (mine !== asking) return undefined;
    byId("nocircuits").hidden = false;
    byId("nocircuits").textContent = "Circuits cannot be read: " + error.message;
    return undefined;
  } finally {
    underway--;
  }
}

// Updates at a new sample, unless a request is pending: an answer that takes longer than
// the interval must be shown eventually.
export function followCircuits() {
  if (!underway) showCircuits();
}

// Selects what the page's address names: a device, and one of its circuits or sites.
export async function chooseCircuit(device, name, kind) {
  const isOther = name !== view.name || kind !== view.kind;
  if (isOther || (device || view.device) !== view.device) {
    view = { device: device || view.device, name, kind, from: 0, sites_from: 0 };
  }
  const chosen = await showCircuits();
  // The selected link may not be in the next list, so move the focus.
  if (isOther && name && name === view.name && kind === view.kind) byId("circuit-name").focus();
  return chosen;
}

let typing = 0;

export function startCircuits() {
  byId("circuits-form").addEventListener("submit", (event) => event.preventDefault());
  byId("circuits-search").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => {
      view.from = view.sites_from = 0;
      showCircuits();
    }, 200);
  });
  byId("circuits-order").addEventListener("change", () => {
    view.from = view.sites_from = 0;
    showCircuits();
  });
  byId("circuits-device").addEventListener("change", (event) => {
    location.hash = "#circuits/" + encodeURIComponent(event.target.value);
  });
  for (const [kind, from] of [["circuits-rows", "from"], ["sites-rows", "sites_from"]]) {
    const [back, on] = byId(kind + "-more").querySelectorAll("button");
    back.addEventListener("click", () => {
      view[from] = Math.max(0, view[from] - ROWS);
      showCircuits();
    });
    on.addEventListener("click", () => {
      view[from] += ROWS;
      showCircuits();
    });
  }
}
