// ---- The page -----------------------------------------------------------------------------------

readColours();
overview.writeHead();
selectionBar.start();
const sections = { overview, timeline, flame, memory, graph, operations: table, curves, chains, compare };
for (const [name, section] of Object.entries(sections)) {
  if (!section.shown) continue;
  document.getElementById(name).hidden = false;
  document.querySelector('nav').append(element('a', { href: `#${name}` }, part(name, 'h2').textContent));
  section.start();
}
const threads = new Set(lanes.thread).size, devices = new Set(lanes.device).size;
document.getElementById('totals').textContent = [counted(operations.count, 'operation'), counted(threads, 'thread'),
  counted(devices, 'device'), `${inUnits(data.end)} in all`, `at most ${inBytes(memory.peak)}`].join(', ');
for (const legend of document.querySelectorAll('.legend')) legend.hidden = !hasBackward;
// Marks the link to the part of the page that is on the screen.
const links = new Map([...document.querySelectorAll('nav a')].map(link => [link.hash.slice(1), link])), onScreen = new Set();
const watcher = new IntersectionObserver(entries => {
  for (const { target, isIntersecting } of entries) onScreen[isIntersecting ? 'add' : 'delete'](target.id);
  const first = [...links.keys()].find(id => onScreen.has(id));
  for (const [id, link] of links) id === first ? link.setAttribute('aria-current', 'true') : link.removeAttribute('aria-current');
}, { rootMargin: '-80px 0px 0px 0px' });
for (const id of links.keys()) watcher.observe(document.getElementById(id));
new ResizeObserver(([{ target }]) => document.documentElement.style.setProperty('--top', `${target.offsetHeight}px`)).observe(document.getElementById('top'));
told.operations = String(operations.count);
const again = () => {
  readColours();
  for (const listener of view.listeners) listener();
  if (curves.shown) curves.drawAll();
  if (chains.shown) chains.drawAll();
  if (overview.shown) overview.drawBars();
};
again();
addEventListener('resize', again);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { again(); });
told.ready = '1';
