// ---- Memory -------------------------------------------------------------------------------------------------------------

const memory = (() => {
  const canvas = part('memory', 'canvas'), output = part('memory', 'output'), body = part('memory', 'tbody');
  const by = document.getElementById('memory-by'), slider = document.getElementById('moment');
  const left = 130, height = 200, mostRows = 30;
  const given = data.storages, count = given.made.length, rest = deviceNames.length;

  // Storages, and after them, for each device, what had been made before and was never seen.
  const made = new Float64Array(count + rest), freed = new Float64Array(count + rest).fill(Infinity);
  const bytes = new Float64Array(count + rest);
  made.set(times(given.made));
  bytes.set(given.bytes);
  for (let i = 0; i < count; ++i) if (given.lived[i] >= 0) freed[i] = made[i] + given.lived[i];
  for (let i = 0; i < rest; ++i) bytes[count + i] = data.devices.bytes[i];
  for (let i = 0; i < count; ++i) if (given.earlier[i]) bytes[count + given.device[i]] -= bytes[i];

  // What is made and freed in the order of time; ids of what is freed are complements.
  const events = [];
  for (let i = 0; i < count + rest; ++i) {
    if (bytes[i] <= 0) continue;
    events.push(i);
    if (freed[i] < Infinity) events.push(~i);
  }
  const when = event => event < 0 ? freed[~event] : made[event];
  events.sort((a, b) => when(a) - when(b));
  const eventTimes = Float64Array.from(events, when);

  const earlier = '(made before)';
  const holders = {
    scope: i => i >= count || given.earlier[i] ? earlier : given.site[i] < 0 ? '(outside of operations)' : pathOfScope(sites.scope[given.site[i]]),
    operation: i => i >= count || given.earlier[i] ? earlier : given.site[i] < 0 ? '(outside of operations)' : texts[sites.operation[given.site[i]]],
    label: i => i >= count || given.label[i] < 0 || !texts[given.label[i]] ? '(no label)' : texts[given.label[i]],
    device: i => deviceNames[i < count ? given.device[i] : i - count],
  };
  let groups;  // { names, of: the group of each storage }, those that hold most, for longest, first
  function group() {
    const holder = holders[by.value], sums = new Map(), named = [];
    for (let i = 0; i < count + rest; ++i) {
      named.push(holder(i));
      const sum = bytes[i] * (Math.min(freed[i], data.end) - made[i]);
      if (bytes[i] > 0) sums.set(named[i], (sums.get(named[i]) || 0) + sum);
    }
    const names = [...sums.keys()].sort((a, b) => sums.get(b) - sums.get(a));
    const numbers = new Map(names.map((name, i) => [name, i]));
    groups = { names, of: Int32Array.from(named, name => numbers.has(name) ? numbers.get(name) : 0) };
  }

  let peak = 0, peakTime = 0;
  {
    let sum = 0;
    for (const event of events) {
      sum += event < 0 ? -bytes[~event] : bytes[event];
      if (sum > peak) [peak, peakTime] = [sum, when(event)];
    }
  }
  let moment = peakTime;

  // For each pixel what the groups hold when the sum is greatest within it; those after the palette are one.
  function columns(width) {
    const bands = Math.min(groups.names.length, palette.length + 1), now = new Float64Array(bands);
    const result = new Float64Array(width * bands), scale = width / (view.to - view.from);
    let at = 0, sum = 0, most = 0;
    const apply = event => {
      const i = event < 0 ? ~event : event, change = event < 0 ? -bytes[i] : bytes[i];
      now[Math.min(groups.of[i], bands - 1)] += change;
      sum += change;
    };
    while (at < events.length && eventTimes[at] <= view.from) apply(events[at++]);
    for (let x = 0; x < width; ++x) {
      let best = sum;
      result.set(now, x * bands);
      for (const end = view.from + (x + 1) / scale; at < events.length && eventTimes[at] < end;) {
        apply(events[at++]);
        if (sum > best) {
          best = sum;
          result.set(now, x * bands);
        }
      }
      most = Math.max(most, best);
    }
    return { result, bands, most };
  }

  function draw() {
    const { context, width } = surface(canvas, height), inner = Math.max(1, Math.floor(width - left));
    const { result, bands, most } = columns(inner), scale = (height - 20) / Math.max(most, 1);
    for (let band = 0; band < bands; ++band) {
      context.fillStyle = paletteColour(band);
      for (let x = 0; x < inner; ++x) {
        let below = 0;
        for (let i = 0; i < band; ++i) below += result[x * bands + i];
        const own = result[x * bands + band];
        if (own > 0) context.fillRect(left + x, height - (below + own) * scale, 1, own * scale);
      }
    }
    drawTimes(context, left, inner, height);
    context.fillStyle = context.strokeStyle = colours.faint;
    context.textAlign = 'right';
    const every = 2 ** Math.ceil(Math.log2(Math.max(most, 1) / 5));
    for (let value = 0; value <= most; value += every) context.fillText(inBytes(value), left - 6, Math.min(height - 8, height - value * scale));
    context.textAlign = 'left';
    const x = left + (moment - view.from) / (view.to - view.from) * inner;
    if (x >= left) {
      context.strokeStyle = colours.ink;
      context.beginPath();
      context.moveTo(x, 0);
      context.lineTo(x, height);
      context.stroke();
    }
    slider.value = String(Math.round((moment - view.from) / (view.to - view.from) * 1000));
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
    const row = (swatch, name, sum) => element('tr', {}, element('td', {}, swatch, name),
      element('td', { class: 'number' }, sum.storages ? sum.storages.toLocaleString('en') : ''), element('td', { class: 'number' }, inBytes(sum.bytes)));
    body.replaceChildren(...rows.slice(0, mostRows).map(([group, sum]) => {
      const swatch = element('span', { class: 'swatch' });
      swatch.style.background = paletteColour(group);
      return row(swatch, groups.names[group], sum);
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
    shown: events.length > 0,
    peak,
    start() {
      canvas.setAttribute('role', 'img');
      canvas.setAttribute('aria-label', `Memory over time, at most ${inBytes(peak)}`);
      group();
      list();
      told.peak = String(peak);
      view.listeners.push(draw);
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
