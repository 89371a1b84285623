// The page for an address.

import {el, keepTime, link} from './dom.js';
import {redraw} from './charts.js';
import {runs} from './runs.js';
import {setUp} from './theme.js';
import {view} from './view.js';

const main = document.getElementById('main');
setUp(document.getElementById('theme'), () => { redraw(); dispatchEvent(new Event('theme')); });
keepTime();

const path = location.pathname.slice(1);
const where = document.getElementById('path');
if (!path) {
  where.append(el('span', {'aria-current': 'page'}, 'all runs'));
  runs(main);
} else {
  where.append(link('all runs', '/'), ' / ', el('span', {'aria-current': 'page'}, decodeURIComponent(path)));
  view(main, path);
}
