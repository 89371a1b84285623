// Light and dark. Charts are specified once, for a light page; in the dark their inks are exchanged.

const INK = {
  '#222': '#e8ebef', '#333': '#dde2e8', '#444': '#c3cad3', '#555': '#aab3bf', '#666': '#9aa4b1', '#999': '#7d8896',
  '#eee': '#2b333d', white: '#171c22', '#2b2d42': '#e8ebef', '#b85c0a': '#f0a868',
  '#0b6e99': '#2f9fd0', '#5b2a86': '#a578e0', '#7b3f00': '#c07a45', '#b8336a': '#e0709f', '#c8443d': '#e8695f',
};
const HEAT = '#f4f7f9';

export function dark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
}

export function themed(value) {
  if (typeof value === 'string') return INK[value] ?? value;
  if (Array.isArray(value)) {
    const inner = value[0] === HEAT ? [...value].reverse() : value;
    return inner.map(themed);
  }
  if (value === null || typeof value !== 'object') return value;
  if ('condition' in value && !('selection' in value)) return value; // ink on coloured cells goes with the cells
  const found = {};
  for (const [name, inner] of Object.entries(value)) {
    found[name] = name === 'values' || name === 'datasets' || name === 'domain' ? inner : themed(inner);
  }
  return found;
}

// What a specification leaves to Vega would be black.
export function darkened(spec) {
  const found = themed(spec), config = found.config ?? {}, ink = INK['#222'], soft = INK['#444'];
  const labels = {labelColor: soft, titleColor: ink};
  found.config = {
    ...config, background: null,
    axis: {...config.axis, ...labels, domainColor: INK['#999'], tickColor: INK['#999']},
    legend: {...config.legend, ...labels}, header: {...config.header, ...labels}, title: {...config.title, color: ink},
    text: {...config.text, color: soft},
  };
  return found;
}

export function setUp(button, changed) {
  try {
    const kept = localStorage.getItem('enlist-theme');
    if (kept === 'light' || kept === 'dark') document.documentElement.dataset.theme = kept;
  } catch { /* a browser that keeps nothing follows the system */ }
  const tell = () => { button.textContent = dark() ? 'Light' : 'Dark'; };
  tell();
  button.addEventListener('click', () => {
    const next = dark() ? 'light' : 'dark';
    document.documentElement.dataset.theme = next;
    try { localStorage.setItem('enlist-theme', next); } catch { /* then only for this page */ }
    tell();
    changed();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { tell(); changed(); });
}
