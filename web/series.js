// SPDX-License-Identifier: Apache-2.0 OR MIT
// The names of series by the policy's legend, and the series of each graph.

// The policy's names of classes; the page sets them.
export const policy = { legend: { links: [], classes: [], rules: [], arriving: [] } };

// Returns a direction. With several links, it does not say which of them, so the device does.
function directionName(labels) {
  const several = policy.legend.links.filter((one) => one[0] === "up").length > 1;
  return (several ? labels.device + " " : "") + labels.direction;
}

export function className(labels) {
  return (labels.direction ? directionName(labels) : labels.device) + " " + labels.class;
}

// Returns the rank of a class in the policy, so that it has the same colour everywhere.
export function inOrder() {
  const order = new Map(policy.legend.classes.map((one, place) => [one.device + " " + one.handle, place]));
  return (labels) => order.get(labels.device + " " + labels.handle) ?? 1e6;
}

// Returns the class that owns a queue, if the policy names it.
export function queueName(labels) {
  const minor = labels.parent.split(":")[1];
  const own = policy.legend.classes.find((one) =>
    one.device === labels.device && (one.handle === labels.parent || one.handle.split(":")[1] === minor));
  return own ? directionName(own) + " " + own.name : labels.device + " " + labels.parent;
}

export const HOST_GRAPHS = [
  { title: "Receives", metric: "host_received_bytes", unit: "bit/s", factor: 8 },
  { title: "Sends", metric: "host_sent_bytes", unit: "bit/s", factor: 8 },
  { title: "Round trip to it", metric: "host_rtt_inside_seconds", unit: "s", factor: 1e-6 },
  { title: "Round trip outside", metric: "host_rtt_outside_seconds", unit: "s", factor: 1e-6 },
  { title: "Wait here of what it is sent", metric: "host_wait_seconds", unit: "s", factor: 1e-6 },
  { title: "Packets waiting for it, in the mean", metric: "host_backlog_packets", unit: "", factor: 1e-3 },
  { title: "Dropped here of what it is sent, by the second", metric: "host_received_drops", unit: "", factor: 1 },
  { title: "Marked here of what it is sent, by the second", metric: "host_received_marks", unit: "", factor: 1 },
];

// Returns the link layer's share of what a class sent on the wire: compares its packets'
// mean length on the wire with that in IP bytes.
export function linkLayer(bytes, packets, ipBytes, timed) {
  if (!packets || !timed || ipBytes === undefined) return undefined;
  return Math.max(0, 1 - (ipBytes / timed) / (bytes / packets));
}

const LINK_LAYER = ["class_sent_bytes", "class_sent_packets", "class_ip_bytes", "class_timed_packets"];
const BORROWED = ["class_borrowed_packets", "class_sent_packets"];
const borrowed = (some, all) => (all ? Math.min(1, some / all) : undefined);

const LINK_RATES = ["link_rate_bits_per_second", "link_policy_bits_per_second", "link_tracked_bits_per_second"];

// A graph with `share` shows a quotient of several numbers of one class over the same
// step. A `quiet` graph is left out if all its values are 0. A `strip` has a bar for each
// class and no axis.
export const GRAPHS = [
  { title: "Rate by class", metric: "class_sent_bytes", unit: "bit/s", factor: 8, sum: "all classes" },
  { title: "Wait of the first classes", metric: "class_wait_seconds", rough: "class_estimated_wait_seconds", unit: "s", factor: 1e-6, first: 2 },
  { title: "Wait by class", metric: "class_wait_seconds", rough: "class_estimated_wait_seconds", unit: "s", factor: 1e-6 },
  { title: "Wait by class, measured: 95 % wait no longer", metric: "class_wait_95th_seconds", unit: "s", factor: 1e-6 },
  { title: "Round trips of TCP by class, to the outside", metric: "class_rtt_outside_seconds", unit: "s", factor: 1e-6 },
  { title: "Round trips of probes", metric: "probe_rtt_seconds", unit: "s", factor: 1e-6 },
  { title: "Probes lost by the second", metric: "probe_lost", unit: "", factor: 1 },
  { title: "Bytes waiting", metric: "class_backlog_bytes", unit: "B", factor: 1 },
  { title: "Packets dropped by the second", metric: "class_drops", unit: "", factor: 1 },
  { title: "Packets marked by the second", metric: "class_marks", unit: "", factor: 1, quiet: true },
  { title: "Promises kept and broken", metric: "class_promise_broken", strip: true },
  { title: "Packets sent by the second", metric: "class_sent_packets", unit: "", factor: 1 },
  { title: "Borrowed: part of a class's packets beyond its guarantee", share: BORROWED, value: borrowed, unit: "%", factor: 100, quiet: true },
  { title: "Link layer: part of a class's bytes on the wire", share: LINK_LAYER, value: linkLayer, unit: "%", factor: 100 },
  { title: "Rate of the link", metrics: LINK_RATES, unit: "bit/s", factor: 1 },
  { title: "Connections by class", metric: "class_connections", unit: "", factor: 1 },
  { title: "Received by device", metric: "device_received_bytes", unit: "bit/s", factor: 8 },
];

export const NOW_GRAPHS = [GRAPHS[0], GRAPHS[2]];

export const CIRCUIT_GRAPHS = [
  { title: "Rate", metric: "circuits_sent_bytes", unit: "bit/s", factor: 8 },
  { title: "Delay at the ceiling", metric: "circuits_delay_seconds", unit: "s", factor: 1e-6 },
  { title: "Bytes waiting", metric: "circuits_queued_bytes", unit: "B", factor: 1 },
  { title: "Dropped, in all, by the circuits that are there", metric: "circuits_dropped_packets", unit: "", factor: 1, quiet: true },
  { title: "Marked, in all, by the circuits that are there", metric: "circuits_marked_packets", unit: "", factor: 1, quiet: true },
];

export const RULE_GRAPHS = [
  { title: "Packets by the second", metric: "rule_packets", unit: "", factor: 1 },
  { title: "Rate", metric: "rule_bytes", unit: "bit/s", factor: 8 },
];

export const LINK_GRAPHS = [
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

// The metrics of a histogram, with the meaning of each value.
export const SPREADS = {
  probe_rtt_seconds: ["round trips of the probe", "one echo"],
  class_wait_seconds: ["mean waits of", "the mean of the packets that left in one look, not a single packet"],
  class_wait_95th_seconds: ["waits that 95 of 100 packets did not exceed, of", "what 95 of 100 packets of one look did not exceed"],
  class_rtt_outside_seconds: ["mean round trips outside of", "the mean of one look, not a single round trip"],
  class_estimated_wait_seconds: ["estimated waits of", "an estimate at one look"],
};

export function labelsOf(name) {
  const labels = {};
  for (const [, key, value] of name.matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g)) {
    labels[key] = value.replace(/\\(.)/g, (_, letter) => (letter === "n" ? "\n" : letter));
  }
  return labels;
}

// Returns the labels of a series, which are the same for all metrics of one class.
const labelText = (name) => name.slice(name.indexOf("{"));

// How many series a graph has at most; one request can name 64.
const most = (graph) => (graph.strip || graph.sum ? 64 : graph.rough ? 48 : 24);

// Returns the series of a graph, and how many others have no room: the policy's leaves first,
// because inner classes repeat their bytes. If a metric is measured or otherwise estimated,
// both series are returned; for a share, all of a class's metrics.
export function wanted(names, graph) {
  const metrics = graph.share || graph.metrics || [graph.metric, ...(graph.rough ? [graph.rough] : [])];
  let own = names.filter((name) => metrics.some((metric) => name.startsWith(metric + "{")));
  if (graph.parent) own = own.filter((name) => labelsOf(name).parent === graph.parent);
  if (metrics[0].startsWith("class_")) {
    const named = own.filter((name) => labelsOf(name).direction);
    if (named.length) own = named;
    const place = inOrder();
    own.sort((one, other) => place(labelsOf(one)) - place(labelsOf(other)));
    if (graph.share) {
      const whole = own.filter((name) => name.startsWith(metrics[0] + "{")).map(labelText)
        .filter((of) => metrics.every((metric) => own.includes(metric + of)));
      const room = Math.floor(48 / metrics.length);
      return [whole.slice(0, room).flatMap((of) => metrics.map((metric) => metric + of)), Math.max(0, whole.length - room)];
    }
    if (graph.first) {
      const seen = {};
      own = own.filter((name) => {
        const first = (seen[labelsOf(name).device] ||= new Set());
        if (first.size < graph.first) first.add(labelText(name));
        return first.has(labelText(name));
      });
    }
  }
  const shown = own.slice(0, most(graph));
  // The estimate of a class is no further line.
  const lines = (names) => new Set(graph.rough ? names.map(labelText) : names).size;
  return [shown, lines(own) - lines(shown)];
}

export const title = (name) => {
  const labels = labelsOf(name);
  if (labels.class !== undefined) return className(labels);
  if (name.startsWith("link_")) {
    const words = { link_rate: "has", link_policy: "by the policy", link_tracked: "line as tracked" };
    return directionName(labels) + " " + (words[name.split("_bits")[0]] || name);
  }
  if (labels.parent !== undefined) return queueName(labels) + (labels.tin === undefined ? "" : ", " + labels.tin);
  return labels.probe || labels.host || labels.rule || labels.site || labels.device || name;
};

// Computes the shares of a class for each step that all its series have. A share has no
// minimum or maximum.
function shares(graph, of, data) {
  const [first, ...others] = graph.share.map((metric) =>
    new Map(data.series[metric + of].points.map((p) => [p[0], p])));
  const found = [];
  for (const [start, p] of first) {
    const all = [p, ...others.map((one) => one.get(start))];
    if (all.some((one) => !one || one[1] !== p[1])) continue;
    const value = graph.value(...all.map((one) => one[5]));
    if (value !== undefined) found.push([p[0], p[1], value, value, value, 0, p[6]]);
  }
  return found;
}

const moved = (points, back) => points.map((p) => [p[0] + back, p[1] + back, ...p.slice(2)]);

// Returns the title of a graph, and what it shows of its series, with the previous period
// shifted by `back`. `more` series have no room, so that a sum would not be one of all. If a metric was measured only for a part of the time, the estimates
// are shown before and after.
export function shown(graph, names, more, data, before, back) {
  const left = more ? ", and " + more + " more are not shown" : "";
  const points = (name) => data.series[name].points;
  const old = (name) => (before ? moved(before.series[name].points, back) : []);
  if (graph.share) {
    const lines = names.filter((name) => name.startsWith(graph.share[0] + "{")).map((name) => ({
      name: title(name), rough: [],
      points: shares(graph, labelText(name), data),
      old: before ? moved(shares(graph, labelText(name), before), back) : [],
    }));
    return [graph.title + left, { lines, gauge: false, sums: [], events: data.events }];
  }
  const isRough = (name) => Boolean(graph.rough) && name.startsWith(graph.rough + "{");
  const measured = names.some((name) => !isRough(name));
  const line = (all) => {
    const exact = all.find((name) => !isRough(name));
    const estimate = all.find(isRough);
    if (!measured) return { name: title(estimate), points: points(estimate), rough: [], old: old(estimate) };
    const own = exact ? points(exact) : [];
    const [from, to] = own.length ? [own[0][0], own[own.length - 1][1]] : [Infinity, Infinity];
    const rough = estimate ? points(estimate).filter((p) => p[1] <= from || p[0] >= to) : [];
    // A silent class has nothing to estimate.
    const silent = rough.every((p) => p[4] === 0);
    return { name: title(all[0]), points: own, rough: silent ? [] : rough, old: exact ? old(exact) : [] };
  };
  const classes = new Map();
  for (const name of names) {
    const of = graph.rough ? labelText(name) : name;
    classes.set(of, [...(classes.get(of) || []), name]);
  }
  const lines = [...classes.values()].map(line)
    .filter((one) => !graph.rough || one.points.length || one.rough.length || one.old.length);
  const how = !graph.rough ? "" : !measured ? ", estimated"
    : lines.some((one) => one.rough.length) ? ", measured; dotted: estimated" : ", measured";
  const gauge = names.some((name) => data.series[name].kind === "gauge");
  return [graph.title + how + left, { lines, gauge, sums: graph.sum && !more ? summed(names, data) : [], events: data.events }];
}

// Returns the sums of each direction through one device, if the policy names it.
function summed(names, data) {
  const groups = new Map();
  for (const name of names) {
    const labels = labelsOf(name);
    if (!labels.direction) continue;
    const of = directionName(labels);
    const all = groups.get(of) || new Map();
    groups.set(of, all);
    for (const p of data.series[name].points) {
      const sum = all.get(p[0]) || [p[0], p[1], 0];
      sum[2] += p[2];
      all.set(p[0], sum);
    }
  }
  return [...groups].map(([name, all]) =>
    ({ name, points: [...all.values()].sort((one, other) => one[0] - other[0]) }));
}
