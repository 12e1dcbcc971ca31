// ---- Curves -------------------------------------------------------------------------------------------------------------

const curves = (() => {
  const charts = part('curves', '.charts'), over = document.getElementById('over'), logarithmic = document.getElementById('logarithmic');
  const more = document.getElementById('more-curves'), pageLength = 40, height = 190, left = 60, bottom = 20;

  // A curve for each name, in the order of their first points.
  const byName = new Map();
  {
    const given = data.points, when = times(given.when), mean = doubles(given.mean), least = doubles(given.least), greatest = doubles(given.greatest);
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
  }
  const all = [...byName.values()];
  const drawn = [];

  function prepare(curve) {
    const log = logarithmic.checked, y = value => log ? Math.log10(value) : value, fits = value => Number.isFinite(y(value));
    const x = over.value === 'time' ? i => curve.when[i] : i => i;
    let low = Infinity, high = -Infinity;
    for (const values of [curve.least, curve.greatest, curve.mean])
      for (const value of values) if (fits(value)) [low, high] = [Math.min(low, y(value)), Math.max(high, y(value))];
    if (low > high) [low, high] = [0, 1];
    if (low === high) [low, high] = [low - 0.5, high + 0.5];
    const count = curve.mean.length, first = x(0), last = x(count - 1);
    return { log, y, fits, x, low, high, count, first, length: last - first || 1 };
  }

  // Of the points within one pixel the least and the greatest are drawn: what is hidden lies between.
  function draw({ curve, canvas, at }) {
    const { context, width } = surface(canvas, height), scale = prepare(curve), inner = width - left - 10, tall = height - bottom - 10;
    const px = i => left + (scale.x(i) - scale.first) / scale.length * inner;
    const py = value => 10 + (scale.high - scale.y(value)) / (scale.high - scale.low) * tall;
    context.textAlign = 'right';
    const every = step(scale.high - scale.low, 4);
    for (let value = Math.ceil(scale.low / every) * every; value <= scale.high; value += every) {
      const y = 10 + (scale.high - value) / (scale.high - scale.low) * tall;
      context.strokeStyle = colours.line;
      context.beginPath();
      context.moveTo(left, y);
      context.lineTo(width - 10, y);
      context.stroke();
      context.fillStyle = colours.faint;
      context.fillText(inDigits(Number((scale.log ? 10 ** value : value).toPrecision(3))), left - 5, y);
    }
    context.fillStyle = colours.faint;
    const shownX = i => over.value === 'time' ? inUnits(curve.when[i]) : String(i);
    context.fillText(shownX(scale.count - 1), width - 10, height - 8);
    context.textAlign = 'left';
    context.fillText(shownX(0), left, height - 8);
    const columns = [];  // { x, first, last, least, greatest } of the points of one pixel; null between them: a gap
    let missing = 0;
    for (let i = 0; i < scale.count; ++i) {
      if (!scale.fits(curve.mean[i])) {
        ++missing;
        if (columns.length && columns[columns.length - 1]) columns.push(null);
        continue;
      }
      const x = Math.round(px(i)), y = py(curve.mean[i]);
      const from = scale.fits(curve.least[i]) ? py(curve.least[i]) : y, to = scale.fits(curve.greatest[i]) ? py(curve.greatest[i]) : y;
      const last = columns[columns.length - 1];
      if (last && last.x === x) Object.assign(last, { last: y, high: Math.min(last.high, y), low: Math.max(last.low, y), to: Math.min(last.to, to), from: Math.max(last.from, from) });
      else columns.push({ x, first: y, last: y, high: y, low: y, from, to });
    }
    context.fillStyle = colours.accent;
    context.globalAlpha = 0.25;
    let before = null;
    for (const column of columns) {
      if (column && column.from - column.to > 0.5) {
        const x = before && column.x - before.x < 40 ? before.x : column.x - 1;
        context.fillRect(x, column.to, Math.max(column.x - x, 1.5), column.from - column.to);
      }
      before = column;
    }
    context.globalAlpha = 1;
    context.strokeStyle = colours.accent;
    context.lineWidth = 1.5;
    context.beginPath();
    before = null;
    for (const column of columns) {
      if (column) {
        if (before) context.lineTo(column.x, column.first);
        else context.moveTo(column.x, column.first);
        if (column.high !== column.low) { context.lineTo(column.x, column.high); context.lineTo(column.x, column.low); context.lineTo(column.x, column.last); }
        const alone = !before && scale.count < 3;
        if (alone) { context.rect(column.x - 1.5, column.first - 1.5, 3, 3); context.moveTo(column.x, column.first); }
      }
      before = column;
    }
    context.stroke();
    context.lineWidth = 1;
    if (at >= 0 && at < scale.count) {
      context.strokeStyle = colours.ink;
      context.beginPath();
      context.moveTo(px(at), 10);
      context.lineTo(px(at), height - bottom);
      context.stroke();
    }
    return missing;
  }

  function says(curve, at) {
    const single = curve.least[at] === curve.greatest[at] || Number.isNaN(curve.mean[at]);
    return `${at}, at ${inUnits(curve.when[at])}: ${inDigits(curve.mean[at])}${single ? '' : ` (${inDigits(curve.least[at])} to ${inDigits(curve.greatest[at])})`}`;
  }
  function summary(curve, missing) {
    const last = curve.mean.length - 1;
    return `${counted(last + 1, 'point')}, last ${inDigits(curve.mean[last])}${missing ? `; ${missing} not shown` : ''}`;
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
    for (const entry of drawn) {
      const missing = draw(entry);
      if (entry.at < 0) entry.output.textContent = summary(entry.curve, missing);
    }
    told.curves = String(drawn.length);
  }

  return {
    shown: all.length > 0,
    start() {
      page();
      more.onclick = page;
      over.onchange = logarithmic.onchange = drawAll;
    },
    drawAll,
  };
})();
