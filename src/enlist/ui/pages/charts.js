// Charts: fetched and drawn when they scroll into view, redrawn when their data change.

import {ask, el} from './dom.js';
import {dark, darkened} from './theme.js';

const OPTIONS = {
  mode: 'vega-lite', ast: true, actions: false, renderer: 'svg', defaultStyle: false,
  tooltip: {disableDefaultStyle: true, theme: 'custom'},
  // Charts carry their data; nothing is ever loaded.
  loader: {load: () => Promise.reject(new Error('charts load nothing')),
    sanitize: () => Promise.reject(new Error('charts link nowhere')), http: null, file: null},
};
const AXES = 84;
const known = new Map();
let library = null;

function vega() {
  library ??= new Promise((resolve, reject) => {
    const script = el('script', {src: '/pages/vega.js'});
    script.addEventListener('load', () => resolve(window.vegaEmbed));
    script.addEventListener('error', () => reject(new Error('the chart library cannot be loaded.')));
    document.head.append(script);
  });
  return library;
}

const seen = new IntersectionObserver(entries => {
  for (const entry of entries) {
    const chart = known.get(entry.target);
    if (!chart) continue;
    chart.visible = entry.isIntersecting;
    if (chart.visible) chart.refresh();
  }
}, {rootMargin: '200px'});

// The approximate width of a chart as specified.
function natural(spec) {
  const inner = spec.spec?.width ?? spec.width;
  if (spec.hconcat) return spec.hconcat.reduce((sum, each) => sum + natural(each), 0);
  return typeof inner === 'number' ? (inner + 30) * (spec.spec ? spec.columns ?? 1 : 1) + AXES - 30 : 0;
}

const kind = chart => chart.mark?.type ?? chart.mark;

// Charts are made for a wide page; on a narrow one plots shrink, and panels are stacked.
function fitted(spec, room) {
  const found = {...spec};
  if (found.spec) {
    const inner = found.spec.width;
    if (typeof inner === 'number' && inner * (found.columns ?? 1) + AXES > room) {
      const columns = Math.max(1, Math.min(found.columns ?? 1, Math.floor(room / (inner + AXES / 2))));
      found.columns = columns;
      found.spec = {...found.spec, width: Math.max(160, Math.min(inner, Math.floor(room / columns) - AXES - 40))};
    }
  } else if (typeof found.width === 'number' && found.width + AXES > room) {
    found.width = Math.max(170, room - AXES - 10);
    // Numbers would overlap in narrow cells; colours and tooltips still show them.
    if (found.width < 0.6 * spec.width && found.layer?.some(each => kind(each) === 'rect')) {
      found.layer = found.layer.filter(each => kind(each) !== 'text');
    }
  }
  return room < 480 ? narrowed(found) : found;
}

function narrowed(value) {
  if (Array.isArray(value)) return value.map(narrowed);
  if (value === null || typeof value !== 'object') return value;
  const found = {};
  for (const [name, inner] of Object.entries(value)) {
    if (name === 'values' || name === 'datasets') found[name] = inner;
    else if (name === 'legend' && inner && inner.orient === 'top') found[name] = {...inner, columns: 2};
    else if (name === 'tickCount' && inner > 4) found[name] = 4;
    else if (name === 'labelAngle' && inner < 0) found[name] = -90; // slanted names of narrow columns would overlap
    else found[name] = narrowed(inner);
  }
  return found;
}

class Chart {
  constructor(address, name) {
    this.address = address;
    this.version = null;
    this.drawn = null;
    this.visible = false;
    this.spec = null;
    this.busy = false;
    this.plot = el('div', {class: 'plot', role: 'img', 'aria-label': name.replaceAll('-', ' ')},
      el('span', {class: 'quiet'}, 'Drawing …'));
    this.caption = el('figcaption', {hidden: true},
      el('button', {type: 'button', onclick: () => this.save('png')}, 'PNG'),
      el('button', {type: 'button', onclick: () => this.save('svg')}, 'SVG'));
    this.node = el('figure', {class: 'chart', 'data-chart': name}, this.plot, this.caption);
    known.set(this.node, this);
    seen.observe(this.node);
    this.name = name;
  }

  update(version) {
    this.version = version;
    if (this.visible) this.refresh();
  }

  async refresh() {
    if (this.busy || this.drawn === this.version) return;
    this.busy = true;
    const version = this.version;
    try {
      const answer = await ask(this.address);
      if (!answer.spec) {
        this.spec = null;
        this.say(answer.empty ?? 'Nothing to draw yet.');
      } else {
        this.spec = answer.spec;
        await this.draw();
      }
      this.drawn = version;
    } catch (error) {
      this.say(`This chart cannot be drawn: ${error.message}`);
      this.drawn = version;
    } finally {
      this.busy = false;
    }
    if (this.drawn !== this.version && this.visible) this.refresh();
  }

  say(text) {
    this.caption.hidden = true;
    this.node.classList.add('said');
    this.plot.replaceChildren(el('span', {class: 'quiet'}, text));
  }

  async draw() {
    if (!this.spec) return;
    const embed = await vega();
    this.node.classList.remove('wide');
    const column = this.node.clientWidth || 500;
    const whole = this.node.parentElement?.clientWidth ?? column;
    const wide = natural(this.spec) > column && whole > column;
    this.node.classList.toggle('wide', wide);
    const room = wide ? whole : column;
    const place = el('div', {});
    const spec = fitted(dark() ? darkened(this.spec) : this.spec, room);
    const result = await embed(place, spec, OPTIONS);
    this.view?.finalize();
    this.view = result.view;
    const title = typeof this.spec.title === 'string' ? this.spec.title : this.spec.title?.text;
    if (title) this.plot.setAttribute('aria-label', `Chart: ${[title].flat().join(' ')}`);
    this.plot.replaceChildren(place);
    this.caption.hidden = false;
    this.node.dataset.drawn = String(Number(this.node.dataset.drawn ?? 0) + 1);
  }

  // Saved pictures look as in the report: light, and as wide as specified.
  async save(kind) {
    const embed = await vega();
    const result = await embed(el('div', {}), this.spec, OPTIONS);
    const url = await result.view.toImageURL(kind, 2);
    result.view.finalize();
    const stem = `${document.title} ${this.name}`.toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/^-|-$/g, '');
    const anchor = el('a', {href: url, download: `${stem}.${kind}`});
    document.body.append(anchor);
    anchor.click();
    anchor.remove();
    if (url.startsWith('blob:')) setTimeout(() => URL.revokeObjectURL(url), 10000);
  }

  close() {
    seen.unobserve(this.node);
    known.delete(this.node);
    this.view?.finalize();
  }
}

export function chart(address, name) {
  return new Chart(address, name);
}

export function redraw() {
  for (const each of known.values()) if (each.spec) each.draw();
}

let width = innerWidth;
addEventListener('resize', () => {
  if (Math.abs(innerWidth - width) < 40) return;
  width = innerWidth;
  redraw();
});
