// ---- Table of operations ------------------------------------------------------------------------

const table = (() => {
  const pageLength = 100, rowsAre = document.getElementById('rows-are'), search = document.getElementById('search');
  const head = part('operations', 'thead'), body = part('operations', 'tbody'), more = document.getElementById('more-rows');
  const columns = [
    { name: 'Operation', key: 'name' }, { name: 'Scope', key: 'scope' }, { name: 'Operands → outputs', key: 'shapes' }, { name: 'Device', key: 'device' },
    { name: 'Calls', key: 'calls', show: x => x.toLocaleString('en') }, { name: 'Time', key: 'time', show: inUnits },
    { name: 'Share', key: 'share', show: x => `${(100 * x).toFixed(1)}%` }, { name: 'Mean', key: 'mean', show: inUnits },
    { name: 'Longest', key: 'longest', show: inUnits }, { name: 'Bytes made', key: 'bytes', show: inBytes },
    { name: 'FLOP', key: 'arithmetic', show: (x, row) => row.known ? `${least(row)}${x ? inRate(x, '').trim() : '0'}` : '' },
    { name: 'FLOP/s', key: 'flops', show: (x, row) => x > 0 ? `${least(row)}${inRate(x, 'FLOP/s')}` : '' },
    { name: 'Bytes/s', key: 'bandwidth', show: x => x > 0 ? inRate(x, 'B/s') : '' },
    { name: 'Roofline', key: 'roofline', show: (x, row) => Number.isFinite(x) && x >= 0 ? `${least(row)}${(100 * x).toFixed(x < 0.0995 ? 1 : 0)}%` : '' },
  ];
  const shown = {
    operation: ['name', 'calls', 'time', 'share', 'mean', 'longest', 'bytes', 'arithmetic', 'flops', 'bandwidth', 'roofline'],
    kind: columns.map(column => column.key),
    scope: ['scope', 'calls', 'time', 'share', 'longest', 'bytes', 'arithmetic', 'flops', 'bandwidth', 'roofline'],
  };
  const inRate = (x, unit) => {
    for (const [size, prefix] of [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']]) if (x >= size) return `${Number((x / size).toPrecision(3))} ${prefix}${unit}`;
    return `${Number(x.toPrecision(3))} ${unit}`;
  };
  // The arithmetic of some operations is not known, so the number is a lower bound.
  const least = row => row.unknown ? '≥ ' : '';
  // Returns the shortest time, in ns, that the device's peak rates allow for one operation of a
  // kind. Returns undefined if a peak is not known.
  const peaks = new Map(data.peaks.device.map((device, i) => [device, i]));
  const isFloat64 = kind => /\bf64\[/.test(texts[kinds.outputs[kind]]);
  function leastTime(kind) {
    const i = peaks.get(deviceNames[kinds.device[kind]]);
    if (i === undefined) return undefined;
    const arithmetic = kinds.calls[kind] * Math.max(0, kinds.flops[kind]), rate = isFloat64(kind) ? data.peaks.flops64[i] : data.peaks.flops[i];
    if (!(rate > 0 || arithmetic === 0) || !(data.peaks.bandwidth[i] > 0)) return undefined;
    return 1e9 * Math.max(arithmetic ? arithmetic / rate : 0, kinds.moved[kind] / data.peaks.bandwidth[i]);
  }
  const total = kinds.self.reduce((sum, time) => sum + time, 0);
  let rows = [], sortedBy = 'time', descending = true, length = pageLength;

  // Sums the kinds into rows. A kind counts under one key or, with rows for scopes, under each
  // scope around it.
  function collect() {
    const sums = new Map();
    const add = (key, kind, of) => {
      let row = sums.get(key);
      if (!row) sums.set(key, row = { kinds: [], arithmetic: 0, moved: 0, self: 0, leastTime: 0, known: 0, calls: 0, time: 0, longest: 0, bytes: 0, ...of() });
      row.kinds.push(kind);
      row.calls += kinds.calls[kind];
      row.time += rowsAre.value === 'scope' ? kinds.self[kind] : kinds.time[kind];
      row.self += kinds.self[kind];
      row.longest = Math.max(row.longest, kinds.longest[kind]);
      row.bytes += kinds.bytes[kind];
      row.moved += kinds.moved[kind];
      row.leastTime += leastTime(kind) ?? NaN;
      if (kinds.flops[kind] >= 0) {
        row.arithmetic += kinds.calls[kind] * kinds.flops[kind];
        ++row.known;
      }
    };
    for (let k = 0; k < kinds.count; ++k) {
      if (kinds.site[k] < 0) continue;
      if (rowsAre.value === 'operation') add(sites.operation[kinds.site[k]], k, () => ({ operation: nameOfKind(k), name: nameOfKind(k), choose: () => selectName(nameOfKind(k)) }));
      else if (rowsAre.value === 'kind') add(k, k, () => {
        const attributes = texts[kinds.attributes[k]];
        return { operation: nameOfKind(k), choose: () => selectKind(k), name: nameOfKind(k) + (attributes ? ` ${attributes}` : ''), scope: pathOfScope(scopeOfKind(k)), device: deviceNames[kinds.device[k]],
          shapes: `${texts[kinds.operands[k]]} → ${texts[kinds.outputs[k]]}` };
      });
      else if (scopeOfKind(k) < 0) add(-1, k, () => ({ scope: pathOfScope(-1), choose: () => selectScope(-1) }));
      else for (let s = scopeOfKind(k); s >= 0; s = scopes.outer[s]) add(s, k, () => ({ scope: pathOfScope(s), choose: () => selectScope(s) }));
    }
    rows = [...sums.values()];
    for (const row of rows) {
      row.share = total ? row.self / total : 0;
      row.mean = row.time / row.calls;
      row.unknown = row.known < row.kinds.length;
      row.flops = row.arithmetic && row.time ? row.arithmetic / row.time * 1e9 : -1;
      row.bandwidth = row.time ? row.moved / row.time * 1e9 : -1;
      row.roofline = row.known && row.moved && row.time && row.leastTime >= 0 ? row.leastTime / row.time : -1;
      row.sought = [row.name, row.scope, row.shapes, row.device].filter(Boolean).join('\n').toLowerCase();
    }
  }

  function chooser(row, text) {
    const button = element('button', { type: 'button', class: 'plain' }, text);
    button.onclick = row.choose;
    if (!row.operation) return button;
    const swatch = element('span', { class: 'swatch' });  // the colour of the operation's bars
    swatch.style.background = colourOf(row.operation);
    return element('span', { class: 'chooser' }, swatch, button);
  }

  function draw() {
    const here = columns.filter(column => shown[rowsAre.value].includes(column.key));
    if (!here.some(column => column.key === sortedBy)) [sortedBy, descending] = ['time', true];
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = words.length ? rows.filter(row => words.every(word => row.sought.includes(word))) : rows.slice();
    const sign = descending ? -1 : 1, key = sortedBy;
    found.sort((a, b) => a[key] < b[key] ? -sign : a[key] > b[key] ? sign : 0);
    head.replaceChildren(element('tr', {}, ...here.map(column => {
      const button = element('button', { type: 'button' }, column.name);
      button.onclick = () => {
        [sortedBy, descending] = [column.key, sortedBy === column.key ? !descending : Boolean(column.show)];
        draw();
        head.querySelectorAll('button')[here.indexOf(column)].focus();
      };
      return element('th', { scope: 'col', class: column.show ? 'number' : '', 'data-key': column.key,
        ...(sortedBy === column.key ? { 'aria-sort': descending ? 'descending' : 'ascending' } : {}) }, button);
    })));
    body.replaceChildren(...found.slice(0, length).map(row => element('tr', { class: !selection.kinds ? '' : row.kinds.some(isSelected) ? 'selected' : 'dimmed' },
      ...here.map((column, i) => element('td', { class: column.show ? 'number' : '' }, i === 0 ? chooser(row, row[column.key])
        : column.show ? column.show(row[column.key], row) : row[column.key])))));
    document.getElementById('found').textContent = counted(found.length, 'row');
    more.hidden = found.length <= length;
    told.selfTime = String(total);
    told.rows = String(Math.min(found.length, length));
  }

  return {
    shown: operations.count > 0,
    start() {
      document.getElementById('peaks').textContent = data.peaks.device.map((device, i) => {
        const [narrow, wide, bytes] = [data.peaks.flops[i], data.peaks.flops64[i], data.peaks.bandwidth[i]];
        const rates = [[narrow, 'FLOP/s in float32'], [wide, 'FLOP/s in float64'], [bytes, 'B/s']].filter(([x]) => x > 0).map(([x, unit]) => inRate(x, unit));
        return rates.length ? `Peaks of ${device}: ${rates.join(', ')} (${data.peaks.how[i]}).` : '';
      }).join(' ') + ' The share of the roofline is the least time that the peaks allow, in parts of the time that was taken: above 100% where data lay in a cache.';
      collect();
      draw();
      selection.listeners.push(draw);
      rowsAre.onchange = () => { length = pageLength; collect(); draw(); };
      search.oninput = () => { length = pageLength; draw(); };
      more.onclick = () => { length += pageLength; draw(); };
    },
  };
})();
