// Elements with text: data always become text, never markup.

const SVG = 'http://www.w3.org/2000/svg';

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  node.append(...children.flat().filter(child => child !== null && child !== undefined && child !== ''));
  return node;
}

export function el(name, attributes, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function svg(name, attributes, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

// Only addresses of this server are followed.
export function local(address) {
  return typeof address === 'string' && /^\/(?![/\\])/.test(address) ? address : null;
}

export function link(text, address, attributes) {
  const to = local(address);
  return to ? el('a', {href: to, ...attributes}, text) : el('span', {}, text);
}

// Durations, formatted as in enlist.runs.printing.
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return '–';
  if (seconds < 59.95) return `${Number(seconds.toPrecision(3))} s`;
  for (const [above, big, name, small, rest] of [
    [3600, 60, 'min', 1, 's'], [86400, 3600, 'h', 60, 'min'], [Infinity, 86400, 'd', 3600, 'h']]) {
    const whole = Math.round(seconds / small) * small;
    if (whole >= above) continue;
    const left = Math.floor((whole % big) / small);
    return `${Math.floor(whole / big)} ${name}` + (left ? ` ${left} ${rest}` : '');
  }
  return '–';
}

export function roughly(seconds) {
  if (!Number.isFinite(seconds)) return '–';
  if (seconds < 60) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Number((seconds / 3600).toFixed(seconds < 36000 ? 1 : 0))} h`;
  return `${Math.round(seconds / 86400)} d`;
}

export function score(value, measure) {
  if (value === null || value === undefined) return '–';
  return measure === 'accuracy' ? `${(100 * value).toFixed(1)} %` : String(Number(value.toPrecision(3)));
}

export function since(time) {
  return time ? roughly(Date.now() / 1000 - time) : '–';
}

// Elements that say how long ago something was, kept up to date by a timer.
export function ago(time, before = '', after = ' ago') {
  return el('time', {datetime: new Date(time * 1000).toISOString(), 'data-time': time, 'data-before': before,
    'data-after': after, title: new Date(time * 1000).toLocaleString()}, `${before}${since(time)}${after}`);
}

export function keepTime() {
  setInterval(() => {
    for (const node of document.querySelectorAll('time[data-time]')) {
      const {time, before, after} = node.dataset;
      node.textContent = `${before}${since(Number(time))}${after}`;
    }
  }, 5000);
}

export async function ask(address) {
  const answer = await fetch(address, {headers: {Accept: 'application/json'}, credentials: 'same-origin'});
  const content = await answer.json().catch(() => ({error: `the server answered with ${answer.status}.`}));
  if (!answer.ok) throw new Error(content.error ?? `the server answered with ${answer.status}.`);
  return content;
}

export const STATES = {
  running: '●', finished: '✓', stalled: '◌', failed: '✕', damaged: '!', waiting: '…',
};

export function chip(state) {
  const known = state in STATES ? state : 'waiting';
  return el('span', {class: `chip ${known}`}, el('span', {'aria-hidden': 'true'}, STATES[known]), ' ', state);
}

export function bar(share, label) {
  if (share === null || share === undefined) return null;
  const percent = Math.round(100 * share);
  return el('progress', {max: 100, value: percent, 'aria-label': label ?? `${percent} % done`}, `${percent} %`);
}
