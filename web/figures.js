// SPDX-License-Identifier: Apache-2.0 OR MIT
// Elements, formatted numbers, and the figures of the history: graphs and histograms. The
// page decides what they show, and when. Text is only set as text, never as markup.

export function element(name, properties, ...children) {
  const made = document.createElement(name);
  Object.assign(made, properties);
  made.append(...children);
  return made;
}

export function drawn(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// Formats a value with its unit.
export function human(value, unit) {
  if (value === undefined || value === null || Number.isNaN(value)) return "–";
  if (unit === "s") {
    if (value > 0 && value < 1e-3) return (value * 1e6).toFixed(0) + " µs";
    return value >= 1 ? value.toFixed(2) + " s" : (value * 1e3).toFixed(1) + " ms";
  }
  if (unit === "%") return Number(value.toPrecision(value < 10 ? 2 : 3)) + " %";
  const digits = (number) => (number >= 100 ? 0 : number >= 10 ? 1 : 2);
  for (const [size, prefix] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (value >= size) return (value / size).toFixed(digits(value / size)) + " " + prefix + unit;
  }
  if (!unit && value < 1) return String(Number(value.toPrecision(2)));
  return (Number.isInteger(value) || unit ? value.toFixed(0) : value.toFixed(1)) + (unit ? " " + unit : "");
}

// The width of a drawing in units, and the positions of its time labels: fewer on a
// phone, so that the text keeps its size.
const narrow = () => matchMedia("(max-width: 40rem)").matches;
const across = () => (narrow() ? 360 : 640);
const parts = () => (narrow() ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1]);

// Returns the tick values of an axis up to the maximum: round ones, at most six.
function ticks(most) {
  if (!most) return [0, 1];
  const raw = most / 5;
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].find((one) => one * size >= raw) * size;
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, place) => place * step);
}

// Formats a value at an axis: a round one, without trailing zeros.
function round(value, unit) {
  return value === 0 ? "0" : human(value, unit).replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");
}

// Draws the time labels below a drawing.
function times(svg, x, start, end, height) {
  const long = end - start > 49 * 3600e3;
  const clock = { hour: "2-digit", minute: "2-digit", ...(end - start < 600e3 && { second: "2-digit" }) };
  for (const part of parts()) {
    const time = start + (end - start) * part;
    const anchor = part === 0 ? "start" : part === 1 ? "end" : "middle";
    const words = drawn("text", { x: x(time), y: height - 6, "text-anchor": anchor, class: "tick" });
    words.textContent = long ? new Date(time).toLocaleDateString()
      : new Date(time).toLocaleTimeString([], clock);
    svg.append(words);
  }
}

// Draws events as lines across a drawing.
function happened(svg, x, events, top, bottom) {
  for (const event of events.slice(-100)) {
    const line = drawn("line", { x1: x(event.time_ms), x2: x(event.time_ms), y1: top, y2: bottom, class: "event" });
    const words = drawn("title", {});
    words.textContent = new Date(event.time_ms).toLocaleString() + ": " + event.text;
    line.append(words);
    svg.append(line);
  }
}

// Draws a graph of `lines` and their `sums` over time. Each has a name and points. A line
// may also have the points of the previous period, shifted to this one, and `rough`
// points, which are estimates. `pick` is called with a time range that the user drags
// over.
export function figure(graph, { lines, sums, gauge, events }, start, end, pick) {
  const width = across(), height = 240, left = 72, right = 8, top = 8, bottom = 24;
  let most = 0;
  for (const line of lines) {
    for (const p of [...line.points, ...line.rough, ...line.old]) {
      most = Math.max(most, (gauge ? p[4] : p[2]) * graph.factor);
    }
  }
  for (const sum of sums) {
    for (const p of sum.points) most = Math.max(most, p[2] * graph.factor);
  }
  const levels = ticks(most);
  most = levels[levels.length - 1];
  const x = (time) => left + (time - start) / (end - start) * (width - left - right);
  const y = (value) => height - bottom - value / most * (height - top - bottom);
  const svg = drawn("svg", { viewBox: "0 0 " + width + " " + height, role: "img" });
  const values = lines.flatMap((line) => [...line.points, ...line.rough].map((p) => (gauge ? p[4] : p[2]) * graph.factor));
  svg.setAttribute("aria-label", graph.title + ": " + lines.length + " series, at most " +
    human(values.reduce((one, other) => Math.max(one, other), 0), graph.unit));
  for (const value of levels) {
    svg.append(drawn("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), class: "axis" }));
    const words = drawn("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end", class: "tick" });
    words.textContent = round(value, graph.unit);
    svg.append(words);
  }
  times(svg, x, start, end, height);
  happened(svg, x, events, top, height - bottom);
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
    const all = [...line.points, ...line.rough];
    if (gauge) svg.append(drawn("path", { d: area(line.points, x, y, graph.factor), class: "range s" + place % 8 }));
    svg.append(drawn("path", { d: path(line.old, x, y, (p) => p[2] * graph.factor), class: "before " + look }));
    if (line.rough.length) {
      svg.append(drawn("path", { d: path(line.rough, x, y, (p) => p[2] * graph.factor), class: "rough " + look }));
    }
    svg.append(drawn("path", { d: path(line.points, x, y, (p) => p[2] * graph.factor), class: "now " + look }));
    const peak = all.reduce((most, p) => Math.max(most, p[4] * graph.factor), 0);
    entry(look, line.name + ", at most " + human(peak, graph.unit));
  });
  sums.forEach((sum, place) => {
    const look = "sum" + (place ? " d" + place % 3 : "");
    svg.append(drawn("path", { d: path(sum.points, x, y, (p) => p[2] * graph.factor), class: "now " + look }));
    entry(look, graph.sum + " " + sum.name);
  });
  zoom(svg, (part) => start + (part * width - left) / (width - left - right) * (end - start), pick);
  return element("figure", {}, element("figcaption", { textContent: graph.title }), svg, key);
}

const BROKEN = ["", "too little", "waits long"];

// Says how long a promise was broken. For a step with both directions the history has
// only their sum, so that only the minimum is known.
function brokenWords(points) {
  let all = 0, broken = 0, least = "";
  const ways = new Set();
  for (const p of points) {
    const known = (p[1] - p[0]) * (p[6] ?? 1);
    all += known;
    if (!p[4]) continue;
    broken += known * p[2] / p[4];
    ways.add(BROKEN[p[4]]);
    if (p[4] === 2 && p[3] < 2) least = "at least ";
  }
  if (!all) return "not known";
  if (!broken) return "kept, or nothing waited";
  return "broken " + least + human(broken / all * 100, "%") + " of the time: " + [...ways].sort().join(", ");
}

// Draws a bar for each line over time: thin where a promise was kept or nothing waited,
// high where it was broken at any time of the step, none where it is unknown. The bars of
// the previous period are below.
export function strip(graph, { lines, events }, start, end, pick) {
  const width = across(), left = 8, right = 8, each = 34, bottom = 24;
  const all = lines.flatMap((line) => [[line.name, line.points],
    ...(line.old.length ? [[line.name + ", the time before", line.old]] : [])]);
  const height = all.length * each + bottom;
  const x = (time) => left + (Math.min(end, Math.max(start, time)) - start) / (end - start) * (width - left - right);
  const svg = drawn("svg", { viewBox: "0 0 " + width + " " + height, role: "img" });
  const said = all.map(([name, points]) => name + ": " + brokenWords(points));
  svg.setAttribute("aria-label", graph.title + ". " + said.join(". "));
  all.forEach(([, points], place) => {
    const words = drawn("text", { x: left, y: place * each + 12, class: "tick" });
    words.textContent = said[place];
    svg.append(words);
    const state = (p) => p[4];
    for (let from = 0, to; from < points.length; from = to) {
      to = from + 1;
      while (to < points.length && state(points[to]) === state(points[from]) &&
        points[to][0] - points[to - 1][1] <= 2 * (points[to][1] - points[to][0])) to++;
      const broken = state(points[from]);
      const [begin, until] = [x(points[from][0]), x(points[to - 1][1])];
      const bar = drawn("rect", {
        x: begin, width: Math.max(broken ? 1 : 0, until - begin),
        y: place * each + (broken ? 16 : 21), height: broken ? 14 : 4, class: broken ? "brokenbar" : "keptbar",
      });
      if (broken) {
        const what = drawn("title", {});
        what.textContent = new Date(points[from][0]).toLocaleString() + " to " +
          new Date(points[to - 1][1]).toLocaleString() + ": " + BROKEN[broken];
        bar.append(what);
      }
      svg.append(bar);
    }
  });
  times(svg, x, start, end, height);
  happened(svg, x, events, 0, height - bottom);
  zoom(svg, (part) => start + (part * width - left) / (width - left - right) * (end - start), pick);
  return element("figure", {}, element("figcaption", { textContent: graph.title }), svg,
    element("p", { className: "faint", textContent: "High and red: broken at some time of the step. Thin and green: kept, or nothing waited." }));
}

// Returns the path of points, with a gap where they are more than two steps apart.
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

// Returns the area from minimum to maximum, in pieces where values are missing.
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

// Lets the user select a time range by dragging over a graph.
function zoom(svg, timeAt, pick) {
  let from = null;
  let mark = null;
  const { width, height } = svg.viewBox.baseVal;
  const part = (event) => (event.clientX - svg.getBoundingClientRect().left) / svg.getBoundingClientRect().width;
  svg.addEventListener("pointerdown", (event) => {
    from = part(event);
    mark = drawn("rect", { y: 0, height, x: from * width, width: 0, class: "pick" });
    svg.append(mark);
  });
  svg.addEventListener("pointermove", (event) => {
    if (from === null) return;
    mark.setAttribute("x", Math.min(from, part(event)) * width);
    mark.setAttribute("width", Math.abs(part(event) - from) * width);
  });
  svg.addEventListener("pointercancel", () => { if (mark) mark.remove(); from = null; });
  svg.addEventListener("pointerup", (event) => {
    if (from === null) return;
    const [start, end] = [from, part(event)].sort((one, other) => one - other).map(timeAt);
    mark.remove();
    from = null;
    if (end - start > 5000) pick(start, end);
  });
}

// Draws the distribution of a series' values, weighted by how long each held. `what`
// names the series, `each` says what a value is. `step` is in milliseconds if each value
// is a mean over a longer time.
export function histogram(what, each, points, step) {
  const values = points.map((p) => [p[2] * 1e-6, (p[1] - p[0]) * (p[6] ?? 1)]).sort((one, other) => one[0] - other[0]);
  const all = values.reduce((sum, one) => sum + one[1], 0);
  if (!all) return [element("p", { textContent: "Nothing is known of this time." })];
  const within = (bound) => values.reduce((sum, one) => sum + (one[0] <= bound ? one[1] : 0), 0) / all;
  const below = (part) => {
    let sum = 0;
    for (const [value, weight] of values) if ((sum += weight) >= part * all) return value;
    return values[values.length - 1][0];
  };
  const bins = 50, width = across(), height = 220, left = 48, right = 8, top = 8, bottom = 24;
  const most = below(0.99) * 1.1 || 1e-3;
  const counts = new Array(bins).fill(0);
  for (const [value, weight] of values) counts[Math.min(bins - 1, Math.floor(value / most * bins))] += weight / all;
  const highest = Math.max(...counts);
  const svg = drawn("svg", { viewBox: "0 0 " + width + " " + height, role: "img" });
  svg.setAttribute("aria-label", "Histogram of " + what + ": half are at most " + human(below(0.5), "s"));
  const wide = (width - left - right) / bins;
  const y = (share) => height - bottom - share / highest * (height - top - bottom);
  for (const share of [0, highest / 2, highest]) {
    svg.append(drawn("line", { x1: left, x2: width - right, y1: y(share), y2: y(share), class: "axis" }));
    const words = drawn("text", { x: left - 6, y: y(share) + 4, "text-anchor": "end", class: "tick" });
    words.textContent = (share * 100).toFixed(share < 0.1 ? 1 : 0) + " %";
    svg.append(words);
  }
  counts.forEach((share, place) => svg.append(drawn("rect", { x: left + place * wide, y: y(share),
    width: wide - 1, height: height - bottom - y(share), class: "s0" })));
  for (const part of parts()) {
    const words = drawn("text", { x: left + part * (width - left - right), y: height - 6,
      "text-anchor": part === 0 ? "start" : part === 1 ? "end" : "middle", class: "tick" });
    words.textContent = human(most * part, "s") + (part === 1 ? " and more" : "");
    svg.append(words);
  }
  const cells = [["Half", 0.5], ["90 %", 0.9], ["95 %", 0.95], ["99 %", 0.99], ["All", 1]].map(([words, part]) =>
    words + " are at most " + human(below(part), "s"));
  const bounds = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5].filter((bound) => bound < most * 2);
  return [
    element("figure", {}, element("figcaption", { textContent: "Histogram: " + what }), svg),
    element("p", { textContent: cells.join("; ") + "." }),
    ...(bounds.length ? [element("p", { textContent: bounds.map((bound) =>
      (within(bound) * 100).toFixed(1) + " % within " + bound * 1e3 + " ms").join("; ") + "." })] : []),
    element("p", { className: "faint", textContent: "Parts are of the time, and each value is " + each +
      (step ? "; those of " + Math.round(step / 1000) + " s are one, their mean" : "") + "." }),
  ];
}
