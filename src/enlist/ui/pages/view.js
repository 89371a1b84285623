// A view: state, figures, and parts with text, tables and charts, updated in place.

import {ago, ask, bar, chip, el, link, local, roughly} from './dom.js';
import {chart} from './charts.js';
import {follow} from './live.js';

const UNITS = /\b(min|s|h|d|x|[kMG]B)\b/g;
const VERDICTS = {reproduced: 'finished', partly: 'stalled', 'not reproduced': 'failed'};
const MOST_LINKS = 10, WIDE = 11, MANY = 5;

export function view(main, path) {
  const title = el('h1', {}, 'Loading …'), state = el('div', {class: 'state', 'aria-live': 'polite'});
  const lead = el('p', {class: 'lead'}), figures = el('dl', {class: 'figures'});
  const links = el('div', {class: 'tools'}), form = el('div', {}), parts = el('div', {id: 'parts'});
  const contents = el('nav', {class: 'contents', 'aria-label': 'Parts of this page'});
  const shown = new Map();
  let asked = null, before = {};

  main.replaceChildren(title, state, lead, figures, el('div', {class: 'bar'}, links, form), contents, parts);

  const rest = () => `${path}${location.search}`;

  async function refresh() {
    let content;
    try {
      content = await ask(`/data/${rest()}`);
    } catch (error) {
      if (!asked) title.textContent = 'Not found';
      lead.textContent = error.message;
      return;
    }
    if (asked === rest() + content.version) return;
    asked = rest() + content.version;
    title.textContent = content.title;
    document.title = `${content.title} · Enlist`;
    changed('state', content.state, () => state.replaceChildren(...standing(content.state)));
    lead.textContent = content.lead;
    changed('links', [content.links, content.kind], () => links.replaceChildren(...further(content)));
    changed('form', content.data, () => ask_form(content));
    changed('figures', content.figures, () => figures.replaceChildren(...content.figures.map(figure)));
    const first = !shown.size;
    arrange(content);
    if (first) reveal();
  }

  function changed(name, value, make) {
    const text = JSON.stringify([name, value, location.search]);
    if (before[name] === text) return;
    before[name] = text;
    make();
  }

  function standing(now) {
    const found = [now.state ? chip(now.state) : null];
    if (now.state !== 'finished') found.push(bar(now.progress));
    if (now.state === 'running' && now.left !== null && now.left !== undefined) {
      found.push(el('span', {}, `about ${roughly(now.left)} left`));
    }
    if (now.since) found.push(ago(now.since, now.state === 'stalled' ? 'for ' : 'written ', now.state === 'stalled' ? '' : ' ago'));
    if (now.why) found.push(el('span', {class: 'why'}, now.why));
    return found.filter(Boolean);
  }

  function further(content) {
    const made = ['run', 'federation', 'compare', 'personal', 'ladder'].includes(content.kind) && content.state.state !== 'damaged'
      ? [el('a', {class: 'button', href: `/report/${rest()}`, download: ''}, 'Make a report')] : [];
    return [...made, ...content.links.map(each => link(each.text, each.to, {class: 'button'}))];
  }

  function figure(each) {
    const value = each.since ? ago(each.since) : each.value;
    return el('div', {class: each.state || null}, el('dt', {}, each.name),
      el('dd', {}, value, each.note ? el('span', {class: 'small'}, each.note) : null));
  }

  // The parameters of the address can be changed here: client and round, or methods and target.
  function ask_form(content) {
    const data = content.data ?? {};
    const typed = [...form.querySelectorAll('input:not([type=checkbox])')].filter(each => each.value !== each.defaultValue);
    const focus = form.contains(document.activeElement) ? document.activeElement : null;
    // A round that ends while someone is typing must not overwrite the input.
    if (typed.length && before.asked === location.search) { before.form = null; return; }
    before.asked = location.search;
    if (data.rounds?.length && data.id) form.replaceChildren(question(content, data));
    else if (data.methods) form.replaceChildren(choice(data));
    else form.replaceChildren();
    if (focus) [...form.querySelectorAll(focus.tagName)].find(each => alike(each, focus))?.focus();
  }

  function alike(one, other) {
    return ['name', 'value', 'aria-label'].every(name => name === 'value' && one.type !== 'checkbox'
      || one.getAttribute(name) === other.getAttribute(name));
  }

  function number(name, label, value, least, most) {
    return el('label', {}, el('span', {}, label),
      el('input', {name, type: name === 'client' ? 'text' : 'number', value: value ?? '', min: least, max: most, maxlength: 200,
        inputmode: name === 'client' ? null : 'numeric', required: name === 'client'}));
  }

  function question(content, data) {
    const [first, last] = data.rounds;
    const move = step => {
      const next = Math.min(last, Math.max(first, (data.round ?? last) + step));
      go({round: next});
    };
    const fields = el('form', {class: 'tools question', onsubmit: event => {
      event.preventDefault();
      const given = new FormData(fields);
      const client = String(given.get('client') ?? '').trim(), round = String(given.get('round') ?? '').trim();
      if (content.kind !== 'client' && client) {
        location.assign(`/client/${data.id.split('/').map(encodeURIComponent).join('/')}?${new URLSearchParams({client, ...(round ? {round} : {})})}`);
      } else go({client, round});
    }},
    number('client', content.kind === 'client' ? 'Client' : 'Why was client', data.client ?? '', null, null),
    number('round', content.kind === 'client' ? 'Round' : '(not) chosen in round', data.round, first, last),
    el('button', {type: 'submit'}, content.kind === 'client' ? 'Show' : 'Ask'),
    el('span', {class: 'pair'},
      el('button', {type: 'button', onclick: () => move(-1), disabled: data.round <= first, 'aria-label': 'Previous round'}, '‹'),
      el('button', {type: 'button', onclick: () => move(1), disabled: data.round >= last, 'aria-label': 'Next round'}, '›')));
    if (content.kind !== 'client') fields.querySelector('[name=client]').required = false;
    return fields;
  }

  function choice(data) {
    const wanted = new Set(data.shown);
    const target = el('input', {name: 'target', type: 'number', step: 'any', min: 0, value: data.target ?? '', placeholder: 'from the runs'});
    const boxes = data.methods.map(name => {
      const box = el('input', {type: 'checkbox', value: name});
      box.checked = wanted.has(name);
      return el('label', {class: 'box'}, box, ' ', name);
    });
    const fields = el('form', {class: 'tools', onsubmit: event => {
      event.preventDefault();
      const query = new URLSearchParams(location.search);
      query.delete('method');
      query.delete('target');
      const kept = [...fields.querySelectorAll('[type=checkbox]:checked')].map(box => box.value);
      if (kept.length < data.methods.length) for (const name of kept) query.append('method', name);
      if (target.value) query.set('target', target.value);
      go(query);
    }}, el('fieldset', {}, el('legend', {}, 'Methods'), ...boxes),
    el('label', {}, el('span', {}, 'Target'), target), el('button', {type: 'submit'}, 'Show'));
    return fields;
  }

  function go(values) {
    const query = values instanceof URLSearchParams ? values : new URLSearchParams(location.search);
    if (!(values instanceof URLSearchParams)) {
      for (const [name, value] of Object.entries(values)) if (value) query.set(name, value); else query.delete(name);
    }
    const text = String(query);
    history.pushState(null, '', `${location.pathname}${text ? `?${text}` : ''}`);
    for (const each of shown.values()) for (const one of each.charts.values()) one.address = `/chart/${one.name}/${rest()}`;
    asked = null;
    refresh();
  }

  addEventListener('popstate', () => { asked = null; refresh(); });
  addEventListener('hashchange', reveal);

  // The part named after # in the address; opened if folded.
  function reveal() {
    const node = [...parts.children].find(each => each.id && `#${each.id}` === location.hash);
    if (!node) return;
    if (node.tagName === 'DETAILS') node.open = true;
    node.scrollIntoView();
  }

  function listed(all) {
    const some = all.length > MOST_LINKS ? all.filter(part => !part.folded) : all;
    const places = some.map(part => [parts.children[all.indexOf(part)].id, part.heading]);
    changed('contents', places, () => contents.replaceChildren(...(some.length < 3 ? []
      : places.map(([id, heading]) => el('a', {href: `#${id}`}, heading)))));
  }

  function arrange(content) {
    const names = new Set();
    content.parts.forEach((part, place) => {
      const key = `${place} ${part.charts.join(' ')} ${part.folded}`;
      names.add(key);
      if (!shown.has(key)) shown.set(key, section(part));
      shown.get(key).update(part, content.version);
      const node = shown.get(key).node;
      if (parts.children[place] !== node) parts.insertBefore(node, parts.children[place] ?? null);
    });
    for (const [key, each] of shown) {
      if (names.has(key)) continue;
      each.node.remove();
      for (const one of each.charts.values()) one.close();
      shown.delete(key);
    }
    content.parts.forEach((part, place) => { // a heading changes with every round, so it cannot serve as a key
      const name = part.csv || part.charts[0] || part.heading.toLowerCase().replace(/[^a-z0-9]+/g, '-');
      const again = content.parts.findIndex(each => each.csv === part.csv) < place && part.csv;
      parts.children[place].id = again ? `${name}-${place}` : name;
    });
    listed(content.parts);
  }

  function section(part) {
    const heading = el('h2', {}), text = el('div', {}), table = el('div', {}), note = el('p', {class: 'note'});
    const plots = el('div', {class: 'charts'});
    const charts = new Map(part.charts.map(name => [name, chart(`/chart/${name}/${rest()}`, name)]));
    plots.append(...[...charts.values()].map(each => each.node));
    const inside = [text, plots, table, note];
    const node = part.folded
      ? el('details', {class: 'part'}, el('summary', {}, heading), ...inside) : el('section', {class: 'part'}, heading, ...inside);
    let old = '';
    return {
      node, charts,
      update(next, version) {
        for (const each of charts.values()) each.update(version);
        const now = JSON.stringify(next);
        if (now === old) return;
        old = now;
        heading.textContent = next.heading;
        node.classList.toggle('beside', !part.folded && next.text.length >= MANY && charts.size === 1);
        text.replaceChildren(...next.text.map(line => el('p', {}, line.replace(/(\d) (?=%)/g, '$1\u00a0'))),
          ...(next.pictures.length ? [el('div', {class: 'pictures'}, ...next.pictures.map(picture))] : []));
        const place = table.contains(document.activeElement) ? [...table.querySelectorAll('a, button')].indexOf(document.activeElement) : -1;
        table.replaceChildren(...(next.table ? [tabled(next)] : []), ...(next.csv ? [save(next.csv)] : []));
        if (place >= 0) table.querySelectorAll('a, button')[place]?.focus();
        note.textContent = next.note;
        note.hidden = !next.note;
      },
    };
  }

  function save(name) {
    return el('a', {class: 'csv', href: `/table/${name}/${rest()}`, download: ''}, `CSV: ${name}`);
  }

  function picture(each) {
    return el('figure', {class: 'picture'}, el('img', {src: each.to, alt: each.title, loading: 'lazy'}),
      el('figcaption', {}, each.title, ' ', ...[['PNG', each.to], ['SVG', each.svg]].filter(([, to]) => local(to)).map(([kind, to]) =>
        el('a', {class: 'button', href: to, download: `${each.name}.${kind.toLowerCase()}`, 'aria-label': `${kind} of ${each.title}`}, kind))));
  }

  function tabled(part) {
    const {columns, rows, total} = part.table;
    const numeric = columns.map((_, place) => place > 0 && rows.length > 0 && rows.every(row => number_like(words(row[place]))));
    const head = columns.map((name, place) => el('th', {scope: 'col', class: numeric[place] ? 'number' : null}, words(name)));
    const lines = rows.map(row => el('tr', {}, ...row.map((value, place) => el(place ? 'td' : 'th',
      {scope: place ? null : 'row', class: numeric[place] ? 'number' : words(value).length > 40 ? 'long' : null, 'data-title': words(columns[place])},
      typeof value === 'object' && value !== null ? link(value.text, value.to) : words(columns[place]) === 'verdict' ? verdict(words(value)) : words(value)))));
    return el('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': part.heading},
      el('table', {class: columns.length > WIDE ? 'wide' : null}, el('thead', {}, el('tr', {}, ...head)), el('tbody', {}, ...lines)),
      total > rows.length ? el('p', {class: 'note'}, `${rows.length} of ${total} rows; the CSV has all.`) : null);
  }

  // Numbers with units, intervals and bounds are right-aligned.
  function number_like(text) {
    return text.length < 32 && /\d|^–?$/.test(text) && !/\p{L}/u.test(text.replace(UNITS, ''));
  }

  function verdict(text) {
    return el('span', {class: `chip ${Object.hasOwn(VERDICTS, text) ? VERDICTS[text] : ''}`}, text);
  }

  function words(value) {
    return typeof value === 'object' && value !== null ? value.text : String(value ?? '');
  }

  const ids = path === 'compare' ? new URLSearchParams(location.search).getAll('of')
    : [decodeURIComponent(path.slice(path.indexOf('/') + 1))];
  follow(ids, refresh);
  return refresh();
}
