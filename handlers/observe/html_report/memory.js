// ---- Memory -------------------------------------------------------------------------------------

const memory = (() => {
  const canvas = part('memory', 'canvas'), output = part('memory', 'output'), body = part('memory', 'tbody');
  const by = document.getElementById('memory-by'), slider = document.getElementById('moment');
  const left = leftOfCanvas, height = 200, mostRows = 30;
  const given = data.storages, count = given.made.length, rest = deviceNames.length;

  // The storages. After them, one entry for each device: the bytes that were allocated before the
  // recording began and never seen.
  const made = new Float64Array(count + rest), freed = new Float64Array(count + rest).fill(Infinity);
  const bytes = new Float64Array(count + rest);
  made.set(times(given.made));
  bytes.set(given.bytes);
  for (let i = 0; i < count; ++i) if (given.lived[i] >= 0) freed[i] = made[i] + given.lived[i];
  for (let i = 0; i < rest; ++i) bytes[count + i] = data.devices.bytes[i];
  for (let i = 0; i < count; ++i) if (given.earlier[i]) bytes[count + given.device[i]] -= bytes[i];

  // Allocations and frees in order of time. A free is the complement of the storage's number. At
  // equal times allocations come first.
  const events = new Int32Array(2 * (count + rest));
  let eventCount = 0;
  {
    const whenMade = orderOf(made), whenFreed = orderOf(freed);
    for (let m = 0, f = 0; m < whenMade.length || (f < whenFreed.length && freed[whenFreed[f]] < Infinity);) {
      const isMade = m < whenMade.length && !(freed[whenFreed[f]] < made[whenMade[m]]), i = isMade ? whenMade[m++] : whenFreed[f++];
      if (bytes[i] > 0) events[eventCount++] = isMade ? i : ~i;
    }
  }
  const when = event => event < 0 ? freed[~event] : made[event];

  const earlier = '(made before)', outside = '(outside of operations)';
  const isEarlier = i => i >= count || given.earlier[i];
  // The holder of a storage: `of` returns a number for the holder, and `name` the holder's name.
  const holders = {
    scope: { of: i => isEarlier(i) ? -3 : given.site[i] < 0 ? -2 : sites.scope[given.site[i]],
      name: n => n === -3 ? earlier : n === -2 ? outside : pathOfScope(n), select: n => selectScope(n) },
    operation: { of: i => isEarlier(i) ? -3 : given.site[i] < 0 ? -2 : sites.operation[given.site[i]],
      name: n => n === -3 ? earlier : n === -2 ? outside : texts[n], select: n => selectName(texts[n]) },
    label: { of: i => i >= count || given.label[i] < 0 || !texts[given.label[i]] ? -1 : given.label[i],
      name: n => n < 0 ? '(no label)' : texts[n] },
    device: { of: i => i < count ? given.device[i] : i - count, name: n => deviceNames[n] },
  };
  // { names, keys, sites, of: the group of each storage }. Groups are sorted by bytes times
  // lifetime, the largest first.
  let groups;
  function group() {
    const holder = holders[by.value], keys = new Int32Array(count + rest), sums = new Map(), sitesOf = new Map();
    for (let i = 0; i < count + rest; ++i) {
      const key = keys[i] = holder.of(i);
      if (!(bytes[i] > 0)) continue;
      sums.set(key, (sums.get(key) || 0) + bytes[i] * (Math.min(freed[i], data.end) - made[i]));
      if (!sitesOf.has(key)) sitesOf.set(key, new Set());
      if (!isEarlier(i) && given.site[i] >= 0) sitesOf.get(key).add(given.site[i]);
    }
    const order = [...sums.keys()].sort((a, b) => sums.get(b) - sums.get(a)), numbers = new Map(order.map((key, i) => [key, i]));
    groups = { names: order.map(holder.name), keys: order, sites: order.map(key => sitesOf.get(key)), of: keys.map(key => numbers.get(key) ?? 0) };
  }
  const choose = number => {
    const key = groups.keys[number], held = groups.sites[number];
    if (holders[by.value].select && key >= -1) holders[by.value].select(key);
    else select(`memory of ${groups.names[number]}`, k => held.has(kinds.site[k]));
  };
  // Returns whether a selected operation allocated storage of this group.
  function holdsSelected(number) {
    if (!selection.kinds) return true;
    for (let k = 0; k < kinds.count; ++k) if (selection.kinds[k] && groups.sites[number].has(kinds.site[k])) return true;
    return false;
  }

  let peak = 0, peakTime = 0;
  {
    let sum = 0;
    for (let e = 0; e < eventCount; ++e) {
      const event = events[e];
      sum += event < 0 ? -bytes[~event] : bytes[event];
      if (sum > peak) [peak, peakTime] = [sum, when(event)];
    }
  }
  let moment = peakTime;

  // Returns, for each pixel, the largest number of bytes of each group within it, and the largest
  // sum. Groups from number `mostBands` on are merged.
  function columns(width) {
    const bands = Math.min(groups.names.length, mostBands + 1), now = new Float64Array(bands);
    const result = new Float64Array(width * bands), sums = new Float64Array(width), scale = width / (view.to - view.from);
    let e = 0, sum = 0, most = 0;
    const apply = () => {
      const event = events[e++], i = event < 0 ? ~event : event, change = event < 0 ? -bytes[i] : bytes[i];
      const band = Math.min(groups.of[i], bands - 1);
      now[band] += change;
      sum += change;
      return band;
    };
    while (e < eventCount && when(events[e]) <= view.from) apply();
    for (let x = 0; x < width; ++x) {
      result.set(now, x * bands);
      sums[x] = sum;
      for (const end = view.from + (x + 1) / scale; e < eventCount && when(events[e]) < end;) {
        const band = apply();
        result[x * bands + band] = Math.max(result[x * bands + band], now[band]);
        sums[x] = Math.max(sums[x], sum);
      }
      let stacked = 0;
      for (let band = 0; band < bands; ++band) stacked += result[x * bands + band];
      most = Math.max(most, stacked);
    }
    return { result, sums, bands, most };
  }

  function draw() {
    const { context, width } = surface(canvas, height), inner = Math.max(1, Math.floor(width - left));
    const { result, sums, bands, most } = columns(inner), scale = (height - 20) / Math.max(most, 1), below = new Float64Array(inner);
    for (let band = 0; band < bands; ++band) {
      context.fillStyle = paletteColour(band);
      context.globalAlpha = holdsSelected(band) ? 1 : 0.25;
      // Neighbouring columns of equal height are one rectangle.
      for (let x = 0, from = 0; x < inner; x = from) {
        const own = result[x * bands + band], base = below[x];
        for (from = x; from < inner && result[from * bands + band] === own && below[from] === base; ++from) below[from] += own;
        if (own > 0) context.fillRect(left + x, height - (base + own) * scale, from - x, own * scale);
      }
    }
    context.globalAlpha = 1;
    drawTimes(context, left, inner, height);
    context.strokeStyle = colours.ink;
    context.lineWidth = 0.75;
    context.beginPath();
    for (let x = 0; x < inner; ++x) {
      const y = height - sums[x] * scale;
      context.lineTo(left + x, y);
      context.lineTo(left + x + 1, y);
    }
    context.stroke();
    context.lineWidth = 1;
    context.fillStyle = colours.faint;
    context.textAlign = 'right';
    const every = 2 ** Math.ceil(Math.log2(Math.max(most, 1) / 5));
    for (let value = 0; value <= most; value += every) context.fillText(inBytes(value), left - 6, Math.min(height - 8, height - value * scale));
    context.textAlign = 'left';
    const x = left + (moment - view.from) / (view.to - view.from) * inner;
    if (x >= left) {
      context.strokeStyle = colours.accent;
      context.lineWidth = 2;
      context.beginPath();
      context.moveTo(x, 0);
      context.lineTo(x, height);
      context.stroke();
      context.lineWidth = 1;
    }
    slider.value = String(Math.round((moment - view.from) / (view.to - view.from) * 1000));
    // Facts for tests: the largest sum that is drawn, and the largest value of each holder.
    told.drawnPeak = String(sums.reduce((a, b) => Math.max(a, b), 0));
    told.drawnHolders = Array.from({ length: bands }, (_, band) => result.reduce((most, value, i) => i % bands === band ? Math.max(most, value) : most, 0)).join();
  }

  function list() {
    const sums = new Map();
    let all = 0, storages = 0;
    for (let i = 0; i < count + rest; ++i) {
      if (bytes[i] <= 0 || made[i] > moment || freed[i] <= moment) continue;
      const sum = sums.get(groups.of[i]) || { bytes: 0, storages: 0 };
      sum.bytes += bytes[i];
      sum.storages += i < count;
      sums.set(groups.of[i], sum);
      all += bytes[i];
      storages += i < count;
    }
    const rows = [...sums].sort((a, b) => b[1].bytes - a[1].bytes);
    const row = (swatch, name, sum, attributes = {}) => element('tr', attributes, element('td', {}, swatch, name),
      element('td', { class: 'number' }, sum.storages ? sum.storages.toLocaleString('en') : ''), element('td', { class: 'number' }, inBytes(sum.bytes)));
    body.replaceChildren(...rows.slice(0, mostRows).map(([number, sum]) => {
      const swatch = element('span', { class: 'swatch' }), button = element('button', { type: 'button', class: 'plain' }, groups.names[number]);
      swatch.style.background = paletteColour(number);
      button.onclick = () => choose(number);
      return row(swatch, button, sum, selection.kinds ? { class: holdsSelected(number) ? 'selected' : 'dimmed' } : {});
    }));
    if (rows.length > mostRows) {
      const others = { bytes: 0, storages: 0 };
      for (const [, sum] of rows.slice(mostRows)) { others.bytes += sum.bytes; others.storages += sum.storages; }
      body.append(row('', counted(rows.length - mostRows, 'other'), others));
    }
    output.textContent = `At ${inUnits(moment)}: ${inBytes(all)} in ${counted(storages, 'storage')}. The peak is ${inBytes(peak)}, at ${inUnits(peakTime)}.`;
    told.held = String(all);
  }
  function look(time) {
    moment = Math.min(Math.max(time, 0), data.end);
    list();
    redraw();
  }

  return {
    shown: eventCount > 0,
    peak,
    start() {
      canvas.setAttribute('role', 'img');
      canvas.setAttribute('aria-label', `Memory over time, at most ${inBytes(peak)}`);
      group();
      list();
      told.peak = String(peak);
      view.listeners.push(draw);
      selection.listeners.push(() => {
        if (selection.operation >= 0) moment = operations.start[selection.operation];
        list();
      });
      by.onchange = () => { group(); list(); redraw(); };
      slider.oninput = () => look(view.from + slider.value / 1000 * (view.to - view.from));
      document.getElementById('peak').onclick = () => {
        if (peakTime < view.from || peakTime > view.to) show(...view.all);
        look(peakTime);
      };
      const pick = event => {
        const box = canvas.getBoundingClientRect();
        look(view.from + Math.max(0, event.clientX - box.left - left) / (box.width - left) * (view.to - view.from));
      };
      canvas.onpointerdown = event => { canvas.setPointerCapture(event.pointerId); pick(event); };
      canvas.onpointermove = event => { if (event.buttons & 1) pick(event); };
    },
  };
})();
