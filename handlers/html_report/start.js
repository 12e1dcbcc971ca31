// ---- The page -----------------------------------------------------------------------------------------------------------

readColours();
const sections = { timeline, memory, graph, operations: table, curves };
for (const [name, section] of Object.entries(sections)) {
  if (!section.shown) continue;
  document.getElementById(name).hidden = false;
  document.querySelector('nav').append(element('a', { href: `#${name}` }, part(name, 'h2').textContent));
  section.start();
}
const threads = new Set(lanes.thread).size, devices = new Set(lanes.device).size;
document.getElementById('totals').textContent = [counted(operations.count, 'operation'), counted(threads, 'thread'),
  counted(devices, 'device'), `${inUnits(data.end)} in all`, `at most ${inBytes(memory.peak)}`].join(', ');
told.operations = String(operations.count);
const again = () => {
  readColours();
  for (const listener of view.listeners) listener();
  if (curves.shown) curves.drawAll();
};
again();
addEventListener('resize', again);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { again(); });
told.ready = '1';
