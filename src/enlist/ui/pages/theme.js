// Light and dark. Charts are specified once, for a light page; in dark mode their inks are replaced.

import {DARK} from './colours.js';

const INK = {
  ...DARK, // of methods, as chosen in enlist.report.charts
  '#222': '#e8ebef', '#333': '#dde2e8', '#444': '#c3cad3', '#555': '#aab3bf', '#666': '#9aa4b1', '#999': '#7d8896',
  '#eee': '#2b333d', white: '#171c22', '#b85c0a': '#f0a868', '#c8443d': '#e8695f',
};
const HEAT = '#f4f7f9';
const PAPER = 0x17, LEGIBLE = 3;

function luminance(parts) {
  const [red, green, blue] = parts.map(part => part / 255).map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

// A method's colour, bright enough to be visible on a dark page.
function legible(colour) {
  const known = INK[colour] ?? colour;
  if (!/^#[0-9a-f]{6}$/i.test(known)) return known;
  let parts = [1, 3, 5].map(place => parseInt(known.slice(place, place + 2), 16));
  const least = LEGIBLE * (luminance([PAPER, PAPER + 5, PAPER + 11]) + 0.05) - 0.05;
  for (let step = 0; step < 20 && luminance(parts) < least; step++) parts = parts.map(part => Math.round(part + 0.1 * (255 - part)));
  return `#${parts.map(part => part.toString(16).padStart(2, '0')).join('')}`;
}

// A method's colour on this page.
export function shown(colour) {
  return dark() ? legible(colour) : colour;
}

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
  if ('condition' in value && !('selection' in value)) return value; // ink on coloured cells depends on the cells
  const found = {};
  for (const [name, inner] of Object.entries(value)) {
    found[name] = name === 'values' || name === 'datasets' || name === 'domain' ? inner : themed(inner);
  }
  if (value.type === 'nominal' && Array.isArray(value.scale?.range)) {
    found.scale = {...found.scale, range: value.scale.range.map(each => typeof each === 'string' ? legible(each) : each)};
  }
  return found;
}

// Vega's defaults would be black.
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
  } catch { /* without storage, follow the system */ }
  const tell = () => { button.textContent = dark() ? 'Light' : 'Dark'; };
  tell();
  button.addEventListener('click', () => {
    const next = dark() ? 'light' : 'dark';
    document.documentElement.dataset.theme = next;
    try { localStorage.setItem('enlist-theme', next); } catch { /* then it lasts for this page only */ }
    tell();
    changed();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { tell(); changed(); });
}
