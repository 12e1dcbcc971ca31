// ---- What all parts of the page use -------------------------------------------------------------

// Facts for tests of the page, as attributes of the document: the number of errors, and what was
// drawn.
const told = document.documentElement.dataset;
told.errors = '0';
addEventListener('error', () => { told.errors = String(Number(told.errors) + 1); });

const data = JSON.parse(document.getElementById('data').textContent);
const ints = column => new Int32Array(column);
function doubles(column) {
  const result = new Float64Array(column);
  for (let i = 0; i < column.length; ++i) if (column[i] === null) result[i] = NaN;
  return result;
}
// Decodes a column of times. Each time is stored as the difference to the one before.
function times(column) {
  const result = new Float64Array(column);
  for (let i = 1; i < result.length; ++i) result[i] += result[i - 1];
  return result;
}

const texts = data.texts;
const scopes = { outer: ints(data.scopes.outer), name: ints(data.scopes.name) };
const sites = { scope: ints(data.sites.scope), operation: ints(data.sites.operation) };
const kinds = {
  count: data.kinds.site.length, site: ints(data.kinds.site), attributes: ints(data.kinds.attributes), operands: ints(data.kinds.operands),
  outputs: ints(data.kinds.outputs), device: ints(data.kinds.device), bytes: doubles(data.kinds.bytes),
  moved: doubles(data.kinds.moved), flops: doubles(data.kinds.flops),
};
const instances = { outer: ints(data.instances.outer), scope: ints(data.instances.scope) };
const lanes = { thread: ints(data.lanes.thread), device: ints(data.lanes.device) };
const operations = {
  count: data.operations.start.length, start: times(data.operations.start), time: doubles(data.operations.time),
  kind: ints(data.operations.kind), instance: ints(data.operations.instance), lane: ints(data.operations.lane),
  forward: ints(data.operations.forward),
};
const edges = { count: data.edges.from.length, from: ints(data.edges.from), output: ints(data.edges.output), to: ints(data.edges.to),
  operand: ints(data.edges.operand), times: doubles(data.edges.count) };
const deviceNames = data.devices.name;

// Calls, total time and longest time of each kind of operation.
kinds.calls = new Float64Array(kinds.count);
kinds.time = new Float64Array(kinds.count);
kinds.longest = new Float64Array(kinds.count);
for (let i = 0; i < operations.count; ++i) {
  const kind = operations.kind[i];
  ++kinds.calls[kind];
  kinds.time[kind] += operations.time[i];
  kinds.longest[kind] = Math.max(kinds.longest[kind], operations.time[i]);
}

// The time of each kind without that of the operations that it performs. These begin and end within
// it, in the same lane.
kinds.self = kinds.time.slice();
{
  // For each lane, the operations that have not ended.
  const open = Array.from(lanes.thread, () => []);
  for (let i = 0; i < operations.count; ++i) {
    const around = open[operations.lane[i]], end = operations.start[i] + operations.time[i];
    while (around.length && operations.start[around[around.length - 1]] + operations.time[around[around.length - 1]] < end) around.pop();
    if (around.length) kinds.self[operations.kind[around[around.length - 1]]] -= operations.time[i];
    around.push(i);
  }
}

const scopeOfKind = kind => kinds.site[kind] < 0 ? -1 : sites.scope[kinds.site[kind]];
// `isBackward[s]` is 1 if scope s is that of a backward pass, or inside one.
const isBackward = new Uint8Array(scopes.outer.length);
for (let s = 0; s < isBackward.length; ++s) isBackward[s] = data.scopes.backward[s] || (scopes.outer[s] >= 0 && isBackward[scopes.outer[s]]) ? 1 : 0;
const hasBackward = isBackward.includes(1);
const directionOfScope = scope => !hasBackward ? colours.scope : isBackward[scope] ? colours.backward : colours.forward;
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

const unitsOfTime = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']];
function inUnits(ns) {
  for (const [size, name] of [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs']])
    if (ns >= 0.9995 * size) return `${Number((ns / size).toPrecision(3))} ${name}`;
  return `${Math.round(ns)} ns`;
}
function inBytes(bytes) {
  const names = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  for (; Math.abs(bytes) >= 1024 && unit + 1 < names.length; ++unit) bytes /= 1024;
  return `${unit && bytes % 1 ? bytes.toFixed(1) : Math.round(bytes)} ${names[unit]}`;
}
const inDigits = x => Number.isFinite(x) ? String(Number(x.toPrecision(6))) : Number.isNaN(x) ? 'nan' : x > 0 ? 'inf' : '-inf';
const counted = (count, what) => `${count.toLocaleString('en')} ${what}${count === 1 ? '' : 's'}`;

// Creates an element. Text of the user is inserted as plain text, never as markup.
function element(name, attributes = {}, ...content) {
  const result = name === 'svg' || element.inSvg.has(name) ? document.createElementNS('http://www.w3.org/2000/svg', name)
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) result.setAttribute(key, value);
  result.append(...content);
  return result;
}
element.inSvg = new Set(['g', 'rect', 'text', 'path', 'title', 'circle', 'line']);
const part = (section, selector) => document.querySelector(`#${section} ${selector}`);

// ---- Drawing ------------------------------------------------------------------------------------

let colours = {};
function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ['ground', 'panel', 'ink', 'faint', 'line', 'accent', 'scope', 'forward', 'backward', 'bad']) colours[name] = style.getPropertyValue(`--${name}`);
  colours.dark = matchMedia('(prefers-color-scheme: dark)').matches;
}
// Returns colour i of 36: twelve hues, then the same hues lighter and darker. Neighbours in the
// list have distant hues. Text on these colours is readable.
function distinct(i) {
  const tier = Math.floor(i / 12) % 3, hue = (255 + 30 * (5 * i % 12) + 10 * tier) % 360;
  const [light, chroma] = (colours.dark ? [[0.5, 0.12], [0.38, 0.09], [0.62, 0.1]] : [[0.76, 0.13], [0.89, 0.09], [0.65, 0.15]])[tier];
  return `oklch(${light} ${chroma} ${hue})`;
}
// The same colours for thin lines.
const lineColour = i => `oklch(${colours.dark ? 0.75 : 0.6} 0.15 ${(255 + 30 * (5 * i % 12) + 10 * (Math.floor(i / 12) % 3)) % 360})`;
// Ranks operations by name. The names that take the most time get the first colours.
const ranks = (() => {
  const sums = new Map();
  for (let k = 0; k < kinds.count; ++k)
    if (kinds.site[k] >= 0) sums.set(nameOfKind(k), (sums.get(nameOfKind(k)) || 0) + kinds.time[k]);
  return new Map([...sums].sort((a, b) => b[1] - a[1]).map(([name], i) => [name, i]));
})();
const colourOf = name => distinct(ranks.get(name) ?? 0);
const mostBands = 12;
// The width of the labels beside time axes, in pixels.
const leftOfCanvas = innerWidth < 600 ? 70 : 130;
const paletteColour = i => i < mostBands ? distinct(i) : colours.faint;

// Gives the canvas the screen's resolution. Returns its context, in CSS pixels.
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
// Returns the smallest 1, 2 or 5 times a power of ten such that at most `most` steps cover the
// length.
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

// The interval of time that timeline and memory show. The listeners draw it again when it changes.
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
// Returns the index of the first of the sorted numbers that is greater than `number`.
function firstAfter(sorted, number) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] > number) high = middle;
    else low = middle + 1;
  }
  return low;
}
// Returns the labels of ticks `every` ns apart, with enough digits to tell neighbours apart. If
// these labels would be long, the first tick has the time, and the others the difference to it:
// "167.2 ms", "+20 ns".
function tickTexts(from, to, every) {
  const first = Math.ceil(from / every), count = Math.floor(to / every) - first + 1;
  const most = Math.max(Math.abs(from), Math.abs(to)), [size, unit] = unitsOfTime.find(([size]) => most >= size) || [1, 'ns'];
  const digits = Math.max(0, Math.ceil(Math.log10(size / every) - 1e-9));
  const whole = i => `${((first + i) * every / size).toFixed(digits)} ${unit}`;
  const long = Math.max(whole(0).length, whole(count - 1).length) > 11;
  const [step, small] = unitsOfTime.find(([size]) => every * (count - 1) >= size) || [1, 'ns'];
  const places = Math.max(0, Math.ceil(Math.log10(step / every) - 1e-9));
  return Array.from({ length: Math.max(0, count) }, (_, i) => ({ time: (first + i) * every,
    text: long && i > 0 ? `+${(i * every / step).toFixed(places)} ${small}` : whole(i) }));
}
function drawTimes(context, left, width, height) {
  const length = view.to - view.from, ticks = tickTexts(view.from, view.to, step(length, Math.max(1, width / 100)));
  context.strokeStyle = colours.line;
  context.fillStyle = colours.faint;
  context.textAlign = 'left';
  let free = left;  // the labels end before this x
  for (const { time, text } of ticks) {
    const x = left + (time - view.from) / length * width, wide = context.measureText(text).width;
    context.beginPath();
    context.moveTo(x, 0);
    context.lineTo(x, height);
    context.stroke();
    // The label of the last tick is on its left.
    const at = x + 3 + wide <= left + width ? x + 3 : x - 3 - wide;
    if (at < free) continue;
    context.fillText(text, at, 8);
    free = at + wide + 6;
  }
  told.tickEnd = String(free - 6);
  told.ticks = ticks.map(tick => tick.text).join('|');
}
// Returns the permutation that sorts the numbers, which are not negative. It is stable. A radix
// sort, because there may be millions of numbers.
function orderOf(numbers) {
  let order = new Uint32Array(numbers.length), next = new Uint32Array(numbers.length), most = 0;
  for (let i = 0; i < order.length; ++i) {
    order[i] = i;
    if (numbers[i] > most && numbers[i] < Infinity) most = numbers[i];
  }
  const digits = 2048, clear = x => x < Infinity ? x : most + 1;
  for (let unit = 1; unit <= most + 1; unit *= digits) {
    const starts = new Uint32Array(digits + 1), digit = i => Math.floor(clear(numbers[i]) / unit) % digits;
    for (let i = 0; i < order.length; ++i) ++starts[digit(i) + 1];
    for (let d = 0; d < digits; ++d) starts[d + 1] += starts[d];
    for (let i = 0; i < order.length; ++i) next[starts[digit(order[i])]++] = order[i];
    [order, next] = [next, order];
  }
  return order;
}

// ---- The selection ------------------------------------------------------------------------------

// The selection, shared by all views: kinds of operations, and possibly one operation of them.
const selection = { text: '', kinds: null, scopes: null, operation: -1, listeners: [] };
const isSelected = kind => !selection.kinds || selection.kinds[kind] === 1;
const inScope = (inner, outer) => { for (let s = inner; s >= 0; s = scopes.outer[s]) if (s === outer) return true; return outer < 0; };

// Selects the kinds for which `holds` is true. null selects everything, as at the beginning.
function select(text, holds, operation = -1) {
  selection.text = text;
  selection.operation = operation;
  selection.kinds = holds && new Uint8Array(kinds.count);
  // 1 for scopes that contain a selected kind, directly or further inside.
  selection.scopes = holds && new Uint8Array(scopes.outer.length);
  for (let k = 0; holds && k < kinds.count; ++k) {
    if (kinds.site[k] < 0 || !holds(k)) continue;
    selection.kinds[k] = 1;
    for (let s = scopeOfKind(k); s >= 0; s = scopes.outer[s]) selection.scopes[s] = 1;
  }
  for (const listener of selection.listeners) listener();
  redraw();
}
const selectNothing = () => select('', null);
const selectScope = scope => select(`scope ${pathOfScope(scope)}`, scope < 0 ? k => scopeOfKind(k) < 0 : k => inScope(scopeOfKind(k), scope));
const selectName = name => select(`all ${name}`, k => nameOfKind(k) === name);
const selectKind = kind => select(`${nameOfKind(kind)} in ${pathOfScope(scopeOfKind(kind))}`, k => k === kind);
const selectOperation = i => select(`${nameOfKind(operations.kind[i])} at ${inUnits(operations.start[i])}, in ${pathOfScope(scopeOfKind(operations.kind[i]))}`,
  k => k === operations.kind[i] || (operations.forward.length && operations.forward[i] >= 0 && k === operations.kind[operations.forward[i]]), i);
