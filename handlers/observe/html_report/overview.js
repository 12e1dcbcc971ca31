// ---- Head, and where the time went --------------------------------------------------------------

const overview = (() => {
  const head = data.head, mostThreads = 16, mostGaps = 5;
  const parts = [
    { key: 'operations', name: 'Operations', about: 'at least one operation was under way' },
    { key: 'host', name: 'Host between operations', about: 'the program, and handlers of the library, ran between operations' },
    { key: 'waited', name: 'Waiting', about: 'the thread stood still between operations, for more than 50 µs: it waited, slept, or others had its processor' },
    { key: 'own', name: 'This report', about: 'the report wrote down what it saw; what it does within operations that perform others is part of these' },
    { key: 'before', name: 'Before the first operation', about: 'from the making of the report' },
    { key: 'after', name: 'After the last operation', about: 'until the report was written' },
  ];

  // For each thread, the time in each part, which add up to the total time; and the longest gaps
  // between operations.
  const threads = [], gaps = [];
  for (let i = 0; i < operations.count; ++i) {
    const number = lanes.thread[operations.lane[i]], start = operations.start[i], end = start + operations.time[i];
    const thread = threads[number] = threads[number] || { number, operations: 0, before: start, end: start, last: i, between: 0 };
    if (start > thread.end) {
      const length = start - thread.end;
      thread.between += length;
      if (gaps.length < mostGaps || length > gaps[gaps.length - 1].length) {
        gaps.push({ length, number, start: thread.end, from: thread.last, to: i });
        gaps.sort((a, b) => b.length - a.length);
        gaps.length = Math.min(gaps.length, mostGaps);
      }
    }
    if (end > thread.end) {
      thread.operations += end - Math.max(start, thread.end);
      thread.last = i;
      thread.end = end;
    }
  }
  const busy = threads.filter(Boolean);
  for (const thread of busy) {
    thread.own = Math.min(data.threads.own[thread.number], thread.between);
    thread.waited = Math.min(data.threads.waited[thread.number], thread.between - thread.own);
    thread.host = thread.between - thread.own - thread.waited;
    thread.after = Math.max(0, data.end - thread.end);
    thread.all = thread.operations + thread.between + thread.before + thread.after;
  }

  const colourOfPart = key => ({ operations: distinct(0), host: distinct(1), waited: distinct(2), own: distinct(6), before: colours.line, after: colours.line })[key];
  function drawBars() {
    const bars = document.getElementById('bars');
    bars.replaceChildren(...busy.slice(0, mostThreads).map(thread => {
      const bar = element('div', { class: 'bar', role: 'img', 'aria-label': `thread ${thread.number + 1}: ${parts.map(({ key, name }) => `${name} ${inUnits(thread[key])}`).join(', ')}` });
      for (const { key, name, about } of parts) {
        const share = thread[key] / thread.all, segment = element('span', {}, share > 0.08 ? `${(100 * share).toFixed(0)}%` : '');
        segment.style.cssText = `flex: ${share} 0 0; background: ${colourOfPart(key)}`;
        segment.title = `${name}: ${inUnits(thread[key])}: ${about}`;
        bar.append(segment);
      }
      return busy.length > 1 ? element('div', {}, `thread ${thread.number + 1}`, bar) : bar;
    }));
    if (busy.length > mostThreads) bars.append(counted(busy.length - mostThreads, 'more thread'));
    const sums = Object.fromEntries(parts.map(({ key }) => [key, busy.reduce((sum, thread) => sum + thread[key], 0)]));
    const all = busy.reduce((sum, thread) => sum + thread.all, 0);
    part('overview', 'tbody').replaceChildren(...parts.map(({ key, name, about }) => {
      const swatch = element('span', { class: 'swatch' });
      swatch.style.background = colourOfPart(key);
      return element('tr', { title: about }, element('td', {}, swatch, name), element('td', { class: 'number' }, inUnits(sums[key])),
        element('td', { class: 'number' }, `${(100 * sums[key] / all).toFixed(1)}%`), element('td', { class: 'hint' }, about));
    }));
    told.overview = parts.map(({ key }) => `${key}=${sums[key]}`).join();
    told.allTime = String(all);
  }

  function listGaps() {
    const list = document.getElementById('gaps');
    list.replaceChildren(...gaps.filter(gap => gap.length >= 1000).map(gap => {
      const names = [gap.from, gap.to].map(i => `${nameOfKind(operations.kind[i])} in ${pathOfScope(scopeOfKind(operations.kind[i]))}`);
      const button = element('button', { type: 'button', class: 'plain' }, `${inUnits(gap.length)} at ${inUnits(gap.start)}${busy.length > 1 ? `, thread ${gap.number + 1}` : ''}: after ${names[0]}, before ${names[1]}`);
      button.onclick = () => {
        selectOperation(gap.to);
        show(gap.start - gap.length / 4, gap.start + 1.25 * gap.length);
      };
      return element('li', {}, button);
    }));
    document.getElementById('longest-gaps').hidden = !list.children.length;
  }

  return {
    shown: busy.length > 0,
    drawBars,
    start() {
      drawBars();
      listGaps();
    },
    // Writes the head of the page.
    writeHead() {
      const title = head.title || 'Stave report';
      document.title = title;
      document.querySelector('h1').textContent = title;
      const facts = [['Program', head.program], ['Date', head.date], ['Machine', [head.system, head.processor].filter(Boolean).join(', ')],
        ['Threads', head.threads ? `${busy.length || 0} with operations, of ${head.threads} that may run at once` : ''], ['Library', `Stave ${head.version}`]];
      document.getElementById('head').replaceChildren(...facts.filter(([, fact]) => fact).map(([name, fact]) => element('div', {}, element('dt', {}, name), element('dd', {}, fact))));
    },
  };
})();

// The bar below the links shows the selection: its name, calls and time.
const selectionBar = (() => {
  const bar = document.getElementById('selection'), text = document.getElementById('selected');
  const clear = document.getElementById('clear'), forward = document.getElementById('to-forward'), backward = document.getElementById('to-backward');
  const forwardOf = i => i >= 0 && operations.forward.length ? operations.forward[i] : -1;
  // Returns the first operation that a backward pass performed for operation i.
  const backwardOf = i => i >= 0 && operations.forward.length ? operations.forward.indexOf(i) : -1;
  function draw() {
    bar.hidden = !selection.kinds;
    if (!selection.kinds) text.textContent = '';
    if (!selection.kinds) return;
    let calls = 0, time = 0, all = 0;
    for (let k = 0; k < kinds.count; ++k) {
      if (kinds.site[k] >= 0) all += kinds.self[k];
      if (selection.kinds[k]) { calls += kinds.calls[k]; time += kinds.self[k]; }
    }
    const one = selection.operation >= 0 ? `${inUnits(operations.time[selection.operation])}; with all of its kind ` : '';
    text.textContent = `Selected: ${selection.text}: ${one}${counted(calls, 'operation')}, ${inUnits(time)}, ${all ? (100 * time / all).toFixed(1) : 0}% of the time of operations`;
    forward.hidden = forwardOf(selection.operation) < 0;
    backward.hidden = backwardOf(selection.operation) < 0;
    told.selected = selection.text;
    told.selectedOperation = String(selection.operation);
    told.forwardOperation = String(forwardOf(selection.operation));
  }
  return {
    forwardOf,
    start() {
      selection.listeners.push(draw);
      clear.onclick = selectNothing;
      forward.onclick = () => selectOperation(forwardOf(selection.operation));
      backward.onclick = () => selectOperation(backwardOf(selection.operation));
      addEventListener('keydown', event => { if (event.key === 'Escape' && selection.kinds) selectNothing(); });
    },
  };
})();
