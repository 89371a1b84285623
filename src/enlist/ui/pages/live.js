// Changes: the server announces them, and the page requests what it shows.

const light = document.getElementById('live');

function tell(state, words) {
  if (light.dataset.state === state) return;
  light.dataset.state = state;
  light.textContent = words;
}

export function follow(ids, changed) {
  const query = new URLSearchParams(ids.map(id => ['of', id]));
  let waiting = false, again = false, source = null;

  async function run() {
    if (waiting) { again = true; return; }
    waiting = true;
    // Many pages may watch one run; they should not all ask at the same moment.
    await new Promise(resolve => setTimeout(resolve, 300 * Math.random()));
    try { await changed(); } catch { /* the page itself shows the error */ }
    waiting = false;
    if (again) { again = false; run(); }
  }

  function connect() {
    source = new EventSource(`/events?${query}`);
    source.addEventListener('hello', () => { tell('on', 'live'); run(); });
    source.addEventListener('change', run);
    source.addEventListener('error', () => tell('off', 'not connected'));
  }

  // A hidden page closes its connection.
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) { source?.close(); source = null; tell('off', 'paused'); } else if (!source) connect();
  });
  addEventListener('pagehide', () => source?.close());
  connect();
}
