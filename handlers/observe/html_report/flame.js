// ---- Flame graph of scopes ----------------------------------------------------------------------

const flame = (() => {
  const canvas = part('flame', 'canvas'), output = part('flame', 'output'), all = document.getElementById('flame-all'), rowHeight = 20;
  // A frame is a scope with everything inside it, or all operations of one name directly in a
  // scope. Its width is its time.
  const root = { name: 'all', scope: -1, time: 0, calls: 0, inner: [], depth: 0, backward: false };
  const frames = new Map([[-1, root]]);
  for (let s = 0; s < scopes.outer.length; ++s) {
    const outer = frames.get(scopes.outer[s]), frame = { name: texts[scopes.name[s]], scope: s, time: 0, calls: 0, inner: [], depth: outer.depth + 1, outer, backward: isBackward[s] === 1 };
    outer.inner.push(frame);
    frames.set(s, frame);
  }
  const leaves = new Map();
  for (let k = 0; k < kinds.count; ++k) {
    if (kinds.site[k] < 0) continue;
    const outer = frames.get(scopeOfKind(k)), key = `${scopeOfKind(k)} ${nameOfKind(k)}`;
    if (!leaves.has(key)) {
      leaves.set(key, { name: nameOfKind(k), scope: scopeOfKind(k), operation: true, kinds: [], time: 0, calls: 0, inner: [], depth: outer.depth + 1, outer });
      outer.inner.push(leaves.get(key));
    }
    leaves.get(key).kinds.push(k);
    for (let frame = leaves.get(key); frame; frame = frame.outer) {
      frame.time += kinds.self[k];
      frame.calls += kinds.calls[k];
    }
  }
  let depth = 0;
  for (const frame of [...frames.values(), ...leaves.values()]) {
    frame.inner.sort((a, b) => b.time - a.time);
    depth = Math.max(depth, frame.depth);
  }

  // `top` is the frame that has the full width. `drawn` has entries { frame, x, y, width }.
  let top = root, drawn = [];
  const holds = frame => !selection.kinds || (frame.operation ? frame.kinds.some(isSelected) : frame.scope < 0 || selection.scopes[frame.scope] === 1);

  function draw() {
    const outer = [];
    for (let frame = top.outer; frame; frame = frame.outer) outer.unshift(frame);
    const { context, width } = surface(canvas, Math.min(depth + 1, 40) * rowHeight + 2);
    drawn = [];
    const put = (frame, x, wide) => {
      if (wide < 0.4 || frame.depth >= 40) return;
      const y = frame.depth * rowHeight, bright = holds(frame);
      drawn.push({ frame, x, y, width: wide });
      context.globalAlpha = bright ? 1 : 0.25;
      context.fillStyle = frame.operation ? colourOf(frame.name) : frame.scope < 0 ? colours.scope : directionOfScope(frame.scope);
      context.fillRect(x, y, Math.max(wide - 0.7, 0.5), rowHeight - 1);
      context.fillStyle = colours.ink;
      if (wide > 16) context.fillText(fit(context, `${frame.name} ${(100 * frame.time / (root.time || 1)).toFixed(1)}%`, wide - 6) || fit(context, frame.name, wide - 6), x + 3, y + rowHeight / 2);
      context.globalAlpha = 1;
    };
    const fill = (frame, x, wide) => {
      put(frame, x, wide);
      let at = x;
      for (const inner of frame.inner) {
        const share = frame.time ? inner.time / frame.time * wide : 0;
        if (share >= 0.4) fill(inner, at, share);
        at += share;
      }
    };
    for (const frame of outer) put(frame, 0, width);
    fill(top, 0, width);
    all.hidden = top === root;
    told.flameTime = String(root.time);
    told.frames = String(drawn.length);
  }
  const pathOf = frame => frame.operation ? `${frame.name} in ${pathOfScope(frame.scope)}` : frame.scope < 0 ? 'all' : pathOfScope(frame.scope);
  const describe = frame => `${pathOf(frame)}: ${inUnits(frame.time)}, ${(100 * frame.time / (root.time || 1)).toFixed(1)}%, ${counted(frame.calls, 'operation')}`;
  function find(event) {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    return (drawn.find(d => x >= d.x && x < d.x + d.width && y >= d.y && y < d.y + rowHeight) || {}).frame;
  }
  function choose(frame) {
    output.textContent = describe(frame);
    if (frame === root) selectNothing();
    else if (frame.operation) select(pathOf(frame), k => frame.kinds.includes(k));
    else selectScope(frame.scope);
  }
  const zoomTo = frame => { top = frame; redraw(); };

  return {
    shown: root.time > 0 && scopes.outer.length > 0,
    start() {
      canvas.setAttribute('role', 'img');
      canvas.setAttribute('aria-label', 'Flame graph of scopes: the table of operations has its numbers, by scopes');
      canvas.onclick = event => { const frame = find(event); if (frame) choose(frame); };
      canvas.ondblclick = event => { const frame = find(event); if (frame && frame.inner.length) zoomTo(frame); };
      canvas.onpointermove = event => { const frame = find(event); canvas.title = frame ? describe(frame) : ''; };
      all.onclick = () => zoomTo(root);
      view.listeners.push(draw);
    },
  };
})();
