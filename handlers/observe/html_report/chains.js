// ---- Chains: draws of Markov chains -------------------------------------------------------------

const chains = (() => {
  const place = document.getElementById('runs'), pageLength = 12, height = 116, left = 4, tall = 84, most = 1.01, least = 400;
  const plots = [];  // { canvas, draw }
  const shown = x => x === null ? 'nan' : Number.isFinite(x) ? String(Number(x.toPrecision(4))) : inDigits(x);
  const chainColour = chain => lineColour(chain);

  // Draws the ranks of a parameter: for each chain, how many of its draws fall into each bin of the
  // ranks among all draws. If chains agree, each line stays in the band around an equal share. The
  // band is three standard deviations of a binomial distribution wide on each side.
  function drawRanks(run, parameter, canvas) {
    const { context, width } = surface(canvas, height), bins = run.bins, n = run.draws, share = n / bins, off = 3 * Math.sqrt(share * (1 - 1 / bins));
    const greatest = Math.max(share + 1.3 * off, ...parameter.ranks), y = count => 4 + (1 - count / greatest) * tall, x = bin => left + bin / bins * (width - 2 * left);
    context.fillStyle = colours.line;
    context.fillRect(left, y(share + off), width - 2 * left, y(Math.max(0, share - off)) - y(share + off));
    let outside = 0;
    for (let chain = 0; chain < run.shown; ++chain) {
      context.strokeStyle = chainColour(chain);
      context.lineWidth = 1.5;
      context.beginPath();
      for (let bin = 0; bin < bins; ++bin) {
        const count = parameter.ranks[chain * bins + bin];
        outside += Math.abs(count - share) > off;
        context.lineTo(x(bin), y(count));
        context.lineTo(x(bin + 1), y(count));
      }
      context.stroke();
    }
    context.lineWidth = 1;
    context.fillStyle = colours.faint;
    context.fillText('ranks: low', left, height - 10);
    context.textAlign = 'right';
    context.fillText('high', width - left, height - 10);
    context.textAlign = 'left';
    parameter.outside = outside;
  }
  // Draws the values in order, one line for each chain. Ticks below mark draws whose trajectory
  // diverged.
  function drawTrace(run, parameter, canvas) {
    const { context, width } = surface(canvas, height), points = Math.ceil(run.draws / parameter.every), values = parameter.trace.filter(Number.isFinite);
    const low = values.reduce((a, b) => Math.min(a, b), Infinity), high = values.reduce((a, b) => Math.max(a, b), -Infinity);
    const y = value => 4 + (high - value) / (high - low || 1) * tall, x = draw => left + draw / Math.max(1, run.draws - 1) * (width - 2 * left);
    for (let chain = 0; chain < run.shown; ++chain) {
      context.strokeStyle = chainColour(chain);
      context.globalAlpha = 0.7;
      context.beginPath();
      for (let i = 0; i < points; ++i) context.lineTo(x(i * parameter.every), y(parameter.trace[chain * points + i]));
      context.stroke();
    }
    context.globalAlpha = 1;
    context.fillStyle = colours.bad;
    for (let i = 0; i < run.diverged.length; i += 2) context.fillRect(Math.round(x(run.diverged[i + 1])) - 1, tall + 6, 2, 7);
    context.fillStyle = colours.faint;
    context.fillText(`${shown(low)} to ${shown(high)}`, left, height - 7);
  }

  function figures(run) {
    const grid = element('div', { class: 'charts' }), more = element('button', { type: 'button' }, 'Show more');
    let count = 0;
    const page = () => {
      for (const parameter of run.parameters.slice(count, count + pageLength)) {
        const ranks = element('canvas', { role: 'img', 'aria-label': `Ranks of ${parameter.name} by chain` }), trace = element('canvas', { role: 'img', 'aria-label': `Draws of ${parameter.name} in turn` });
        grid.append(element('figure', {}, element('figcaption', {}, parameter.name), ranks, trace));
        plots.push({ canvas: ranks, draw: () => drawRanks(run, parameter, ranks) }, { canvas: trace, draw: () => drawTrace(run, parameter, trace) });
      }
      count = Math.min(count + pageLength, run.parameters.length);
      more.hidden = count >= run.parameters.length;
      drawAll();
    };
    more.onclick = page;
    return { grid, more, page };
  }
  function tables(run) {
    const number = (text, bad) => element('td', { class: bad ? 'number worse' : 'number' }, text);
    const head = (...names) => element('thead', {}, element('tr', {}, ...names.map((name, i) => element('th', { scope: 'col', class: i ? 'number' : '' }, name))));
    const parameters = element('table', {}, head('Parameter', 'Mean', 'Std. dev.', '5%', 'Median', '95%', 'R-hat', 'ESS bulk', 'ESS tail'), element('tbody', {}, ...run.parameters.map(it =>
      element('tr', {}, element('td', {}, it.name), ...['mean', 'deviation', 'low', 'median', 'high'].map(key => number(shown(it[key]))), number(shown(it.rhat), !(it.rhat <= most)),
        number(shown(Math.round(it.bulk)), !(it.bulk >= least)), number(shown(Math.round(it.tail)), !(it.tail >= least))))));
    const divergences = new Array(run.chains).fill(0);
    for (let i = 0; i < run.diverged.length; i += 2) ++divergences[run.diverged[i]];
    const perChain = element('table', {}, head('Chain', 'Acceptance', 'Step size', 'Steps for a draw', 'Deepest tree', 'Divergences'), element('tbody', {}, ...divergences.slice(0, 64).map((count, chain) => {
      const swatch = element('span', { class: 'swatch' });
      swatch.style.background = chainColour(chain);
      return element('tr', {}, element('td', {}, swatch, String(chain)), number(run.accept[chain].toFixed(2)), number(shown(run.step_size[chain])), number(shown(run.steps[chain])), number(String(run.depth[chain])), number(String(count), count > 0));
    })));
    return [element('div', { class: 'scroll' }, parameters), element('details', { class: 'plain' }, element('summary', {}, 'Chains'), element('div', { class: 'scroll' }, perChain))];
  }
  function verdict(run) {
    const apart = run.parameters.filter(it => !(it.rhat <= most)).length, few = run.parameters.filter(it => !(it.bulk >= least && it.tail >= least)).length;
    const said = [`${counted(run.chains, 'chain')} of ${counted(run.draws, 'draw')}`, `${counted(run.diverged.length / 2, 'divergence')}`];
    said.push(apart ? `chains do not agree on ${apart} of ${counted(run.parameters.length, 'number')}: R-hat is above ${most}` : `R-hat is at most ${most} everywhere`);
    if (few) said.push(`${few} with an effective sample size below ${least}`);
    if (run.left_out) said.push(`${run.left_out} with a smaller R-hat are left out`);
    return `${said.join('; ')}.`;
  }
  function drawAll() {
    for (const plot of plots) plot.draw();
    told.rankPlots = String(plots.length / 2);
    told.outside = data.chains.map(run => run.parameters.reduce((sum, it) => sum + (it.outside || 0), 0)).join();
  }
  return {
    shown: data.chains.length > 0,
    drawAll,
    start() {
      for (const run of data.chains) {
        const { grid, more, page } = figures(run);
        place.append(element('h3', {}, run.title), element('p', { class: run.diverged.length ? 'verdict worse' : 'verdict' }, verdict(run)), ...tables(run), grid, more);
        page();
      }
    },
  };
})();
