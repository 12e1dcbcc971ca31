// ---- Graph --------------------------------------------------------------------------------------------------------------

const graph = (() => {
  const most = 80;  // boxes of a drawing: the rest is one

  // Scopes, and kinds of operations, in each scope; -1 stands around all.
  const inner = new Map([[-1, { scopes: [], kinds: [] }]]);
  for (let s = 0; s < scopes.outer.length; ++s) inner.set(s, { scopes: [], kinds: [] });
  for (let s = 0; s < scopes.outer.length; ++s) inner.get(scopes.outer[s]).scopes.push(s);
  for (let k = 0; k < kinds.count; ++k) if (kinds.site[k] >= 0) inner.get(scopeOfKind(k)).kinds.push(k);
  // Of a scope with all that is in it: calls, time, and which operation was the first.
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

  // What is drawn of a scope: boxes, and between them the edges, each as often as values went there.
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
    if (tooMany) {  // operations of one name are one box
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
    // The box of a kind of operation, here or further in; what is outside has one for each scope, or kind of value.
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
    // From outside, and to it, stands a box for each scope there and each kind of value; of very many, one.
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
      const link = links.get(ends.join()) || { from: ends[0], to: ends[1], count: 0 };
      link.count += edges.times[e];
      links.set(ends.join(), link);
    }
    return { boxes, links: [...links.values()] };
  }

  // Layers from top to bottom: below all that a box reads of what was there before it. What a loop carries from turn to turn goes back up.
  function layer(boxes, links) {
    const out = boxes.map(() => []);
    for (const link of links) {
      link.back = boxes[link.from].first >= boxes[link.to].first;
      if (!link.back) out[link.from].push(link);
    }
    for (const box of boxes) box.layer = 0;
    const inOrder = boxes.map((_, b) => b).sort((a, b) => boxes[a].first < boxes[b].first ? -1 : 1);
    for (const b of inOrder) for (const link of out[b]) boxes[link.to].layer = Math.max(boxes[link.to].layer, boxes[b].layer + 1);
    for (const [b, box] of boxes.entries())  // what comes from outside stands right above its reader
      if (box.first < 0 && out[b].length) box.layer = Math.min(...out[b].map(link => boxes[link.to].layer)) - 1;
    const least = Math.min(0, ...boxes.map(box => box.layer));
    const layers = [];
    for (const box of boxes) (layers[box.layer -= least] = layers[box.layer] || []).push(box);
    return Array.from(layers, row => row || []);
  }

  function arrange(boxes, links) {
    const layers = layer(boxes, links);
    for (const box of boxes) {
      box.near = [];
      box.sub = box.sub || `${box.calls.toLocaleString('en')} × ${inUnits(box.time)}`;
      if (box.name.length > 40) box.shown = `${box.name.slice(0, 39)}…`;
      else box.shown = box.name;
      box.width = Math.max(70, 7.2 * box.shown.length + 16, 5.6 * box.sub.length + 16);
    }
    for (const link of links) {
      boxes[link.from].near.push(boxes[link.to]);
      boxes[link.to].near.push(boxes[link.from]);
    }
    const space = () => {
      for (const row of layers) {
        let x = 0;
        for (const box of row) { box.x = x; x += box.width + 18; }
        for (const box of row) box.x -= x / 2;
      }
    };
    space();
    for (let round = 0; round < 4; ++round) {  // each near the middle of what it is linked to
      for (const row of layers) {
        for (const box of row)
          box.wish = box.near.length ? box.near.reduce((sum, near) => sum + near.x + near.width / 2, 0) / box.near.length : box.x;
        row.sort((a, b) => a.wish - b.wish);
      }
      space();
    }
    const least = Math.min(...boxes.map(box => box.x)), greatest = Math.max(...boxes.map(box => box.x + box.width));
    for (const box of boxes) { box.x += 30 - least; box.y = 14 + box.layer * 80; }
    return { width: greatest - least + 60, height: layers.length * 80 - 10 };
  }

  function draw(scope, unfold) {
    const { boxes, links } = level(scope), { width, height } = arrange(boxes, links);
    const svg = element('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'group', 'aria-label': `Graph of ${pathOfScope(scope)}: ${counted(boxes.length, 'node')}` });
    const mostCount = Math.max(...links.map(link => link.count), 1);
    for (const link of links) {
      const from = boxes[link.from], to = boxes[link.to];
      const x1 = from.x + from.width / 2, y1 = from.y + 38, x2 = to.x + to.width / 2, y2 = to.y;
      const bow = link.back || y2 <= y1 ? Math.max(from.width, to.width) / 2 + 30 : 0;
      const path = bow ? `M${x1},${y1 - 10} C${x1 + bow},${y1 + 30} ${x2 + bow},${y2 - 30} ${x2},${y2}` : `M${x1},${y1} C${x1},${y1 + 25} ${x2},${y2 - 25} ${x2},${y2}`;
      const line = element('path', { d: path, class: link.back ? 'back' : '', 'stroke-width': 1 + 2 * Math.log(link.count + 1) / Math.log(mostCount + 1) },
        element('title', {}, `${from.name} → ${to.name}: ${link.count.toLocaleString('en')}`));
      svg.append(line, element('text', { class: 'faint', x: (x1 + x2) / 2 + bow * 0.75 + 3, y: (y1 + y2) / 2 }, link.count.toLocaleString('en')));
    }
    for (const box of boxes) {
      const isScope = box.scope !== undefined;
      const g = element('g', { class: isScope ? 'scope' : box.outside ? 'outside' : '' });
      const rect = (by) => element('rect', { x: box.x + by, y: box.y + by, width: box.width - 2 * by, height: 38 - 2 * by, rx: 4 });
      g.append(rect(0));
      if (isScope) g.append(rect(2.5));
      g.append(element('text', { x: box.x + 8, y: box.y + 16 }, box.shown), element('text', { class: 'faint', x: box.x + 8, y: box.y + 30 }, box.sub));
      const k = box.kind, about = k === undefined ? box.name : `${box.name} ${texts[kinds.attributes[k]]} ${texts[kinds.operands[k]]} → ${texts[kinds.outputs[k]]}`;
      g.append(element('title', {}, `${about}\n${box.sub}`));
      if (isScope) {
        g.setAttribute('role', 'button');
        g.setAttribute('tabindex', '0');
        g.onclick = () => unfold(box.scope);
        g.onkeydown = event => { if (event.key === 'Enter' || event.key === ' ') { unfold(box.scope); event.preventDefault(); } };
      }
      svg.append(g);
    }
    told.boxes = String(Number(told.boxes || 0) + boxes.length);
    return element('div', { class: 'drawing', tabindex: '0' }, svg);
  }

  // A scope, drawn when it is first unfolded, as are those in it.
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
      result.append(draw(scope, unfold), list, more);
    });
    return result;
  }

  return {
    shown: operations.count > 0,
    start() {
      const all = details(-1, 'all');
      document.getElementById('levels').append(all);
      all.open = true;
    },
  };
})();
