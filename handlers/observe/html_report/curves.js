// ---- Curves -------------------------------------------------------------------------------------

const curves = (() => {
  const charts = part('curves', '.charts'), over = document.getElementById('over'), how = document.getElementById('scale');
  const more = document.getElementById('more-curves'), pageLength = 40, height = 190, left = 60, bottom = 20;

  // Returns a curve for each name, in the order of their first points.
  function curvesOf(given, texts) {
    const byName = new Map(), when = times(given.when), mean = doubles(given.mean), least = doubles(given.least), greatest = doubles(given.greatest);
    let range = 0;
    for (let i = 0; i < mean.length; ++i) {
      const curve = byName.get(given.name[i]) || { name: texts[given.name[i]], when: [], mean: [], least: [], greatest: [] };
      byName.set(given.name[i], curve);
      const single = given.elements[i] === 1;
      curve.when.push(when[i]);
      curve.mean.push(mean[i]);
      curve.least.push(single ? mean[i] : least[range]);
      curve.greatest.push(single ? mean[i] : greatest[range]);
      if (!single) ++range;
    }
    return [...byName.values()];
  }
  const all = curvesOf(data.points, texts);
  const drawn = [];

  // Scales. y(value) is the position of a value. If the largest point is more than a thousand times
  // as far from 0 as the first quartile, the scale is logarithmic. If, in addition, some points are
  // not positive, it is sign(v) log10(1 + |v| / c), which is linear near 0.
  const linear = { name: 'linear', y: value => value };
  const logScale = { name: 'logarithmic', y: value => Math.log10(value) };
  const symlog = c => ({ name: 'symmetric logarithmic', c, y: value => Math.sign(value) * (Math.log10(c + Math.abs(value)) - Math.log10(c)) });
  function scaleOf(curve) {
    const sizes = [];  // the largest magnitude of each point
    let positive = true;
    const both = curve.other ? [curve, curve.other] : [curve];
    for (const { mean, least, greatest } of both) for (let i = 0; i < mean.length; ++i) {
      const values = [mean[i], least[i], greatest[i]].filter(Number.isFinite), size = Math.max(0, ...values.map(Math.abs));
      positive = positive && values.every(value => value > 0);
      if (size > 0) sizes.push(size);
    }
    sizes.sort((a, b) => a - b);
    const most = sizes[Math.floor(sizes.length / 4)], largest = sizes[sizes.length - 1], small = symlog(sizes[Math.floor(sizes.length / 10)] || 1);
    const is = how.value !== 'automatic' ? how.value : !(largest > 1000 * most) ? 'linear' : positive ? 'logarithmic' : 'symlog';
    if (is === 'logarithmic') return logScale;
    if (is === 'symlog') return small;
    // The division keeps differences finite.
    return largest > 1e300 ? { ...linear, y: value => value / largest, unit: largest } : linear;
  }
  function prepare(curve) {
    const scale = scaleOf(curve), y = scale.y, fits = value => Number.isFinite(value) && Number.isFinite(y(value));
    const x = over.value === 'time' ? i => curve.when[i] : i => i;
    let low = Infinity, high = -Infinity;
    for (const { mean, least, greatest } of curve.other ? [curve, curve.other] : [curve])
      for (const values of [least, greatest, mean]) for (const value of values) if (fits(value)) [low, high] = [Math.min(low, y(value)), Math.max(high, y(value))];
    if (low > high) [low, high] = [0, 1];
    if (low === high) [low, high] = [low - 0.5, high + 0.5];
    const count = curve.mean.length, first = x(0), last = Math.max(x(count - 1), !curve.other ? 0 : over.value === 'time' ? curve.other.when[curve.other.when.length - 1] : curve.other.mean.length - 1);
    return { ...scale, fits, x, low, high, count, first, length: last - first || 1 };
  }
  // Returns the ticks { at, text } of the value axis. `at` is a position on the scale.
  function ticksOf(scale) {
    const { low, high, name, c } = scale;
    if (name === 'linear' || (name === 'logarithmic' && high - low < 1)) {
      const every = step(high - low, 6), unit = scale.unit || 1, back = name === 'logarithmic' ? at => 10 ** at : at => at * unit;
      const ticks = [];
      for (let at = Math.ceil(low / every - 1e-9); at * every <= high * (1 + 1e-12); ++at)
        ticks.push({ at: at * every, text: inDigits(Number(back(at * every).toPrecision(3))) });
      return ticks;
    }
    const powers = [];
    if (name === 'logarithmic') for (let power = Math.ceil(low - 1e-9); power <= high + 1e-9; ++power) powers.push(10 ** power);
    else for (let power = Math.ceil(Math.log10(c)); power <= 308; ++power) powers.push(10 ** power);
    const signed = name === 'logarithmic' ? powers : [...powers.map(x => -x).reverse(), 0, ...powers];
    const inside = signed.filter(value => scale.y(value) >= low - 1e-9 && scale.y(value) <= high + 1e-9);
    const every = Math.max(1, Math.ceil(inside.length / 5)), zero = Math.max(0, inside.indexOf(0));
    return inside.filter((_, i) => (i - zero) % every === 0).map(value => ({ at: scale.y(value), text: value ? value.toExponential(0).replace('e+', 'e').replace(/e0$/, '') : '0' }));
  }

  // Marks a point that is not finite: a cross at the bottom for NaN, a triangle at the top or
  // bottom for an infinity.
  function mark(context, x, value, tall) {
    const y = value === Infinity ? 14 : 6 + tall;
    context.beginPath();
    if (Number.isNaN(value)) {
      context.moveTo(x - 3, y - 3); context.lineTo(x + 3, y + 3);
      context.moveTo(x - 3, y + 3); context.lineTo(x + 3, y - 3);
    } else {
      const up = value > 0 ? -4 : 4;
      context.moveTo(x - 4, y - up); context.lineTo(x + 4, y - up); context.lineTo(x, y + up); context.closePath();
      context.fill();
    }
    context.stroke();
  }

  // Merges the points of one pixel into a column from their least to their greatest value. A gap is
  // null.
  function columnsOf(curve, scale, px, py) {
    const columns = [], marks = [], marked = new Set(), count = { nan: 0, infinite: 0, outside: 0 };
    for (let i = 0; i < scale.count; ++i) {
      const x = Math.round(px(i));
      for (const value of new Set([curve.mean[i], curve.least[i], curve.greatest[i]]))
        if (!Number.isFinite(value) && !marked.has(`${x} ${value}`)) {
          marked.add(`${x} ${value}`);
          marks.push({ x, value });
        }
      if (!scale.fits(curve.mean[i])) {
        ++count[Number.isNaN(curve.mean[i]) ? 'nan' : Number.isFinite(curve.mean[i]) ? 'outside' : 'infinite'];
        if (columns.length && columns[columns.length - 1]) columns.push(null);
        continue;
      }
      const y = py(curve.mean[i]);
      const from = scale.fits(curve.least[i]) ? py(curve.least[i]) : y, to = scale.fits(curve.greatest[i]) ? py(curve.greatest[i]) : y;
      const last = columns[columns.length - 1];
      if (last && last.x === x) Object.assign(last, { last: y, high: Math.min(last.high, y), low: Math.max(last.low, y), to: Math.min(last.to, to), from: Math.max(last.from, from) });
      else columns.push({ x, first: y, last: y, high: y, low: y, from, to });
    }
    return { columns, marks, count };
  }

  function drawAxes(context, curve, scale, width, tall) {
    context.textAlign = 'right';
    for (const { at, text } of ticksOf(scale)) {
      const y = 10 + (scale.high - at) / (scale.high - scale.low) * tall;
      context.strokeStyle = colours.line;
      context.beginPath();
      context.moveTo(left, y);
      context.lineTo(width - 10, y);
      context.stroke();
      context.fillStyle = colours.faint;
      context.fillText(text, left - 5, y);
    }
    context.fillStyle = colours.faint;
    const shownX = x => over.value === 'time' ? inUnits(x) : String(x);
    context.fillText(shownX(scale.first + (scale.count > 1 || curve.other ? scale.length : 0)), width - 10, height - 8);
    context.textAlign = 'left';
    context.fillText(shownX(scale.first), left, height - 8);
  }

  function drawColumns(context, columns, colour, dashed) {
    context.fillStyle = context.strokeStyle = colour;
    context.globalAlpha = 0.22;
    for (let i = 0; i < columns.length; ++i) {
      const column = columns[i], next = columns[i + 1];
      if (!column) continue;
      if (next) {
        context.beginPath();
        context.moveTo(column.x, column.to); context.lineTo(next.x, next.to);
        context.lineTo(next.x, next.from); context.lineTo(column.x, column.from);
        context.fill();
      } else if (column.from - column.to > 0.5 && !columns[i - 1]) {
        context.fillRect(column.x - 1.5, column.to, 3, column.from - column.to);
      }
    }
    context.globalAlpha = 1;
    context.lineWidth = 1.5;
    context.setLineDash(dashed ? [5, 3] : []);
    context.beginPath();
    let before = null;
    for (const column of columns) {
      if (column) {
        if (before) context.lineTo(column.x, column.first);
        else context.moveTo(column.x, column.first);
        if (column.high !== column.low) { context.lineTo(column.x, column.high); context.lineTo(column.x, column.low); context.lineTo(column.x, column.last); }
      }
      before = column;
    }
    context.stroke();
    context.setLineDash([]);
    // A point between gaps has no line, so it is drawn by itself.
    for (const [i, column] of columns.entries())
      if (column && !columns[i - 1] && !columns[i + 1]) context.fillRect(column.x - 2, column.first - 2, 4, 4);
    context.lineWidth = 1;
  }

  function draw({ curve, canvas, at }) {
    const { context, width } = surface(canvas, height), scale = prepare(curve), inner = width - left - 10, tall = height - bottom - 10;
    const px = i => left + (scale.x(i) - scale.first) / scale.length * inner;
    const py = value => 10 + (scale.high - scale.y(value)) / (scale.high - scale.low) * tall;
    drawAxes(context, curve, scale, width, tall);
    if (curve.other) {
      const other = { ...scale, count: curve.other.mean.length, x: over.value === 'time' ? i => curve.other.when[i] : i => i };
      const otherX = i => left + (other.x(i) - scale.first) / scale.length * inner;
      drawColumns(context, columnsOf(curve.other, other, otherX, py).columns, colours.faint, true);
    }
    const { columns, marks, count } = columnsOf(curve, scale, px, py);
    drawColumns(context, columns, colours.accent);
    context.fillStyle = context.strokeStyle = colours.bad;
    context.lineWidth = 1.5;
    for (const { x, value } of marks) mark(context, x, value, tall);
    context.lineWidth = 1;
    // Marks the time of the selected operation.
    if (selection.operation >= 0 && scale.count > 1) {
      const i = Math.max(0, firstAfter(curve.when, operations.start[selection.operation]) - 1);
      context.strokeStyle = colours.accent;
      context.beginPath();
      context.moveTo(px(i), 10);
      context.lineTo(px(i), height - bottom);
      context.stroke();
    }
    if (at >= 0 && at < scale.count) {
      context.strokeStyle = colours.ink;
      context.beginPath();
      context.moveTo(px(at), 10);
      context.lineTo(px(at), height - bottom);
      context.stroke();
    }
    return { count, marks: marks.length, scale: scale.name };
  }

  function says(curve, at) {
    const single = curve.least[at] === curve.greatest[at] || Number.isNaN(curve.mean[at]);
    return `${at}, at ${inUnits(curve.when[at])}: ${inDigits(curve.mean[at])}${single ? '' : ` (${inDigits(curve.least[at])} to ${inDigits(curve.greatest[at])})`}`;
  }
  function summary(curve, { count, scale }) {
    const last = curve.mean.length - 1, first = curve.mean.findIndex(value => !Number.isFinite(value));
    const bad = [[count.nan, 'NaN'], [count.infinite, 'infinite']].filter(([number]) => number).map(([number, what]) => `${number} ${what}`).join(', ');
    return `${counted(last + 1, 'point')}, last ${inDigits(curve.mean[last])}${bad ? `; ${bad}, marked, the first at ${first}` : ''}`
      + `${count.outside ? `; ${count.outside} not above 0, not shown` : ''}${scale === 'linear' ? '' : `; ${scale} scale`}`;
  }

  function chart(curve) {
    const canvas = element('canvas', { tabindex: '0', role: 'img', 'aria-label': `Curve of ${curve.name}` }), output = element('output', { 'aria-live': 'polite' });
    const entry = { curve, canvas, output, at: -1 };
    const look = at => {
      entry.at = Math.min(Math.max(at, 0), curve.mean.length - 1);
      output.textContent = says(curve, entry.at);
      draw(entry);
    };
    canvas.onpointermove = event => {
      const box = canvas.getBoundingClientRect(), scale = prepare(curve);
      const x = scale.first + (event.clientX - box.left - left) / (box.width - left - 10) * scale.length;
      const after = over.value === 'time' ? firstAfter(curve.when, x) : Math.ceil(x);
      const nearer = after > 0 && after < scale.count && x - scale.x(after - 1) < scale.x(after) - x;
      look(nearer ? after - 1 : after);
    };
    canvas.onkeydown = event => {
      const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity }[event.key];
      if (!by) return;
      look(entry.at + by);
      event.preventDefault();
    };
    charts.append(element('figure', {}, element('figcaption', {}, curve.name), canvas, output));
    drawn.push(entry);
  }
  function page() {
    for (const curve of all.slice(drawn.length, drawn.length + pageLength)) chart(curve);
    more.hidden = drawn.length >= all.length;
    drawAll();
  }
  function drawAll() {
    let marks = 0;
    for (const entry of drawn) {
      const drawn = draw(entry);
      marks += drawn.marks;
      if (entry.at < 0) entry.output.textContent = summary(entry.curve, drawn);
    }
    told.curves = String(drawn.length);
    told.marks = String(marks);
  }

  return {
    shown: all.length > 0,
    start() {
      page();
      selection.listeners.push(drawAll);
      more.onclick = page;
      over.onchange = how.onchange = drawAll;
    },
    drawAll,
    // Draws the curves of another report beside those of the same names. null removes them.
    compare(other) {
      const byName = new Map(other ? curvesOf(other.points, other.texts).map(curve => [curve.name, curve]) : []);
      for (const curve of all) curve.other = byName.get(curve.name);
      told.compared = String(all.filter(curve => curve.other).length);
      drawAll();
    },
  };
})();
