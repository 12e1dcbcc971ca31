// ---- Layout of graphs ---------------------------------------------------------------------------

// Places boxes in layers from top to bottom, and draws a line for each value between them, in the
// manner of Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system
// structures", 1981. A line crosses a layer only at a bend, which reserves a place among the boxes,
// and elsewhere runs between layers. So no line crosses a box.
//
//   boxes  { width, first, outside }: the function adds x (of the left edge), y and layer
//   links  { from, to, value }: numbers of boxes. Lines of one box and value share their path.
//          The function adds back (the reader began before the source) and up (the reader is
//          not in a lower layer).
const graphLayout = (() => {
  const boxHeight = 38, labelHeight = 16, gap = 52, apart = 18, rowHeight = boxHeight + labelHeight + gap;

  // Assigns layers. Each box is below all boxes that it reads and that began before it. A link to a
  // box that began earlier goes back up.
  function findLayers(boxes, links) {
    const out = boxes.map(() => []);
    for (const link of links) {
      link.back = boxes[link.from].first >= boxes[link.to].first;
      if (!link.back) out[link.from].push(link);
    }
    for (const box of boxes) box.layer = 0;
    const inOrder = boxes.map((_, b) => b).sort((a, b) => boxes[a].first - boxes[b].first || 0);
    for (const b of inOrder) for (const link of out[b]) boxes[link.to].layer = Math.max(boxes[link.to].layer, boxes[b].layer + 1);
    // A box that reads nothing is directly above its first reader.
    for (const b of inOrder.reverse())
      if (out[b].length && !links.some(link => link.to === b && !link.back)) boxes[b].layer = Math.min(...out[b].map(link => boxes[link.to].layer)) - 1;
    const least = Math.min(...boxes.map(box => box.layer));
    for (const box of boxes) box.layer -= least;
    for (const link of links) link.up = boxes[link.to].layer <= boxes[link.from].layer;
  }

  // Adds bends. Nodes are boxes and bends. A value has one bend in each layer that its line
  // crosses, and its bends are connected.
  function addBends(boxes, links) {
    const nodes = boxes.map(box => ({ box, width: box.width, layer: box.layer, near: [] })), bends = new Map();
    const join = (a, b) => { a.near.push(b); b.near.push(a); };
    const bendAt = (link, layer) => {
      const key = `${link.from} ${link.value} ${link.up} ${layer}`;
      if (!bends.has(key)) {
        bends.set(key, { width: 6, layer, near: [], of: nodes[link.from] });
        nodes.push(bends.get(key));
        const first = link.up ? layer === boxes[link.from].layer : layer === boxes[link.from].layer + 1;
        join(bends.get(key), first ? nodes[link.from] : bendAt(link, link.up ? layer + 1 : layer - 1));
      }
      return bends.get(key);
    };
    for (const link of links) {
      const from = boxes[link.from].layer, to = boxes[link.to].layer;
      link.bends = [];
      if (link.up) for (let layer = from; layer >= to; --layer) link.bends.push(bendAt(link, layer));
      else for (let layer = from + 1; layer < to; ++layer) link.bends.push(bendAt(link, layer));
      join(link.bends.length ? link.bends[link.bends.length - 1] : nodes[link.from], nodes[link.to]);
    }
    return nodes;
  }

  // Places the nodes of a row in their order, as near to their preferred positions as their widths
  // allow: least squares, by pooling neighbours that would overlap (isotonic regression).
  function place(row) {
    const pools = [];
    let offset = 0;
    row.forEach((node, i) => {
      if (i > 0) offset += (row[i - 1].width + node.width) / 2 + (row[i - 1].box || node.box ? apart : 8);
      node.offset = offset;
      const weight = node.box ? 1 : 4;  // a larger weight keeps lines straight
      pools.push({ sum: weight * (node.wish - offset), weight, count: 1 });
      while (pools.length > 1 && pools[pools.length - 2].sum / pools[pools.length - 2].weight >= pools[pools.length - 1].sum / pools[pools.length - 1].weight) {
        const last = pools.pop(), pool = pools[pools.length - 1];
        pool.sum += last.sum; pool.weight += last.weight; pool.count += last.count;
      }
    });
    let i = 0;
    for (const pool of pools) for (let n = 0; n < pool.count; ++n, ++i) row[i].x = pool.sum / pool.weight + row[i].offset;
  }

  function arrange(boxes, links) {
    findLayers(boxes, links);
    const nodes = addBends(boxes, links), rows = Array.from({ length: Math.max(...nodes.map(node => node.layer)) + 1 }, () => []);
    for (const node of nodes) rows[node.layer].push(node);
    const began = node => Number.isFinite((node.box || node.of.box).first) ? (node.box || node.of.box).first : 1e15;
    for (const row of rows) {
      row.sort((a, b) => began(a) - began(b));
      for (const node of row) node.wish = 0;
      place(row);
    }
    const mean = (node, counts) => {
      let sum = 0, count = 0;
      for (const near of node.near) if (counts(near)) { sum += near.x; ++count; }
      return count ? sum / count : node.x;
    };
    for (let round = 0; round < 12; ++round) {
      const down = round % 2 === 0, sorts = round < 8;
      for (const row of down ? rows : [...rows].reverse()) {
        for (const node of row) node.wish = mean(node, near => !sorts || (down ? near.layer <= node.layer : near.layer >= node.layer));
        if (sorts) row.sort((a, b) => a.wish - b.wish);
        place(row);
      }
    }
    const least = Math.min(...nodes.map(node => node.x - node.width / 2)), greatest = Math.max(...nodes.map(node => node.x + node.width / 2));
    for (const node of nodes) {
      node.x += 20 - least;
      node.y = 36 + node.layer * rowHeight;
      if (node.box) Object.assign(node.box, { x: node.x - node.width / 2, y: node.y });
    }
    return { width: greatest - least + 40, height: 36 + rows.length * rowHeight - 10 };
  }

  const curve = (x1, y1, x2, y2) => `C${x1},${(y1 + y2) / 2} ${x2},${(y1 + y2) / 2} ${x2},${y2}`;
  // Returns the path of a link, from below its value's name to the top of the box that reads it.
  function line(link, boxes) {
    const from = boxes[link.from], to = boxes[link.to], bottom = boxHeight + labelHeight;
    let x = from.x + link.port, y = from.y + bottom, path = `M${x},${from.y + boxHeight} L${x},${y}`;
    const x2 = to.x + link.enters;
    if (link.up) {
      for (const [i, bend] of link.bends.entries()) {
        path += i === 0 ? ` C${x},${y + gap * 0.6} ${bend.x},${y + gap * 0.6} ${bend.x},${bend.y + bottom}` : ` ${curve(x, y, bend.x, bend.y + bottom)}`;
        path += ` L${bend.x},${bend.y}`;
        [x, y] = [bend.x, bend.y];
      }
      return `${path} C${x},${y - gap * 0.6} ${x2},${y - gap * 0.6} ${x2},${to.y}`;
    }
    for (const bend of link.bends) {
      path += ` ${curve(x, y, bend.x, bend.y)} L${bend.x},${bend.y + bottom}`;
      [x, y] = [bend.x, bend.y + bottom];
    }
    return `${path} ${curve(x, y, x2, to.y)}`;
  }

  // Spreads the ends of lines along the top of each box, in the order of their sources.
  function spread(boxes, links) {
    const entering = boxes.map(() => []);
    for (const link of links) entering[link.to].push(link);
    for (const [b, list] of entering.entries()) {
      const comes = link => link.bends.length ? link.bends[link.bends.length - 1].x : boxes[link.from].x + link.port;
      list.sort((a, b) => comes(a) - comes(b));
      const every = Math.min(14, (boxes[b].width - 16) / Math.max(list.length - 1, 1));
      list.forEach((link, i) => { link.enters = boxes[b].width / 2 + (i - (list.length - 1) / 2) * every; });
    }
  }

  return { boxHeight, labelHeight, arrange, spread, line };
})();
