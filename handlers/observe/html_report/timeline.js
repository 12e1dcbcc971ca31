// ---- Timeline -----------------------------------------------------------------------------------

const timeline = (() => {
  const canvas = part('timeline', 'canvas'), output = part('timeline', 'output');
  const rowHeight = 18, top = 18, left = leftOfCanvas, mostRows = 60;

  // Rows of bars. The bars of a row do not overlap. A bar is an operation, or an instance of a
  // scope, which has a negative id.
  const tracks = [];  // entries { lane, row, start, end, id }: the bars of a row
  // The position of each operation's bar.
  const placeTrack = new Int32Array(operations.count), placeIndex = new Int32Array(operations.count);
  const laneTops = [];
  let rows = 0;

  const depths = new Int32Array(instances.outer.length);
  for (let s = 0; s < depths.length; ++s) depths[s] = instances.outer[s] < 0 ? 0 : depths[instances.outer[s]] + 1;
  // The end of each instance in the lane `laneOf`.
  const ends = new Float64Array(instances.outer.length), laneOf = new Int32Array(instances.outer.length).fill(-1);

  // Places each bar below all bars that have not ended when it begins: the scopes around it, and
  // operations that perform it.
  function stack(lane, mine) {
    for (const i of mine) {
      const end = operations.start[i] + operations.time[i];
      for (let s = operations.instance[i]; s >= 0; s = instances.outer[s]) {
        ends[s] = laneOf[s] === lane ? Math.max(ends[s], end) : end;
        laneOf[s] = lane;
      }
    }
    const open = [], found = [], drawn = new Set(), path = [];
    const add = (start, end, id) => {
      let row = open.length;
      while (row > 0 && open[row - 1] <= start) --row;
      row = Math.min(row, mostRows - 1);
      open.length = row;
      open.push(end);
      const track = found[row] = found[row] || { lane, row, number: tracks.length + row, start: [], end: [], id: [] };
      if (id >= 0) {
        placeTrack[id] = track.number;
        placeIndex[id] = track.id.length;
      }
      track.start.push(start);
      track.end.push(end);
      track.id.push(id);
    };
    for (const i of mine) {
      const start = operations.start[i];
      path.length = 0;
      for (let s = operations.instance[i]; s >= 0 && !drawn.has(s); s = instances.outer[s]) path.push(s);
      while (path.length) {
        const s = path.pop();
        drawn.add(s);
        add(start, ends[s], -1 - s);
      }
      add(start, start + operations.time[i], i);
    }
    return found;
  }

  const byLane = Array.from(lanes.thread, () => []);
  for (let i = 0; i < operations.count; ++i) byLane[operations.lane[i]].push(i);
  const order = byLane.map((_, lane) => lane)
    .sort((a, b) => lanes.thread[a] - lanes.thread[b] || lanes.device[a] - lanes.device[b]);
  for (const lane of order) {
    const mine = stack(lane, byLane[lane]);
    laneTops.push({ lane, top: rows });
    for (const track of mine) track.at = rows + track.row;
    rows += mine.length + 0.5;
    tracks.push(...mine);
  }

  const nameOf = id => id < 0 ? texts[scopes.name[instances.scope[-1 - id]]] : nameOfKind(operations.kind[id]);
  const nameOfLane = lane => innerWidth < 600 ? `${lanes.thread[lane] + 1}, ${deviceNames[lanes.device[lane]]}`
    : `thread ${lanes.thread[lane] + 1}, ${deviceNames[lanes.device[lane]]}`;
  const height = () => top + Math.max(rows, 1) * rowHeight + 4;
  let selected = null;  // { track, index } or null
  const isBright = id => !selection.kinds || (id < 0 ? selection.scopes[instances.scope[-1 - id]] === 1 : isSelected(operations.kind[id]));

  function drawTrack(context, track, width) {
    const scale = width / (view.to - view.from), y = top + track.at * rowHeight;
    let drawn = 0;
    for (let i = firstAfter(track.end, view.from); i < track.id.length && track.start[i] < view.to;) {
      const x = left + Math.max(0, (track.start[i] - view.from) * scale);
      const right = left + Math.min(width, (track.end[i] - view.from) * scale);
      const name = nameOf(track.id[i]), scope = track.id[i] < 0;
      const bright = isBright(track.id[i]);
      context.globalAlpha = bright ? 1 : 0.2;
      context.fillStyle = scope ? directionOfScope(instances.scope[-1 - track.id[i]]) : colourOf(name);
      context.fillRect(x, y, Math.max(right - x - 0.5, 0.8), rowHeight - 1);
      const chosen = selected && selected.track === track && selected.index === i;
      if (chosen) {
        context.strokeStyle = colours.ink;
        context.lineWidth = 2;
        context.strokeRect(x + 1, y + 1, Math.max(right - x - 2.5, 1), rowHeight - 3);
        context.lineWidth = 1;
      }
      if (right - x > 16) {
        context.fillStyle = colours.ink;
        context.fillText(fit(context, name, right - x - 6), x + 3, y + rowHeight / 2);
      }
      context.globalAlpha = 1;
      ++drawn;
      // Skips bars that end within the pixel that was drawn last.
      const next = firstAfter(track.end, view.from + (Math.max(right, x) - left + 0.5) / scale);
      i = Math.max(i + 1, next);
    }
    return drawn;
  }

  function draw() {
    const { context, width, height: all } = surface(canvas, height());
    const inner = width - left;
    drawTimes(context, left, inner, all);
    let drawn = 0;
    for (const track of tracks) drawn += drawTrack(context, track, inner);
    drawForward(context, inner);
    context.clearRect(0, 0, left - 1, all);
    context.fillStyle = colours.ink;
    for (const { lane, top: row } of laneTops) {
      context.fillText(fit(context, nameOfLane(lane), left - 8), 4, top + (row + 0.5) * rowHeight);
      context.fillStyle = colours.ink;
    }
    told.bars = String(drawn);
    told.length = String(view.to - view.from);
    told.lanes = String(laneTops.length);
  }

  const derives = id => {
    const forward = selectionBar.forwardOf(id);
    return forward < 0 ? '' : `\nderives ${nameOfKind(operations.kind[forward])}, from ${inUnits(operations.start[forward])}, in ${pathOfScope(scopeOfKind(operations.kind[forward]))}`;
  };
  function describe(track, index) {
    const id = track.id[index], from = inUnits(track.start[index]), time = inUnits(track.end[index] - track.start[index]);
    if (id < 0) return `scope ${pathOfScope(instances.scope[-1 - id])}, from ${from}, for ${time}`;
    const kind = operations.kind[id], attributes = texts[kinds.attributes[kind]];
    return `${nameOfKind(kind)}${attributes ? ` ${attributes}` : ''}: ${texts[kinds.operands[kind]]} → ${texts[kinds.outputs[kind]]}\n`
      + `from ${from}, for ${time}, in ${pathOfScope(scopeOfKind(kind))}, ${nameOfLane(track.lane)}${derives(id)}`;
  }

  function choose(track, index) {
    const id = track.id[index];
    selected = { track, index };
    output.textContent = describe(track, index);
    const start = track.start[index], end = track.end[index], length = view.to - view.from;
    if (end < view.from || start > view.to) show(start - length / 2, start + length / 2);
    if (id < 0) selectScope(instances.scope[-1 - id]);
    else {
      selectOperation(id);
      showForward(id);
    }
  }
  const bar = operation => [tracks[placeTrack[operation]], placeIndex[operation]];
  // A click on an operation of a backward pass shows the operation whose derivative it computes,
  // with a line between the two.
  function showForward(operation) {
    const forward = selectionBar.forwardOf(operation);
    if (forward < 0) return;
    const from = operations.start[forward], to = operations.start[operation] + operations.time[operation], margin = 0.1 * (to - from);
    if (from < view.from || from > view.to || to > view.to) show(Math.min(view.from, from - margin), Math.max(view.to, to + margin));
  }
  function drawForward(context, width) {
    const forward = selectionBar.forwardOf(selection.operation);
    if (forward < 0) return;
    const scale = width / (view.to - view.from), [a, b] = [forward, selection.operation].map(i => ({
      x: left + (operations.start[i] + operations.time[i] / 2 - view.from) * scale, y: top + (tracks[placeTrack[i]].at + 0.5) * rowHeight }));
    const x = left + (operations.start[forward] - view.from) * scale;
    context.strokeStyle = colours.accent;
    context.lineWidth = 2;
    context.strokeRect(x - 1, a.y - rowHeight / 2 - 1, Math.max(operations.time[forward] * scale, 3) + 1, rowHeight + 1);
    context.beginPath();
    context.moveTo(b.x, b.y);
    context.bezierCurveTo(b.x - 30, b.y + 2 * rowHeight, a.x + 30, a.y + 2 * rowHeight, a.x, a.y + rowHeight / 2);
    context.stroke();
    context.lineWidth = 1;
  }
  // Follows a selection that was made in another view.
  function follow() {
    const id = selected ? selected.track.id[selected.index] : -1;
    if (selection.operation >= 0 && selection.operation !== id) {
      const [track, index] = bar(selection.operation), start = track.start[index], length = view.to - view.from;
      selected = { track, index };
      output.textContent = describe(track, index);
      if (track.end[index] < view.from || start > view.to) show(start - length / 2, start + length / 2);
    } else if (selection.operation < 0 && !(selected && id < 0 && selection.text === `scope ${pathOfScope(instances.scope[-1 - id])}`)) {
      selected = null;
      output.textContent = '';
    }
  }
  function find(event) {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left - left, y = event.clientY - box.top - top;
    const perPixel = (view.to - view.from) / (box.width - left), time = view.from + x * perPixel;
    const track = tracks.find(t => y >= t.at * rowHeight && y < (t.at + 1) * rowHeight);
    if (!track || x < 0) return null;
    const index = firstAfter(track.end, time - perPixel);
    return index < track.id.length && track.start[index] <= time + perPixel ? { track, index } : null;
  }
  // Selects the operation that began `by` operations later.
  function walk(by) {
    const id = selected ? selected.track.id[selected.index] : by > 0 ? -1 : operations.count;
    const from = selected && id < 0 ? firstAfter(operations.start, selected.track.start[selected.index]) - 1 : id;
    const to = Math.min(Math.max(from + by, 0), operations.count - 1);
    if (to >= 0) choose(...bar(to));
  }

  const middle = () => (view.from + view.to) / 2;
  const pan = part => show(view.from + part * (view.to - view.from), view.to + part * (view.to - view.from));
  const does = {
    in: () => zoom(0.5, middle()), out: () => zoom(2, middle()), left: () => pan(-0.25), right: () => pan(0.25),
    all: () => show(...view.all), next: () => walk(1), previous: () => walk(-1),
    forward: () => { if (selectionBar.forwardOf(selection.operation) >= 0) selectOperation(selectionBar.forwardOf(selection.operation)); },
  };
  const keys = { '+': 'in', '=': 'in', '-': 'out', ArrowLeft: 'left', ArrowRight: 'right', 0: 'all', n: 'next', p: 'previous', f: 'forward' };

  function listen() {
    for (const button of document.querySelectorAll('#timeline [data-do]')) button.onclick = () => does[button.dataset.do]();
    canvas.onkeydown = event => {
      if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
      does[keys[event.key]]();
      event.preventDefault();
    };
    canvas.addEventListener('wheel', event => {
      const box = canvas.getBoundingClientRect(), inner = box.width - left;
      if (event.ctrlKey || event.metaKey)
        zoom(Math.exp(event.deltaY / 300), view.from + Math.max(0, event.clientX - box.left - left) / inner * (view.to - view.from));
      else if (event.shiftKey || event.deltaX) pan((event.deltaX || event.deltaY) / inner);
      else return;
      event.preventDefault();
    }, { passive: false });
    let drag = null;
    canvas.onpointerdown = event => {
      drag = { x: event.clientX, from: view.from, to: view.to, moved: false };
      canvas.setPointerCapture(event.pointerId);
    };
    canvas.onpointermove = event => {
      if (!drag) {
        const bar = find(event);
        canvas.title = bar ? describe(bar.track, bar.index) : '';
        return;
      }
      const by = (drag.x - event.clientX) / (canvas.clientWidth - left) * (drag.to - drag.from);
      drag.moved = drag.moved || Math.abs(drag.x - event.clientX) > 3;
      if (drag.moved) show(drag.from + by, drag.to + by);
    };
    canvas.onpointerup = event => {
      const bar = drag && !drag.moved && find(event);
      if (bar) choose(bar.track, bar.index);
      drag = null;
    };
    canvas.onpointercancel = () => { drag = null; };
    canvas.ondblclick = event => {
      const bar = find(event);
      if (!bar) return;
      const start = bar.track.start[bar.index], length = Math.max(bar.track.end[bar.index] - start, 10);
      show(start - 0.1 * length, start + 1.1 * length);
    };
  }

  return {
    shown: operations.count > 0,
    start() {
      canvas.setAttribute('aria-label', `Timeline of ${counted(operations.count, 'operation')} in ${counted(laneTops.length, 'lane')}`);
      listen();
      view.listeners.push(draw);
      selection.listeners.push(follow);
    },
  };
})();
