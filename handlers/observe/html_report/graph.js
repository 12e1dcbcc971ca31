// ---- Graph --------------------------------------------------------------------------------------

const graph = (() => {
  // The largest number of boxes in a drawing. All others are merged into one box.
  const most = 80;

  // The scopes and the kinds of operations directly in each scope. Scope -1 is the outermost.
  const inner = new Map([[-1, { scopes: [], kinds: [] }]]);
  for (let s = 0; s < scopes.outer.length; ++s) inner.set(s, { scopes: [], kinds: [] });
  for (let s = 0; s < scopes.outer.length; ++s) inner.get(scopes.outer[s]).scopes.push(s);
  for (let k = 0; k < kinds.count; ++k) if (kinds.site[k] >= 0) inner.get(scopeOfKind(k)).kinds.push(k);
  // For each scope with everything inside it: calls, time, and the number of its first operation.
  const calls = new Float64Array(scopes.outer.length + 1), time = new Float64Array(scopes.outer.length + 1);
  const firstOfKind = new Float64Array(kinds.count).fill(-1), first = new Float64Array(scopes.outer.length + 1).fill(Infinity);
  for (let i = operations.count; i-- > 0;) firstOfKind[operations.kind[i]] = i;
  for (let k = 0; k < kinds.count; ++k) {
    if (kinds.site[k] < 0) continue;
    for (let s = scopeOfKind(k); ; s = scopes.outer[s]) {
      calls[s + 1] += kinds.calls[k];
      time[s + 1] += kinds.time[k];
      first[s + 1] = Math.min(first[s + 1], firstOfKind[k]);
      if (s < 0) break;
    }
  }

  // Returns the value that an edge carries, as its reader sees it: "h:f32[2,3]".
  const listed = text => texts[text].split(/, (?=[^\]]*(?:\[|$))/);
  const valueOf = e => listed(kinds.operands[edges.to[e]])[edges.operand[e]] || listed(kinds.outputs[edges.from[e]])[edges.output[e]] || '';

  // Returns the drawing of a scope: boxes, and the links between them, with the number of values
  // that each link carried.
  function level(scope) {
    const { scopes: scopesHere, kinds: kindsHere } = inner.get(scope), boxes = [], box = new Map();
    const add = (key, of) => {
      if (!box.has(key)) {
        box.set(key, boxes.length);
        boxes.push({ calls: 0, time: 0, first: Infinity, ...of });
      }
      return boxes[box.get(key)];
    };
    const tooMany = scopesHere.length + kindsHere.length > most;
    const ranked = scopesHere.map(s => ({ key: `s${s}`, scope: s, name: texts[scopes.name[s]], calls: calls[s + 1], time: time[s + 1], first: first[s + 1] }));
    const keyOfKind = new Map();
    if (tooMany) {  // merges operations of one name into one box
      const names = new Map();
      for (const k of kindsHere) {
        const name = nameOfKind(k), sum = names.get(name) || { key: `n${name}`, name, calls: 0, time: 0, first: Infinity };
        sum.calls += kinds.calls[k];
        sum.time += kinds.time[k];
        sum.first = Math.min(sum.first, firstOfKind[k]);
        names.set(name, sum);
        keyOfKind.set(k, sum.key);
      }
      ranked.push(...names.values());
    } else {
      for (const k of kindsHere) {
        ranked.push({ key: `k${k}`, kind: k, name: nameOfKind(k), calls: kinds.calls[k], time: kinds.time[k], first: firstOfKind[k] });
        keyOfKind.set(k, `k${k}`);
      }
    }
    ranked.sort((a, b) => b.time - a.time);
    for (const of of ranked.slice(0, most)) add(of.key, of);
    const more = new Set(ranked.slice(most).map(of => of.key));
    for (const of of ranked.slice(most)) {
      const rest = add('more', { name: `${more.size.toLocaleString('en')} more`, key: 'more' });
      rest.calls += of.calls;
      rest.time += of.time;
      rest.first = Math.min(rest.first, of.first);
    }
    // Returns the key of the box for a kind of operation, in this scope or further inside. Kinds
    // outside have one box for each scope, or for each kind of value.
    const found = new Map();
    const keyOf = kind => {
      if (found.has(kind)) return found.get(kind);
      let key = keyOfKind.get(kind);
      if (key === undefined && kinds.site[kind] >= 0)
        for (let s = scopeOfKind(kind); s >= 0; s = scopes.outer[s])
          if (scopes.outer[s] === scope) { key = `s${s}`; break; }
      if (more.has(key)) key = 'more';
      if (key === undefined) key = `o${kinds.site[kind] < 0 ? nameOfKind(kind) : pathOfScope(scopeOfKind(kind))}`;
      found.set(kind, key);
      return key;
    };
    // Returns the box for values that come from outside or go there. There is one for each outer
    // scope and each kind of value, or a single one if there are very many.
    const outside = (key, kind, fromThere) => {
      const way = fromThere ? 'from' : 'to', place = box.has(way + key) || boxes.length < 2 * most ? key : 'elsewhere';
      add(way + place, { name: place, outside: true, first: fromThere ? -1 : Infinity,
        sub: kinds.site[kind] < 0 ? 'from outside' : fromThere ? 'from there' : 'goes there' });
      return box.get(way + place);
    };
    const links = new Map();
    for (let e = 0; e < edges.count; ++e) {
      const from = keyOf(edges.from[e]), to = keyOf(edges.to[e]);
      if ((from[0] === 'o' && to[0] === 'o') || (from === to && from[0] !== 'k')) continue;
      const ends = [from[0] === 'o' ? outside(from.slice(1), edges.from[e], true) : box.get(from), to[0] === 'o' ? outside(to.slice(1), edges.to[e], false) : box.get(to)];
      const value = valueOf(e), key = `${ends.join()} ${value}`, link = links.get(key) || { from: ends[0], to: ends[1], value, count: 0 };
      link.count += edges.times[e];
      links.set(key, link);
    }
    return { boxes, links: [...links.values()] };
  }

  // At least so many things with the same readers are drawn as one.
  const alike = 3;
  const listOf = names => names.length > alike ? `${names.slice(0, alike).join(', ')} and ${names.length - alike} more` : names.join(', ');
  // Merges values from outside that the same boxes read, such as the parameters of a layer, into
  // one box.
  function grouped({ boxes, links }) {
    const readers = boxes.map(() => []), groups = new Map();
    for (const link of links) readers[link.from].push(link.to);
    for (const [b, box] of boxes.entries()) {
      if (!box.outside || box.first >= 0 || box.sub !== 'from outside') continue;
      const key = [...new Set(readers[b])].sort((a, c) => a - c).join();
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(b);
    }
    const into = boxes.map((_, b) => b), gone = new Set();
    for (const members of groups.values()) {
      if (members.length < alike) continue;
      const names = members.map(b => boxes[b].name.replace(/:[a-z]+[0-9]*\[[^\]]*\][^:]*$/, ''));
      boxes[members[0]] = { ...boxes[members[0]], name: listOf(names), sub: `${members.length} values from outside`, about: members.map(b => boxes[b].name).join('\n') };
      for (const b of members.slice(1)) {
        into[b] = members[0];
        gone.add(b);
      }
    }
    const number = [];
    boxes.forEach((_, b) => { if (!gone.has(b)) number[b] = number.filter(n => n !== undefined).length; });
    return { boxes: boxes.filter((_, b) => !gone.has(b)), links: links.map(link => ({ ...link, from: number[into[link.from]], to: number[into[link.to]] })) };
  }

  // Puts the names of a box's outputs side by side under the box. Several outputs with the same
  // readers share a name, and so do all outputs if there are very many.
  const mostValues = 4;
  const cut = (text, most) => text.length > most ? `${text.slice(0, most - 1)}…` : text;
  function nameValues(boxes, links) {
    for (const [b, box] of boxes.entries()) {
      const mine = links.filter(link => link.from === b), counts = new Map();
      // `readers` holds the readers of each value; `ways` holds the values of each set of readers.
      const readers = new Map(), ways = new Map();
      for (const link of mine) readers.set(link.value, (readers.get(link.value) || new Set()).add(link.to));
      for (const [value, to] of readers) {
        const way = [...to].sort((a, c) => a - c).join();
        ways.set(way, [...(ways.get(way) || []), value]);
      }
      const join = (values, name) => {
        const all = new Set(values), names = [...all].join('\n');
        for (const link of mine) if (all.has(link.value)) [link.value, link.about] = [name, names];
      };
      let number = 0;
      // Zero-width spaces make the names different.
      for (const values of ways.values()) if (values.length >= alike) join(values, `${counted(values.length, 'value')}${'\u200b'.repeat(number++)}`);
      if (new Set(mine.map(link => link.value)).size > mostValues) join(mine.map(link => link.value), counted(readers.size, 'value'));
      for (const link of mine) counts.set(link.value, (counts.get(link.value) || 0) + link.count);
      box.values = [...counts].map(([value, count]) => ({ value, text: `${cut(value, 30)}${count > 1 ? ` ×${count.toLocaleString('en')}` : ''}` }));
      if (box.outside && box.values.length === 1 && box.values[0].value === box.name) box.values[0].text = `×${mine.reduce((sum, link) => sum + link.count, 0).toLocaleString('en')}`;
      box.sub = box.sub || `${box.calls.toLocaleString('en')} × ${inUnits(box.time / box.calls)}`;
      box.shown = cut(box.name, 40);
      let at = 8;
      for (const value of box.values) {
        value.port = at;
        at += 5.8 * value.text.length + 14;
      }
      box.width = Math.max(70, 7.2 * box.shown.length + 16, 5.6 * box.sub.length + 16, at);
      for (const link of mine) link.port = box.values.find(value => value.value === link.value).port;
    }
  }
  // Merges links with the same ends and the same value.
  function merged(links) {
    const result = new Map();
    for (const link of links) {
      const key = `${link.from} ${link.to} ${link.value}`, found = result.get(key);
      if (found) found.count += link.count;
      else result.set(key, link);
    }
    return [...result.values()];
  }

  // The boxes that were drawn, each with the kinds of operations inside it.
  const drawnBoxes = [];
  function showSelection() {
    for (const { g, holds } of drawnBoxes) {
      let holdsSelected = false;
      for (let k = 0; selection.kinds && k < kinds.count && !holdsSelected; ++k) holdsSelected = selection.kinds[k] === 1 && holds(k);
      g.classList.toggle('selected', holdsSelected);
      g.classList.toggle('dimmed', Boolean(selection.kinds) && !holdsSelected);
    }
  }

  function drawBox(box, scope, unfold) {
    const isScope = box.scope !== undefined, { boxHeight } = graphLayout;
    const g = element('g', { class: isScope ? 'scope' : box.outside ? 'outside' : '' });
    const rect = by => element('rect', { x: box.x + by, y: box.y + by, width: box.width - 2 * by, height: boxHeight - 2 * by, rx: 4 });
    const inBackward = isScope ? isBackward[box.scope] : box.kind !== undefined && scopeOfKind(box.kind) >= 0 && isBackward[scopeOfKind(box.kind)];
    if (hasBackward && !box.outside && (inBackward || isScope)) g.style.setProperty('--fill', inBackward ? 'var(--backward)' : 'var(--forward)');
    g.append(rect(0));
    if (isScope) g.append(rect(2.5));
    g.append(element('text', { x: box.x + 8, y: box.y + 16 }, box.shown), element('text', { class: 'faint', x: box.x + 8, y: box.y + 30 }, box.sub));
    for (const { text, port } of box.values) g.append(element('text', { class: 'faint value', x: box.x + port + 4, y: box.y + boxHeight + 12 }, text));
    const k = box.kind, about = k === undefined ? box.name : `${box.name} ${texts[kinds.attributes[k]]} ${texts[kinds.operands[k]]} → ${texts[kinds.outputs[k]]}`;
    g.append(element('title', {}, `${box.about || about}\n${box.sub}`));
    if (box.outside || box.key === 'more') return g;
    drawnBoxes.push({ g, holds: isScope ? kind => inScope(scopeOfKind(kind), box.scope)
      : k !== undefined ? kind => kind === k : kind => scopeOfKind(kind) === scope && nameOfKind(kind) === box.name });
    const use = () => {
      if (isScope) unfold(box.scope);
      if (isScope) selectScope(box.scope);
      else if (k !== undefined) selectKind(k);
      else selectName(box.name);
    };
    g.setAttribute('role', 'button');
    g.setAttribute('tabindex', '0');
    g.onclick = use;
    g.onkeydown = event => { if (event.key === 'Enter' || event.key === ' ') { use(); event.preventDefault(); } };
    return g;
  }

  function draw(scope, unfold) {
    const { boxes, links: all } = grouped(level(scope));
    nameValues(boxes, all);
    const links = merged(all), { width, height } = graphLayout.arrange(boxes, links);
    graphLayout.spread(boxes, links);
    const svg = element('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'group', 'aria-label': `Graph of ${pathOfScope(scope)}: ${counted(boxes.length, 'node')}` });
    const mostCount = Math.max(...links.map(link => link.count), 1);
    for (const link of links) {
      const from = boxes[link.from], to = boxes[link.to];
      svg.append(element('path', { d: graphLayout.line(link, boxes), class: link.back ? 'back' : '', 'stroke-width': 1 + 1.5 * Math.log(link.count + 1) / Math.log(mostCount + 1) },
        element('title', {}, `${link.about || link.value}\n${from.name} → ${to.name}: ${link.count.toLocaleString('en')}`)));
      const x = to.x + link.enters;
      svg.append(element('path', { class: 'tip', d: `M${x - 3.5},${to.y - 6} L${x + 3.5},${to.y - 6} L${x},${to.y} Z` }));
    }
    for (const box of boxes) svg.append(drawBox(box, scope, unfold));
    showSelection();
    told.boxes = String(Number(told.boxes || 0) + boxes.length);
    const drawing = element('div', { class: 'drawing', tabindex: '0' }, svg), start = boxes.filter(box => box.first >= 0).sort((a, b) => a.first - b.first)[0];
    // Scrolls a large drawing to the beginning of the program.
    drawing.reveal = () => {
      if (start) drawing.scrollTo(start.x + start.width / 2 - drawing.clientWidth / 2, start.y - drawing.clientHeight / 2);
    };
    return drawing;
  }

  // A scope that is drawn when the user first unfolds it, as are the scopes inside it.
  function details(scope, name) {
    const result = element('details', {}, element('summary', {}, name,
      element('small', {}, `${counted(calls[scope + 1], 'operation')}, ${inUnits(time[scope + 1])}`)));
    result.addEventListener('toggle', () => {
      if (!result.open || result.children.length > 1) return;
      const here = inner.get(scope).scopes.slice().sort((a, b) => time[b + 1] - time[a + 1]), made = new Map();
      const list = element('div'), more = element('button', { type: 'button' }, 'Show more scopes');
      const make = s => {
        if (!made.has(s)) {
          made.set(s, details(s, texts[scopes.name[s]]));
          list.append(made.get(s));
        }
        return made.get(s);
      };
      const unfold = s => {
        make(s).open = true;
        made.get(s).scrollIntoView({ block: 'nearest' });
        made.get(s).querySelector('summary').focus();
      };
      const page = () => {
        here.filter(s => !made.has(s)).slice(0, most).forEach(make);
        more.hidden = made.size >= here.length;
      };
      more.onclick = page;
      page();
      const drawing = draw(scope, unfold);
      result.append(drawing, list, more);
      drawing.reveal();
    });
    return result;
  }

  return {
    shown: operations.count > 0,
    start() {
      const all = details(-1, 'all');
      document.getElementById('levels').append(all);
      selection.listeners.push(showSelection);
      all.open = true;
    },
  };
})();
