"use strict";
const root = document.documentElement, CHUNK = 50, ALIKE = 3;
const SVG = "http://www.w3.org/2000/svg";

// -- language, theme -----------------------------------------------------------------------------------------------------------------
const chosen = (en, zh) => root.lang === "zh" ? zh : en;
const say = language => {
  root.lang = language;
  for (const node of document.querySelectorAll("[data-en]")) {
    if (node.tagName === "INPUT") node.placeholder = node.dataset[language]; else node.textContent = node.dataset[language];
  }
};
document.getElementById("language").addEventListener("click", () => say(root.lang === "zh" ? "en" : "zh"));
document.getElementById("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});

// -- making nodes: texts only, never markup ------------------------------------------------------------------------------------------
const made = (tag, kind = "", text = "") => {
  const node = document.createElement(tag);
  if (kind) node.className = kind;
  if (text) node.textContent = text;
  return node;
};
const both = (en, zh, tag = "span", kind = "") => {
  const node = made(tag, kind, chosen(en, zh));
  node.dataset.en = en; node.dataset.zh = zh;
  return node;
};
const word = (key, tag = "span", kind = "") => both(words[key][0], words[key][1], tag, kind);
const drawn = (tag, attributes) => {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
};
const short = number => number === null || number === undefined ? "-" : number === 0 ? "0" : Math.abs(number) >= 1e-3 && Math.abs(number) < 1e4 ? String(+number.toPrecision(3)) : number.toExponential(1);
const unpack = async node => {
  const bytes = Uint8Array.from(atob(node.dataset.rows), c => c.charCodeAt(0));
  const packed = node.dataset.packed === "yes";
  const text = packed ? await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text() : new TextDecoder().decode(bytes);
  return JSON.parse(text);
};

// -- tables of values ----------------------------------------------------------------------------------------------------------------
const cell = (row, text, kind) => { const node = row.insertCell(); node.textContent = text; if (kind) node.className = kind; return node; };
const rowOf = (body, [key, verdict, judged, error, noise, ratio, bar, shape, dtype, how, notes], chinese) => {
  const row = body.insertRow();
  cell(row, key);
  const held = cell(row, "");
  held.append(word(verdict, "span", "badge " + verdict.replace(" ", "-")));
  if (!judged) held.append(word("unjudged", "div", "dim"));
  for (const text of [error, noise, ratio]) cell(row, text, "n");
  const track = cell(row, "", "track");
  if (bar >= 0) { const line = made("span", "bar " + verdict.replace(" ", "-")); line.style.width = bar + "%"; track.append(line); }
  for (const text of [shape, dtype, how]) cell(row, text);
  const said = cell(row, "");
  if (notes.length) said.append(both(notes.join("; "), notes.map(note => chinese[note] || note).join("；")));
};
for (const table of document.querySelectorAll("details.values")) {
  let rows = null, chinese = {}, found = [], next = 0;
  const body = table.querySelector("tbody"), search = table.querySelector(".search"), only = table.querySelector(".only"), count = table.querySelector(".count");
  const more = () => { for (const row of found.slice(next, next + CHUNK)) rowOf(body, row, chinese); next = Math.min(found.length, next + CHUNK); count.textContent = next + " / " + found.length; };
  const end = made("div"); table.append(end);
  const filter = () => {
    const wanted = search.value.toLowerCase();
    found = rows.filter(row => (!only.checked || row[1] !== "aligned") && (!wanted || (row[0] + " " + row[10].map(note => note + " " + (chinese[note] || "")).join(" ")).toLowerCase().includes(wanted)));
    body.replaceChildren(); next = 0; more();
  };
  const fill = async () => {
    if (rows) return;
    ({rows, chinese} = await unpack(table));
    search.addEventListener("input", filter); only.addEventListener("change", filter); filter();
    new IntersectionObserver(seen => { if (seen[0].isIntersecting && next < found.length) more(); }).observe(end);
  };
  table.addEventListener("toggle", () => { if (table.open) fill(); });
}

// -- the trees of both models --------------------------------------------------------------------------------------------------------
const STATES = ["right", "own way", "wrong", "unmatched"];
const differs = row => STATES.indexOf(row[5]) > 1;
const treeOf = rows => {
  const top = {name: "", kind: "", items: [], inner: new Map(), count: 0, worst: 0, ratio: null, signature: 0};
  rows.forEach((row, number) => {
    let at = top;
    const rank = STATES.indexOf(row[5]), ratio = row[7] === null || !row[8] ? null : row[7] / row[8];
    const grow = node => { node.count += 1; node.worst = Math.max(node.worst, rank); if (ratio !== null) node.ratio = Math.max(node.ratio || 0, ratio); };
    grow(top);
    for (const part of row[0] ? row[0].split(".") : []) {
      if (!at.inner.has(part)) { const node = {name: part, kind: "", items: [], inner: new Map(), count: 0, worst: 0, ratio: null}; at.inner.set(part, node); at.items.push(node); }
      at = at.inner.get(part); grow(at);
    }
    at.kind = row[1]; at.items.push(number);
  });
  return top;
};
const signed = (node, rows, known) => {
  const text = node.kind + "(" + node.items.map(item => typeof item === "number" ? rows[item][2] : item.name.replace(/\d+/, "#") + signed(item, rows, known)).join() + ")";
  if (!known.has(text)) known.set(text, known.size);
  return node.signature = known.get(text);
};
const folded = items => {
  const groups = [];
  for (const item of items) {
    const last = groups[groups.length - 1];
    const same = typeof item === "object" && /^\d+$/.test(item.name) && item.worst < 2 && last && last.signature === item.signature;
    if (same) last.items.push(item);
    else groups.push({items: [item], signature: typeof item === "object" && /^\d+$/.test(item.name) && item.worst < 2 ? item.signature : -1});
  }
  return groups.flatMap(group => group.items.length < ALIKE ? group.items : [{group: group.items}]);
};
const operationsOf = async section => {
  const data = await unpack(section), trees = {}, opened = {reference: new Map(), candidate: new Map()};
  const guilty = {reference: new Set(data.guilty.reference), candidate: new Set(data.guilty.candidate)};
  const other = side => side === "reference" ? "candidate" : "reference";
  const plain = name => name.split(".").filter(part => !["aten", "default", "Tensor", "Scalar", "prims"].includes(part)).join(".") || name;
  const ratioOf = row => row[7] === null || !row[8] ? "" : short(row[7] / row[8]);
  const leaf = (side, number, whole) => {
    const row = data[side][number], node = made("button", "op state-" + row[5].replace(" ", "-"));
    node.type = "button"; node.dataset.number = number;
    node.append(made("b", "", plain(row[2])), made("span", "dim", (whole && row[0] ? row[0] + "  " : "") + row[4] + "  " + row[3]));
    if (guilty[side].has(number)) node.append(word("guilty", "span", "badge diverged"));
    else if (row[5] !== "right") node.append(word(row[5], "span", differs(row) ? "bad" : "dim"));
    if (ratioOf(row)) node.append(made("span", "n dim", ratioOf(row)));
    node.addEventListener("click", () => choose(side, number));
    return node;
  };
  const branch = (side, node) => {
    const box = made("details", "node"), head = made("summary", "state-" + STATES[node.worst].replace(" ", "-"));
    head.append(made("b", "", node.name), made("span", "dim", node.kind), made("span", "dim", String(node.count)), word("operations of", "span", "dim"));
    if (node.ratio !== null) head.append(made("span", "n dim", short(node.ratio)));
    box.append(head); lazily(side, box, node.items); opened[side].set(node, box);
    return box;
  };
  const bundle = (side, group) => {
    const box = made("details", "node"), head = made("summary", "state-right");
    head.append(made("b", "", group[0].name + " … " + group[group.length - 1].name), made("span", "dim", String(group.length)), word("alike", "span", "dim"));
    box.append(head); lazily(side, box, group);
    for (const node of group) opened[side].set(node, box);
    return box;
  };
  const fill = (side, box, items) => {
    for (const item of items) box.append(typeof item === "number" ? leaf(side, item) : item.group ? bundle(side, item.group) : branch(side, item));
  };
  const lazily = (side, box, items) => {
    let filled = false;
    box.fill = () => { if (!filled) { filled = true; fill(side, box, box.querySelector("b").textContent.includes(" … ") ? items : folded(items)); } };
    box.addEventListener("toggle", () => { if (box.open) box.fill(); });
  };
  const body = side => section.querySelector(`[data-side=${side}] .body`);
  const show = side => {
    opened[side].clear(); body(side).replaceChildren();
    fill(side, body(side), folded(trees[side].items));
  };
  const reveal = (side, number) => {
    let at = trees[side];
    for (const part of data[side][number][0] ? data[side][number][0].split(".") : []) {
      at = at.inner.get(part);
      for (let turn = 0; turn < 2; turn += 1) { const box = opened[side].get(at); if (box) { box.open = true; box.fill(); } }
    }
    return body(side).querySelector(`[data-number="${number}"]`);
  };
  const choose = (side, number) => {
    for (const node of section.querySelectorAll(".chosen")) node.classList.remove("chosen");
    const pairs = [[side, number], [other(side), data[side][number][6]]];
    for (const [where, which] of pairs) {
      if (which < 0) continue;
      const node = searching() ? body(where).querySelector(`[data-number="${which}"]`) : reveal(where, which);
      if (node) { node.classList.add("chosen"); body(where).scrollTop += node.getBoundingClientRect().top - body(where).getBoundingClientRect().top - body(where).clientHeight / 3; }
    }
  };
  const search = section.querySelector(".search"), only = section.querySelector(".only"), count = section.querySelector(".count");
  const searching = () => search.value || only.checked;
  const filter = () => {
    if (!searching()) { count.textContent = ""; for (const side of Object.keys(trees)) show(side); start(); return; }
    const wanted = search.value.toLowerCase(), counts = [];
    for (const side of ["reference", "candidate"]) {
      const found = data[side].flatMap((row, number) => (!only.checked || differs(row)) && row.slice(0, 4).join(" ").toLowerCase().includes(wanted) ? [number] : []);
      body(side).replaceChildren(...found.slice(0, CHUNK).map(number => leaf(side, number, true)));
      counts.push(found.length);
    }
    count.replaceChildren(made("span", "", counts.join(" + ") + " "), word("found"));
  };
  const start = () => { const first = data.guilty.candidate.find(number => number >= 0); if (first !== undefined) choose("candidate", first); const ref = data.guilty.reference.find(number => number >= 0); if (ref !== undefined) { const node = reveal("reference", ref); if (node) node.classList.add("chosen"); } };
  for (const side of ["reference", "candidate"]) { trees[side] = treeOf(data[side]); signed(trees[side], data[side], new Map()); show(side); }
  search.addEventListener("input", filter); only.addEventListener("change", filter);
  start();
};
for (const section of document.querySelectorAll("section.operations")) {
  const watch = new IntersectionObserver(seen => { if (seen.some(each => each.isIntersecting)) { watch.disconnect(); operationsOf(section); } }, {rootMargin: "600px"});
  watch.observe(section);
}

// -- pictures ------------------------------------------------------------------------------------------------------------------------
const WIDTH = 300, HEIGHT = 90;
const frame = label => drawn("svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "drawing", role: "img", "aria-label": label});
const steps = (counts, most) => counts.map((count, n) => `${n ? "L" : "M"}${n * WIDTH / counts.length} ${HEIGHT - HEIGHT * count / most}L${(n + 1) * WIDTH / counts.length} ${HEIGHT - HEIGHT * count / most}`).join("");
const figure = (head, picture, below) => {
  const box = made("figure", "drawn"), caption = made("figcaption");
  caption.append(...head); box.append(caption, picture);
  if (below) box.append(made("div", "dim ends", below));
  return box;
};
const legend = () => { const node = made("span", "dim legend"); node.append(word("reference", "span", "reference"), word("candidate", "span", "candidate")); return node; };
const histogram = tensor => {
  const svg = frame(tensor.key), most = Math.max(1, ...tensor.counts[0], ...tensor.counts[1]);
  ["reference", "candidate"].forEach((side, n) => svg.append(drawn("path", {d: steps(tensor.counts[n], most), class: side})));
  const missing = tensor.missing.some(count => count) ? ` · ${words["not finite"][root.lang === "zh" ? 1 : 0]}: ${tensor.missing.join(", ")}` : "";
  return figure([word("values of", "b"), legend()], svg, `${short(tensor.from)} … ${short(tensor.to)}${missing}`);
};
const bars = axis => {
  const svg = frame(axis.name), most = Math.max(...axis.values) || 1, width = WIDTH / axis.values.length;
  axis.values.forEach((value, n) => svg.append(drawn("rect", {x: n * width, y: HEIGHT - HEIGHT * value / most, width: Math.max(width - 1, 0.5), height: HEIGHT * value / most, class: "error"})));
  return figure([word("error of", "b"), made("span", "dim", `${axis.name} (${axis.length})`)], svg, `0 … ${axis.length - 1}; ≤ ${short(most)}`);
};
const map = found => {
  const rows = found.cells.length, columns = found.cells[0].length, most = Math.max(...found.cells.flat()) || 1;
  const svg = drawn("svg", {viewBox: `0 0 ${columns} ${rows}`, class: "map", role: "img", "aria-label": "error map", preserveAspectRatio: "none"});
  found.cells.forEach((row, y) => row.forEach((value, x) => svg.append(drawn("rect", {x, y, width: 1, height: 1, class: "error", "fill-opacity": value / most}))));
  return figure([word("error map", "b")], svg, `${found.shape.join(" x ")}; ≤ ${short(most)}`);
};
const sample = (found, key) => {
  const canvas = made("canvas"), image = new ImageData(found.width, found.height), bytes = atob(found.rgb);
  canvas.width = found.width; canvas.height = found.height;
  for (let n = 0; n < found.width * found.height; n += 1) { for (let c = 0; c < 3; c += 1) image.data[4 * n + c] = bytes.charCodeAt(3 * n + c); image.data[4 * n + 3] = 255; }
  canvas.getContext("2d").putImageData(image, 0, 0);
  return figure([word(key, "b")], canvas);
};
const curveOf = curve => {
  const svg = frame(curve.name), all = [...curve.reference, ...curve.candidate];
  const [left, right, low, high] = [0, 1].flatMap(n => [Math.min(...all.map(point => point[n])), Math.max(...all.map(point => point[n]))]);
  for (const side of ["reference", "candidate"]) svg.append(drawn("polyline", {points: curve[side].map(([x, y]) => `${WIDTH * (x - left) / (right - left || 1)},${HEIGHT - 4 - (HEIGHT - 8) * (y - low) / (high - low || 1)}`).join(" "), class: side}));
  return figure([made("b", "", curve.name), legend()], svg, `${short(left)} … ${short(right)}; ${short(low)} … ${short(high)}`);
};
const draw = (box, data) => {
  const grid = made("div", "grid");
  grid.append(...data.curves.filter(curve => curve.reference.length && curve.candidate.length).map(curveOf));
  box.append(grid);
  for (const tensor of data.tensors) {
    const part = made("div", "grid"), head = made("h3", "", tensor.key);
    if (tensor.at) head.append(made("span", "dim", "  "), word("greatest", "span", "dim"), made("span", "dim", ` ${short(tensor.most)} `), word("index", "span", "dim"), made("span", "dim", ` [${tensor.at.join(", ")}]`));
    if (tensor.samples) ["reference", "candidate"].forEach((side, n) => { if (tensor.samples[n]) part.append(sample(tensor.samples[n], side)); });
    part.append(histogram(tensor), ...(tensor.axes || []).map(bars), ...(tensor.map ? [map(tensor.map)] : []));
    box.append(head, part);
  }
};
for (const box of document.querySelectorAll("details.drawings")) {
  let filled = false;
  box.addEventListener("toggle", async () => { if (box.open && !filled) { filled = true; draw(box.querySelector("div"), await unpack(box)); } });
}

// -- keyboard, addresses, print ------------------------------------------------------------------------------------------------------
document.addEventListener("keydown", event => {
  const box = document.querySelector("details.values[open] .search") || document.querySelector("section.operations .search");
  if (event.key === "/" && box && event.target.tagName !== "INPUT") { event.preventDefault(); box.focus(); }
  if (event.key === "Escape" && event.target.classList.contains("search")) { event.target.value = ""; event.target.dispatchEvent(new Event("input")); }
});
const reveal = () => { for (let at = location.hash && document.getElementById(location.hash.slice(1)); at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true; };
addEventListener("hashchange", reveal); reveal();
