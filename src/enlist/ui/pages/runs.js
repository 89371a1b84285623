// The overview: all runs and groups, filtered, sorted and grouped, with some chosen.

import {ago, ask, bar, chip, duration, el, link, roughly, score, svg} from './dom.js';
import {follow} from './live.js';
import {shown} from './theme.js';

const COLUMNS = [
  ['name', 'run'], ['state', 'state'], ['progress', 'progress'], ['method', 'method'], ['data', 'data'],
  ['seed', 'seed'], ['last', 'accuracy'], ['time_to', 'time to target'], ['since', 'written'],
];
const NUMBERS = ['seed', 'last', 'time_to', 'since'];
const MANY = 25;

export function runs(main) {
  const query = new URLSearchParams(location.search);
  const chosen = new Set(query.getAll('of'));
  const opened = new Set();
  let last = null;

  const search = el('input', {type: 'search', id: 'q', value: query.get('q') ?? '', placeholder: 'name, method, data …',
    'aria-label': 'Filter by text', autocomplete: 'off', maxlength: 200});
  const kind = select('kind', 'Kind'), state = select('state', 'State'), group = select('group', 'Group by');
  const compare = el('a', {class: 'button', role: 'button'}, 'Compare');
  const clear = el('button', {type: 'button', onclick: () => { chosen.clear(); changed(); }}, 'Clear');
  const said = el('p', {class: 'quiet', role: 'status'}, 'Loading …');
  const counts = el('div', {class: 'figures', id: 'counts'});
  const body = el('tbody', {});
  const head = el('tr', {});
  const table = el('table', {class: 'runs'}, el('caption', {class: 'hidden'}, 'Runs in the folders'),
    el('thead', {}, head), body);

  main.replaceChildren(
    el('h1', {}, 'Runs'), counts,
    el('div', {class: 'tools'}, el('label', {class: 'grow'}, el('span', {}, 'Filter'), search),
      labelled('Kind', kind), labelled('State', state), labelled('Group by', group)),
    el('div', {class: 'tools'}, compare, clear, said, el('a', {class: 'csv', href: '/table/runs/runs'}, 'CSV')),
    el('div', {class: 'scroll'}, table));

  let timer = null;
  search.addEventListener('input', () => { clearTimeout(timer); timer = setTimeout(changed, 200); });
  for (const each of [kind, state, group]) each.addEventListener('change', changed);
  document.addEventListener('keydown', event => {
    if (event.key === '/' && !/^(input|select|textarea)$/i.test(event.target.tagName)) {
      event.preventDefault();
      search.focus();
    }
  });

  function select(name, label) {
    return el('select', {id: name, 'aria-label': label, 'data-wanted': query.get(name) ?? ''});
  }

  function labelled(text, node) { return el('label', {}, el('span', {}, text), node); }

  function written() {
    const found = new URLSearchParams();
    for (const [name, value] of [['q', search.value.trim()], ['kind', kind.value || kind.dataset.wanted],
      ['state', state.value || state.dataset.wanted], ['group', group.value || group.dataset.wanted],
      ['sort', query.get('sort')], ['down', query.get('down')]]) {
      if (value) found.set(name, value);
    }
    return found;
  }

  function changed() {
    for (const each of [kind, state, group]) each.dataset.wanted = each.value;
    refresh();
  }

  function remember(asked) {
    const address = new URLSearchParams(asked);
    for (const id of chosen) address.append('of', id);
    const text = String(address);
    history.replaceState(null, '', text ? `/?${text}` : '/');
  }

  async function refresh() {
    const asked = written();
    remember(asked);
    try {
      last = await ask(`/data/runs?${asked}`);
    } catch (error) {
      said.textContent = error.message;
      return;
    }
    options(kind, last.known.kinds.filter(name => last.kinds[name]), 'all kinds', last.kinds);
    options(state, last.known.states.filter(name => last.states[name]), 'all states', last.states);
    options(group, last.keys, 'nothing');
    show();
  }

  function options(node, names, none, numbers) {
    const wanted = node.dataset.wanted;
    const all = wanted && !names.includes(wanted) ? [wanted, ...names] : names;
    const text = JSON.stringify([all, numbers]);
    if (node.dataset.text !== text) {
      node.replaceChildren(el('option', {value: ''}, none),
        ...all.map(name => el('option', {value: name}, numbers ? `${name} (${numbers[name] ?? 0})` : name)));
      node.dataset.text = text;
    }
    node.value = wanted;
  }

  function show() {
    const sort = query.get('sort') ?? 'name', down = query.get('down') === '1';
    const holder = document.activeElement?.closest?.('tr')?.dataset.id;
    const place = document.activeElement?.dataset?.place;
    head.replaceChildren(el('th', {scope: 'col'}, el('span', {class: 'hidden'}, 'choose')), ...COLUMNS.map(([name, title]) =>
      el('th', {scope: 'col', class: NUMBERS.includes(name) ? 'number' : null, 'aria-sort': sort === name ? (down ? 'descending' : 'ascending') : 'none'},
        el('button', {type: 'button', onclick: () => sorted(name)}, title))));
    const parents = new Set(last.rows.map(row => row.id));
    const plain = !written().has('q') && !group.value && sort === 'name';
    const many = last.rows.length > MANY;
    const hidden = row => {
      if (!plain || !many) return false;
      for (let id = row.parent; id && parents.has(id); id = last.rows.find(each => each.id === id)?.parent) {
        if (!opened.has(id)) return true;
      }
      return false;
    };
    const rows = [];
    let before = null;
    for (const row of last.rows) {
      if (group.value && row.group !== before) {
        before = row.group;
        rows.push(el('tr', {class: 'group'}, el('th', {colspan: COLUMNS.length + 1, scope: 'rowgroup'},
          `${group.value} = ${row.group}`)));
      }
      if (!hidden(row)) rows.push(line(row, plain && many));
    }
    body.replaceChildren(...rows);
    if (!rows.length) {
      const none = last.total ? 'Nothing matches the filter.' : 'There are no runs in the folders yet; they will appear here.';
      body.replaceChildren(el('tr', {}, el('td', {colspan: COLUMNS.length + 1, class: 'quiet'}, none)));
    }
    if (holder && place) body.querySelector(`tr[data-id="${CSS.escape(holder)}"] [data-place="${place}"]`)?.focus();
    const more = last.found > last.shown ? ` The first ${last.shown} of them are shown.` : '';
    said.textContent = `${last.found} of ${last.total} found.${more}${last.cut ? ' There are more folders than can be shown.' : ''}`;
    count_states();
    for (const id of chosen) if (!last.rows.some(row => row.id === id) && !last.total) chosen.delete(id);
    const ids = [...chosen];
    compare.textContent = ids.length ? `Compare ${ids.length} chosen` : 'Choose runs to compare';
    if (ids.length) compare.href = `/compare?${new URLSearchParams(ids.map(id => ['of', id]))}`;
    else compare.removeAttribute('href');
    compare.setAttribute('aria-disabled', String(!ids.length));
    clear.hidden = !ids.length;
    document.title = last.states.running ? `${last.states.running} running · Enlist` : 'Enlist';
  }

  // The number in each state; a click shows only these, another click shows all again.
  function count_states() {
    const held = counts.contains(document.activeElement) ? document.activeElement.dataset.state : null;
    counts.replaceChildren(...last.known.states.filter(name => last.states[name]).map(name =>
      el('button', {type: 'button', 'data-state': name, 'aria-pressed': String(state.value === name), onclick: () => {
        state.value = state.value === name ? '' : name;
        changed();
      }}, chip(name), ' ', el('b', {}, String(last.states[name])))));
    if (held) counts.querySelector(`[data-state=${held}]`)?.focus();
  }

  function sorted(name) {
    const same = (query.get('sort') ?? 'name') === name;
    query.set('down', same && query.get('down') !== '1' ? '1' : '0');
    if (query.get('down') === '0') query.delete('down');
    query.set('sort', name);
    refresh();
  }

  function line(row, folding) {
    const box = ['study', 'personal'].includes(row.kind) ? null : el('input', {type: 'checkbox', 'data-place': 'box',
      'aria-label': `Choose ${row.name}`, onchange: event => {
        if (event.target.checked) chosen.add(row.id); else chosen.delete(row.id);
        remember(written());
        show();
      }});
    if (box) box.checked = chosen.has(row.id);
    const depth = folding || (!group.value && row.parent) ? (row.parent ? 1 : 0) : 0;
    const fold = folding && row.runs ? el('button', {type: 'button', class: 'fold', 'data-place': 'fold',
      'aria-expanded': String(opened.has(row.id)), 'aria-label': `Runs of ${row.name}`, onclick: () => {
        if (opened.has(row.id)) opened.delete(row.id); else opened.add(row.id);
        show();
      }}, opened.has(row.id) ? '▾' : '▸') : null;
    const inside = row.runs && row.kind !== 'study' ? `${count(row.runs, 'run')}, ${count(row.methods, 'method')}` : '';
    const rounds = row.of ? `${row.rounds} of ${row.of}` : `${row.rounds}`;
    const work = row.planned ? `${row.done} of ${count(row.planned, row.kind === 'study' ? 'experiment' : 'run')}`
      : row.rounds ? `${rounds} ${row.rounds === 1 && !row.of ? 'round' : 'rounds'}` : '';
    const left = row.state === 'running' && row.left !== null ? `, ${roughly(row.left)} left` : '';
    return el('tr', {'data-id': row.id, class: depth ? 'inner' : ''},
      el('td', {class: 'pick'}, box),
      el('th', {scope: 'row', class: 'name', 'data-title': 'run'}, fold, link(short(row), row.to, {'data-place': 'name', title: row.name}), ' ',
        el('span', {class: 'kind'}, row.kind)),
      el('td', {'data-title': 'state', title: row.why || null}, chip(row.state),
        row.why && row.state !== 'finished' ? el('span', {class: 'why'}, row.why) : null),
      el('td', {'data-title': 'progress'}, row.state === 'finished' ? null : bar(row.progress),
        work ? el('span', {class: row.state === 'finished' ? 'quiet' : 'small'}, `${work}${left}`) : null),
      el('td', {'data-title': row.method ? 'method' : 'holds'}, row.method ? dot(row) : null, row.method || inside),
      el('td', {'data-title': 'data'}, row.data),
      el('td', {'data-title': 'seed', class: 'number'}, row.seed ?? ''),
      el('td', {'data-title': measured(row), class: 'number'},
        ...(row.last === undefined || row.last === null ? [] : [
          row.measure === 'accuracy' ? null : el('span', {class: 'kind'}, `${measured(row)} `),
          spark(row), ' ', el('span', {class: 'value'}, whole(score(row.last, row.measure)))])),
      el('td', {'data-title': 'to target', class: 'number'}, row.time_to ? whole(duration(row.time_to)) : ''),
      el('td', {'data-title': 'written', class: 'number'}, row.since ? ago(row.since) : ''));
  }

  addEventListener('theme', () => { if (last) show(); });
  follow([], refresh);
  return refresh();
}

// Keep a number and its unit on one line.
function whole(text) {
  return text.replaceAll(' ', '\u00a0');
}

function measured(row) {
  return row.measure === 'auc' ? 'AUC' : row.measure ?? 'accuracy';
}

function count(number, name) {
  return `${number} ${name}${number === 1 ? '' : 's'}`;
}

function short(row) {
  return row.parent ? row.name.slice(row.parent.length + 1).replace(/^runs\//, '') : row.name;
}

// Beyond eight methods, colours repeat with dashed or dotted lines and other shapes of marks.
const DASHES = [null, '4.5 2', '1.5 1.5'];
const SHAPES = [() => svg('circle', {cx: 5, cy: 5, r: 4.5}), () => svg('rect', {x: 1, y: 1, width: 8, height: 8}),
  () => svg('path', {d: 'M5 0.6 L9.7 9.2 L0.3 9.2 Z'})];

function dot(row) {
  const mark = svg('svg', {viewBox: '0 0 10 10', class: 'dot', 'aria-hidden': 'true'}, (SHAPES[row.dash] ?? SHAPES[0])());
  if (/^#[0-9a-f]{6}$/.test(row.colour)) mark.firstChild.setAttribute('fill', shown(row.colour));
  return mark;
}

function spark(row) {
  const values = row.spark ?? [];
  if (values.length < 2) return null;
  const low = Math.min(...values), high = Math.max(...values), wide = 84, tall = 22;
  const points = values.map((value, place) =>
    `${(place * wide / (values.length - 1)).toFixed(1)},${(tall - 2 - (tall - 4) * (value - low) / (high - low || 1)).toFixed(1)}`);
  const line = svg('polyline', {points: points.join(' '), fill: 'none', 'stroke-width': 1.6, 'stroke-dasharray': DASHES[row.dash] ?? null});
  if (/^#[0-9a-f]{6}$/.test(row.colour)) line.setAttribute('stroke', shown(row.colour));
  return svg('svg', {viewBox: `0 0 ${wide} ${tall}`, class: 'spark', role: 'img',
    'aria-label': `${row.measure} from ${score(values[0], row.measure)} to ${score(values.at(-1), row.measure)}`}, line);
}
