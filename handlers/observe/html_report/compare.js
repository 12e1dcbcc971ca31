// ---- Comparison with another report -------------------------------------------------------------

const compare = (() => {
  const input = document.getElementById('other'), said = document.getElementById('compared'), rowsAre = document.getElementById('compare-by');
  const table = part('compare', 'table'), forget = document.getElementById('forget');
  let other = null;

  // Reads the data of a report's file: the text of its script element. The text contains no "<", so
  // nothing ends it early.
  function read(text) {
    const opens = '<script type="application/json" id="data">', begin = text.indexOf(opens);
    if (begin < 0) throw new Error('no report of Stave');
    const read = JSON.parse(text.slice(begin + opens.length, text.indexOf('</script', begin)));
    if (read.version !== data.version) throw new Error(`a report of version ${read.version}, and this one is of ${data.version}`);
    return read;
  }
  // Returns calls and time by operation name, or by scope with everything inside it.
  function sumsOf(given) {
    const sums = new Map(), paths = [], by = rowsAre.value;
    given.scopes.outer.forEach((outer, s) => { paths[s] = (outer < 0 ? '' : `${paths[outer]}/`) + given.texts[given.scopes.name[s]]; });
    const keysOf = given.kinds.site.map(site => {
      if (site < 0) return [];
      if (by === 'operation') return [given.texts[given.sites.operation[site]]];
      const keys = [];
      for (let s = given.sites.scope[site]; s >= 0; s = given.scopes.outer[s]) keys.push(paths[s]);
      return keys.length ? keys : ['(no scope)'];
    });
    const { kind, time } = given.operations;
    for (let i = 0; i < kind.length; ++i)
      for (const key of keysOf[kind[i]]) {
        const sum = sums.get(key) || { calls: 0, time: 0 };
        ++sum.calls;
        sum.time += time[i];
        sums.set(key, sum);
      }
    return sums;
  }
  const peakOf = given => {
    const changes = [];
    let made = 0, live = given.devices.bytes.reduce((sum, bytes) => sum + bytes, 0), most = live;
    given.storages.made.forEach((since, i) => {
      made += since;
      if (!given.storages.earlier[i]) changes.push([made, given.storages.bytes[i]]);
      if (given.storages.lived[i] >= 0) changes.push([made + given.storages.lived[i], -given.storages.bytes[i]]);
    });
    changes.sort((a, b) => a[0] - b[0] || b[1] - a[1]);
    for (const [, change] of changes) most = Math.max(most, live += change);
    return most;
  };

  function draw() {
    table.hidden = forget.hidden = !other;
    if (!other) return;
    const here = sumsOf(data), there = sumsOf(other), none = { calls: 0, time: 0 };
    const rows = [...new Set([...here.keys(), ...there.keys()])].map(name => ({ name, here: here.get(name) || none, there: there.get(name) || none }));
    rows.sort((a, b) => Math.abs(b.here.time - b.there.time) - Math.abs(a.here.time - a.there.time));
    const sum = given => given.operations.time.reduce((all, time) => all + time, 0);
    const ratio = (a, b) => b ? `${(a / b).toFixed(2)}×` : 'new', signed = x => `${x > 0 ? '+' : x < 0 ? '−' : ''}${inUnits(Math.abs(x))}`;
    const cell = (text, better) => element('td', { class: `number${better === undefined ? '' : better ? ' better' : ' worse'}` }, text);
    const row = (name, a, b, show, calls = ['', '']) => element('tr', {}, element('td', {}, name), cell(show(a)), cell(show(b)),
      cell(show === inUnits ? signed(a - b) : `${a > b ? '+' : a < b ? '−' : ''}${show(Math.abs(a - b))}`, Math.abs(a - b) < 0.02 * Math.max(a, b) ? undefined : a < b),
      cell(a ? ratio(a, b) : 'gone'), cell(calls[0]), cell(calls[1]));
    table.tBodies[0].replaceChildren(row('All time', data.end, other.end, inUnits), row('All operations', sum(data), sum(other), inUnits,
      [operations.count.toLocaleString('en'), other.operations.kind.length.toLocaleString('en')]), row('Most memory', memory.peak, peakOf(other), inBytes),
      ...rows.slice(0, 100).map(({ name, here, there }) => row(name, here.time, there.time, inUnits, [here.calls.toLocaleString('en'), there.calls.toLocaleString('en')])));
    told.comparedRows = String(rows.length);
  }
  async function load() {
    const file = input.files[0];
    if (!file) return;
    try {
      other = read(await file.text());
      said.textContent = `${file.name}: ${other.head.title || 'Stave report'}, ${other.head.date}, ${other.head.processor || other.head.system}`;
    } catch (error) {
      other = null;
      said.textContent = `${file.name} cannot be compared: ${error.message}`;
    }
    curves.compare(other);
    draw();
    told.compares = other ? '1' : '0';
  }

  return {
    shown: true,
    start() {
      input.onchange = load;
      rowsAre.onchange = draw;
      forget.onclick = () => { input.value = ''; other = null; said.textContent = ''; curves.compare(null); draw(); };
    },
  };
})();
