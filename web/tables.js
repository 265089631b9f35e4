// SPDX-License-Identifier: Apache-2.0 OR MIT
// The tables of the last sample, and their cells. The page passes in its data; text is
// only set as text, never as markup.

import { element, human } from "./figures.js";
import { linkLayer, queueName } from "./series.js";

export const byId = (id) => document.getElementById(id);

// Changes only rows that differ, so that the keyboard focus and the selection stay where
// they are from sample to sample.
export function rows(table, all) {
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

// Shows whether a class's promise was kept, and how that is known.
export function promise(one) {
  const [words, look] = PROMISES[one.promise] || ["", "faint"];
  const by = one.judged_by === "estimated" ? ", estimated" : one.judged_by === "measured" ? ", measured" : "";
  return element("span", { className: look, textContent: words + by });
}

// Shows how long packets waited: measured packet by packet if that is permitted and some
// left, otherwise estimated.
export function waited(n) {
  if (n.wait_95th_seconds !== undefined) {
    return element("span", {},
      element("span", { className: "whole", textContent: human(n.wait_seconds, "s") + "," }), " ",
      element("span", { className: "whole", textContent: "95 %: " + human(n.wait_95th_seconds, "s") }));
  }
  return n.estimated_wait_seconds ? "about " + human(n.estimated_wait_seconds, "s") : human(n.estimated_wait_seconds, "s");
}

// Shows the backlog, in packets and bytes.
export function waiting(n) {
  return n.backlog_packets ? human(n.backlog_packets, "") + " (" + human(n.backlog_bytes, "B") + ")" : "0";
}

// Shows a part of a whole in per cent.
export function part(some, whole) {
  return some === undefined || !whole ? "–" : (Math.min(1, some / whole) * 100).toFixed(0) + " %";
}

export const overhead = (n) => linkLayer(n.sent_bytes, n.sent_packets, n.ip_bytes, n.timed_packets);

// Returns the rate of these classes in bit/s; nothing if it is known of none of them. The
// classes of BPF qdiscs are in maps that only root may read.
export function sentBits(classes) {
  const known = classes.filter((one) => one.numbers.sent_bytes !== undefined);
  return known.length ? known.reduce((all, one) => all + one.numbers.sent_bytes * 8, 0) : undefined;
}

const end = (address, port) =>
  !port ? address : address.includes(":") ? "[" + address + "]:" + port : address + ":" + port;

export function showFlows(flows, hostName) {
  byId("flows").hidden = !flows.length;
  rows("flows", flows.slice(0, 10).map((flow) => [
    end(hostName(flow.host), flow.host_port), end(flow.remote, flow.remote_port), flow.protocol,
    flow.kind || "–",
    (flow.up_class || "–") + ", " + (flow.down_class || "–"),
    human(flow.down, "bit/s"), human(flow.up, "bit/s"),
  ]));
}

// Shows what inside hosts do that they should not.
export function showAlerts(alerts) {
  byId("alerts").hidden = !alerts.length;
  rows("alerts", alerts.map((one) => [one.host, one.text, human(one.seconds, "s")]));
}

export function showQueues(queues, tins, services) {
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

// Shows a row for each conditioner; `objects` has those of its colours.
export function showConditioners(objects) {
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

export function showWindows(objects) {
  byId("windows").hidden = !objects.length;
  rows("windows", objects.map(({ labels, numbers: n }) => [labels.device, human(n.rewritten_packets, ""),
    human(n.held_acknowledgements, ""), human(n.unknown_packets, ""), human(n.active, "")]));
}

// Shows the links of the site: their use, their traffic, and whether the promises to
// their classes are kept. A policy's directions follow one another, upstream first.
export function showSiteLinks(links, devices, classes, directions) {
  byId("site-links").hidden = !links.length;
  rows("site-links", links.map((link) => {
    const shaped = [];
    let inside = false;
    for (const [way, device] of directions) {
      if (way === "up") inside = device === link.device;
      if (inside) shaped.push(device);
    }
    const own = classes.filter((one) => one.labels.direction && shaped.includes(one.labels.device));
    const broken = own.filter((one) => one.promise === "rate" || one.promise === "wait");
    const are = (promise) => own.some((one) => one.promise === promise);
    const promises = !link.up ? ["not in use", "faint"]
      : broken.length ? ["broken: " + broken.map((one) => one.labels.class).join(", "), "broken"]
        : are("kept") ? ["kept", "kept"]
          : [are("idle") ? "nothing waits" : shaped.length ? "not known" : "no policy", "faint"];
    const state = !link.up ? ["down", "broken"] : link.suspected ? ["suspected", "broken"] : ["up", "kept"];
    const at = new Date(link.since_s * 1000);
    const isToday = at.toDateString() === new Date().toDateString();
    const since = " since " + (isToday ? at.toLocaleTimeString() : at.toLocaleString()) + ": " + (link.suspected || link.why);
    const n = (devices.find((one) => one.labels.device === link.device) || { numbers: {} }).numbers;
    const words = ([text, look]) => element("span", { className: look, textContent: text });
    return [
      link.name === link.device ? link.name : link.name + " (" + link.device + ")",
      element("span", {}, words(state), since),
      human(n.received_bytes * 8, "bit/s"), human(n.sent_bytes * 8, "bit/s"), words(promises),
      (link.weight ? ["weight " + link.weight] : []).concat(link.rules).join("; ") || "–",
    ];
  }));
}

// Shows the rates of both directions.
export function showRates(links, classes) {
  byId("rates").hidden = !links.length;
  byId("nolink").hidden = links.length > 0;
  byId("nolink").textContent = "No policy is known: name it with --policy.";
  rows("rates", links.map((one) => {
    const n = one.numbers;
    const own = classes.filter((other) => other.labels.device === one.labels.device && other.labels.direction);
    const sent = sentBits(own);
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
