// The connection to the controller, and the selection: "#job=ID" in the address, or
// "#job=ID&with=ID,ID" to compare its curves.

let source = null;
let chosen = ''; // Id of the selected job; empty: none.
let isNew = false; // It was just selected, and is not shown yet.
let state = null; // The newest "cluster" event.
let detail = null; // The newest "job" event of the selected job.
let heard = 0; // When anything last arrived, by this machine's clock.
let tried = 0; // When the last connection was started.
let retries = 0;
let retry = null;

// Without a state for this long (they come once a second) the controller counts as not answering.
// After twice as long without an event the connection is replaced.
const SILENCE_MS = 5000;

function tellConnection(kind, text) {
  const line = byId('connection');
  if (line.dataset.state !== kind) line.dataset.state = kind;
  setText(line, text);
  document.body.classList.toggle('stale', kind === 'lost');
}

function tellLost() {
  tellConnection('lost', 'Connection lost, trying again …');
}

// The selected job, if the list has it; the controller may know it anyway.
function findChosen() {
  const listed = state.jobs.find((one) => one.id === chosen);
  return listed || (detail && detail.id === chosen && detail.known ? detail.job : undefined);
}

// Handles a job that is not in the list: it has not arrived yet, or it is gone.
function updateMissing() {
  show(byId('job'), true);
  setText(byId('job-name'), chosen);
  setText(byId('job-id'), '');
  setText(byId('job-reason'), detail === null ? 'Asking the controller …'
    : 'This job is unknown: paceline job list has those that the controller knows.');
}

function update() {
  const job = findChosen();
  byId('main').setAttribute('aria-busy', 'false');
  setText(byId('version'), state.version);
  updateSummary(state);
  updateJobs(state, chosen);
  updateNodes(state);
  updateDecisions(state);
  show(byId('job'), chosen !== '');
  show(byId('job-body'), job !== undefined);
  if (job) updateJobHead(job);
  if (job && detail && detail.id === chosen && detail.known) {
    updateJobDetail(job, detail, state.time);
  }
  if (job) updateCompared();
  if (!job && chosen !== '') updateMissing();
  if (isNew && chosen !== '') byId('job-name').focus();
  isNew = false;
  const live = countTraining(state.job_counts) + (state.job_counts.queued || 0);
  const title = live > 0 ? `Paceline · ${plural(live, 'job')}` : 'Paceline';
  if (document.title !== title) document.title = title;
}

function connect() {
  if (source) source.close();
  clearTimeout(retry);
  tried = Date.now();
  source = new EventSource(chosen ? `/events?job=${encodeURIComponent(chosen)}` : '/events');
  source.addEventListener('cluster', (event) => {
    state = JSON.parse(event.data);
    heard = Date.now();
    retries = 0;
    tellConnection('live', 'Live');
    update();
  });
  source.addEventListener('job', (event) => {
    detail = JSON.parse(event.data);
    if (state) update();
  });
  source.addEventListener('error', () => {
    tellLost();
    // The browser itself gives up after some errors, and retries slowly.
    source.close();
    retries += 1;
    clearTimeout(retry);
    retry = setTimeout(connect, Math.min(10000, 500 * 2 ** Math.min(5, retries)));
  });
}

function choose(job, others) {
  chosen = job;
  detail = null;
  heatMap.cursor = null;
  updateHeatMap(null, false);
  connect();
  if (state) update();
  chooseCurves(job, others);
}

// Other anchors are places in the page. No job id is longer.
function followAddress() {
  const match = /^#job=([\w.-]{1,64})(?:&with=([\w.,-]{1,325}))?$/.exec(location.hash);
  if (!match && location.hash !== '') return;
  isNew = match !== null;
  choose(match ? match[1] : '', match && match[2] ? match[2].split(',').filter(Boolean) : []);
}

byId('close').addEventListener('click', (event) => {
  event.preventDefault();
  history.pushState(null, '', location.pathname);
  followAddress();
  byId('jobs').focus();
});
addEventListener('hashchange', followAddress);
setInterval(() => {
  if (heard === 0 || Date.now() - heard < SILENCE_MS) return;
  tellLost();
  if (Date.now() - Math.max(heard, tried) > 2 * SILENCE_MS) connect();
}, 1000);
followAddress();
if (source === null) connect();
