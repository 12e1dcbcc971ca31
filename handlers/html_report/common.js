// ---- What all parts of the page use -------------------------------------------------------------------------------------

// For whoever asks whether the page works: errors, and what was drawn, as attributes of the document.
const told = document.documentElement.dataset;
told.errors = '0';
addEventListener('error', () => { told.errors = String(Number(told.errors) + 1); });

const data = JSON.parse(document.getElementById('data').textContent);
const ints = column => Int32Array.from(column);
const doubles = column => Float64Array.from(column, x => x === null ? NaN : x);
// Times are written as what they are after the one before.
const times = column => { let sum = 0; return Float64Array.from(column, x => sum += x); };

const texts = data.texts;
const scopes = { outer: ints(data.scopes.outer), name: ints(data.scopes.name) };
const sites = { scope: ints(data.sites.scope), operation: ints(data.sites.operation) };
const kinds = {
  count: data.kinds.site.length, site: ints(data.kinds.site), attributes: ints(data.kinds.attributes), operands: ints(data.kinds.operands),
  outputs: ints(data.kinds.outputs), device: ints(data.kinds.device), bytes: doubles(data.kinds.bytes),
};
const instances = { outer: ints(data.instances.outer), scope: ints(data.instances.scope) };
const lanes = { thread: ints(data.lanes.thread), device: ints(data.lanes.device) };
const operations = {
  count: data.operations.start.length, start: times(data.operations.start), time: doubles(data.operations.time),
  kind: ints(data.operations.kind), instance: ints(data.operations.instance), lane: ints(data.operations.lane),
};
const edges = { count: data.edges.from.length, from: ints(data.edges.from), output: ints(data.edges.output), to: ints(data.edges.to),
  operand: ints(data.edges.operand), times: doubles(data.edges.count) };
const deviceNames = data.devices.name;

// Calls, time and the longest of each kind.
kinds.calls = new Float64Array(kinds.count);
kinds.time = new Float64Array(kinds.count);
kinds.longest = new Float64Array(kinds.count);
for (let i = 0; i < operations.count; ++i) {
  const kind = operations.kind[i];
  ++kinds.calls[kind];
  kinds.time[kind] += operations.time[i];
  kinds.longest[kind] = Math.max(kinds.longest[kind], operations.time[i]);
}

const scopeOfKind = kind => kinds.site[kind] < 0 ? -1 : sites.scope[kinds.site[kind]];
const nameOfKind = kind => kinds.site[kind] < 0 ? texts[kinds.outputs[kind]] : texts[sites.operation[kinds.site[kind]]];
const pathsOfScopes = [];
function pathOfScope(scope) {
  if (scope < 0) return '(no scope)';
  if (pathsOfScopes[scope] === undefined) {
    const names = [];
    for (let s = scope; s >= 0; s = scopes.outer[s]) names.unshift(texts[scopes.name[s]]);
    pathsOfScopes[scope] = names.join('/');
  }
  return pathsOfScopes[scope];
}

function inUnits(ns) {
  for (const [size, name] of [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs']])
    if (ns >= 0.9995 * size) return `${Number((ns / size).toPrecision(3))} ${name}`;
  return `${Math.round(ns)} ns`;
}
function inBytes(bytes) {
  const names = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  for (; Math.abs(bytes) >= 1024 && unit + 1 < names.length; ++unit) bytes /= 1024;
  return `${unit ? bytes.toFixed(1) : bytes} ${names[unit]}`;
}
const inDigits = x => Number.isFinite(x) ? String(Number(x.toPrecision(6))) : Number.isNaN(x) ? 'nan' : x > 0 ? 'inf' : '-inf';
const counted = (count, what) => `${count.toLocaleString('en')} ${what}${count === 1 ? '' : 's'}`;

// An element; texts of the user's become nothing but text.
function element(name, attributes = {}, ...content) {
  const result = name === 'svg' || element.inSvg.has(name) ? document.createElementNS('http://www.w3.org/2000/svg', name)
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) result.setAttribute(key, value);
  result.append(...content);
  return result;
}
element.inSvg = new Set(['g', 'rect', 'text', 'path', 'title']);
const part = (section, selector) => document.querySelector(`#${section} ${selector}`);

// ---- Drawing ------------------------------------------------------------------------------------------------------------

let colours = {};
function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ['ground', 'panel', 'ink', 'faint', 'line', 'accent', 'scope']) colours[name] = style.getPropertyValue(`--${name}`);
  colours.dark = matchMedia('(prefers-color-scheme: dark)').matches;
}
// Each name has its own.
function colourOf(text) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; ++i) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return `hsl(${(hash >>> 0) % 360} 55% ${colours.dark ? 42 : 68}%)`;
}
const palette = [210, 30, 140, 275, 55, 340, 180, 95];
const paletteColour = i => i < palette.length ? `hsl(${palette[i]} 55% ${colours.dark ? 45 : 62}%)` : colours.faint;

// Makes the canvas as sharp as the screen; gives its context, in CSS pixels.
function surface(canvas, height) {
  const width = canvas.clientWidth, scale = devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const context = canvas.getContext('2d');
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = '12px system-ui, sans-serif';
  context.textBaseline = 'middle';
  return { context, width, height };
}
// 1, 2 or 5 times a power of ten, of which `most` cover the length.
function step(length, most) {
  const least = length / Math.max(most, 1), power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map(x => x * power).find(x => x >= least) || least;
}
function fit(context, text, width) {
  if (width < 12) return '';
  const most = Math.floor(width / 6.2);
  if (text.length <= most && context.measureText(text).width <= width) return text;
  for (let length = Math.min(text.length - 1, most); length > 0; --length)
    if (context.measureText(`${text.slice(0, length)}…`).width <= width) return `${text.slice(0, length)}…`;
  return '';
}

// The stretch of time that timeline and memory show, and who draws it again when it changes.
const view = { from: 0, to: 1, end: 1, listeners: [], waiting: false };
view.end = Math.max(1, data.end);
view.from = operations.count ? operations.start[0] : 0;
for (let i = 0; i < operations.count; ++i) view.to = Math.max(view.to, operations.start[i] + operations.time[i]);
view.all = [view.from, Math.max(view.to, view.from + 1)];
function show(from, to) {
  const [first, last] = view.all, length = Math.min(Math.max(to - from, 10), last - first);
  view.from = Math.min(Math.max(from, first), last - length);
  view.to = view.from + length;
  redraw();
}
function zoom(factor, at) {
  const length = Math.min(Math.max((view.to - view.from) * factor, 10), view.all[1] - view.all[0]);
  const part = (at - view.from) / (view.to - view.from);
  show(at - part * length, at + (1 - part) * length);
}
function redraw() {
  if (view.waiting) return;
  view.waiting = true;
  requestAnimationFrame(() => {
    view.waiting = false;
    for (const listener of view.listeners) listener();
  });
}
// The first of the sorted numbers that is greater.
function firstAfter(sorted, number) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] > number) high = middle;
    else low = middle + 1;
  }
  return low;
}
function drawTimes(context, left, width, height) {
  const length = view.to - view.from, every = step(length, width / 110);
  context.strokeStyle = colours.line;
  context.fillStyle = colours.faint;
  context.textAlign = 'left';
  for (let t = Math.ceil(view.from / every) * every; t <= view.to; t += every) {
    const x = left + (t - view.from) / length * width;
    context.beginPath();
    context.moveTo(x, 0);
    context.lineTo(x, height);
    context.stroke();
    context.fillText(inUnits(t), x + 3, 8);
  }
}
