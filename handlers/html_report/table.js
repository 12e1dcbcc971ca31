// ---- Table of operations ------------------------------------------------------------------------------------------------

const table = (() => {
  const pageLength = 100, rowsAre = document.getElementById('rows-are'), search = document.getElementById('search');
  const head = part('operations', 'thead'), body = part('operations', 'tbody'), more = document.getElementById('more-rows');
  const columns = [
    { name: 'Operation', key: 'name' }, { name: 'Scope', key: 'scope' }, { name: 'Operands → outputs', key: 'shapes' }, { name: 'Device', key: 'device' },
    { name: 'Calls', key: 'calls', show: x => x.toLocaleString('en') }, { name: 'Time', key: 'time', show: inUnits },
    { name: 'Share', key: 'share', show: x => `${(100 * x).toFixed(1)}%` }, { name: 'Mean', key: 'mean', show: inUnits },
    { name: 'Longest', key: 'longest', show: inUnits }, { name: 'Bytes made', key: 'bytes', show: inBytes },
  ];
  const shown = {
    operation: ['name', 'calls', 'time', 'share', 'mean', 'longest', 'bytes'],
    kind: columns.map(column => column.key),
    scope: ['scope', 'calls', 'time', 'share', 'longest', 'bytes'],
  };
  const total = kinds.time.reduce((sum, time) => sum + time, 0);
  let rows = [], sortedBy = 'time', descending = true, length = pageLength;

  // Rows that the kinds add up to: each under one key, or, of scopes, under those around it, too.
  function collect() {
    const sums = new Map();
    const add = (key, kind, of) => {
      let row = sums.get(key);
      if (!row) sums.set(key, row = { kinds: [], calls: 0, time: 0, longest: 0, bytes: 0, ...of() });
      row.kinds.push(kind);
      row.calls += kinds.calls[kind];
      row.time += kinds.time[kind];
      row.longest = Math.max(row.longest, kinds.longest[kind]);
      row.bytes += kinds.bytes[kind];
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
      row.share = total ? row.time / total : 0;
      row.mean = row.time / row.calls;
      row.sought = [row.name, row.scope, row.shapes, row.device].filter(Boolean).join('\n').toLowerCase();
    }
  }

  function chooser(row, text) {
    const button = element('button', { type: 'button', class: 'plain' }, text);
    button.onclick = row.choose;
    if (!row.operation) return button;
    const swatch = element('span', { class: 'swatch' });  // the colour of its bars
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
        : column.show ? column.show(row[column.key]) : row[column.key])))));
    document.getElementById('found').textContent = counted(found.length, 'row');
    more.hidden = found.length <= length;
    told.rows = String(Math.min(found.length, length));
  }

  return {
    shown: operations.count > 0,
    start() {
      collect();
      draw();
      selection.listeners.push(draw);
      rowsAre.onchange = () => { length = pageLength; collect(); draw(); };
      search.oninput = () => { length = pageLength; draw(); };
      more.onclick = () => { length += pageLength; draw(); };
    },
  };
})();
