// The curves of the selected job's whole run, with those of other jobs to compare, and marks of what
// happened. They are asked for every ten seconds, apart from the stream of states.

const CURVES_PERIOD_MS = 10000;
const FIRST_CURVES_PERIOD_MS = 2000; // Until the selected job has some.

const fine = (value) => number(value, 4);
const finePercent = (value) => `${(value * 100).toFixed(1)} %`;
// Paceline's own curves in the order in which they are shown: title, format.
const OWN_CURVES = new Map([
  ['loss', ['Loss', fine]],
  ['evaluation_loss', ['Evaluation: loss', fine]],
  ['evaluation_accuracy', ['Evaluation: accuracy', finePercent]],
  ['learning_rate', ['Learning rate', fine]],
  ['grad_norm', ['Gradient norm', fine]],
  ['tokens_per_s', ['Tokens/s', number]],
  ['samples_per_s', ['Samples/s', number]],
  ['step_s', ['Step time', seconds]],
  ['wait_share', ['Waiting for others', finePercent]],
  ['mfu', ['MFU', finePercent]],
]);

const curves = {
  jobs: [], // Ids: the selected job, then those that it is compared with.
  runs: new Map(), // What the controller last answered, by id.
  trouble: '',
  range: null, // Steps shown; null: all.
  round: 0, // Counts requests: an answer to an earlier one is dropped.
  timer: null,
};

const keyOf = (curve) => `${curve.reported ? 'reported' : 'own'} ${curve.name}`;
const runOf = (place) => curves.runs.get(curves.jobs[place]);
const nameOfJob = (place) => {
  const run = runOf(place);
  return run && run.name ? run.name : curves.jobs[place];
};

// The marks of the selected job that are to be shown.
function shownMarks() {
  const run = runOf(0);
  const kind = byId('mark-kind').value;
  if (!run || !run.known || kind === 'none') return [];
  return run.marks.filter((mark) => kind === 'all' || mark.warning);
}

// First and last step of all curves; null: there is none.
function wholeRange() {
  const steps = [];
  for (const run of curves.jobs.map((id) => curves.runs.get(id))) {
    for (const { steps: own } of (run && run.curves) || []) steps.push(own[0], own[own.length - 1]);
  }
  if (steps.length === 0) return null;
  return [Math.min(...steps), Math.max(Math.max(...steps), Math.min(...steps) + 1)];
}

// Shows these steps in all plots; null, or more than there are: all.
function zoomCurves(from, to) {
  const whole = wholeRange();
  const wide = whole === null || from === null || (from <= whole[0] && to >= whole[1]);
  if (wide) {
    curves.range = null;
  } else {
    const width = Math.max(2, Math.min(to - from, whole[1] - whole[0]));
    const first = Math.min(Math.max(from, whole[0]), whole[1] - width);
    curves.range = [first, first + width];
  }
  showCurves();
}

// `about`: the step that stays where it is; null: the middle.
function scaleCurves(factor, about) {
  const range = curves.range || wholeRange();
  if (range === null) return;
  const at = about === null ? (range[0] + range[1]) / 2 : about;
  zoomCurves(at - (at - range[0]) * factor, at + (range[1] - at) * factor);
}

function moveCurves(share) {
  if (curves.range === null) return;
  const by = (curves.range[1] - curves.range[0]) * share;
  zoomCurves(curves.range[0] + by, curves.range[1] + by);
}

const PLOT_OWNER = {
  range: () => curves.range,
  zoom: zoomCurves,
  scale: scaleCurves,
  marks: shownMarks,
  nameOf: nameOfJob,
};

// What is shown, and what is missing and why.
function tellCurves() {
  const run = runOf(0);
  const parts = [];
  if (curves.trouble !== '') parts.push(`${curves.trouble}; asking again.`);
  if (!run) {
    parts.push('Asking the controller …');
  } else if (run.since === null || !run.known) {
    parts.push(run.ended ? 'No curves are kept of this job: the controller has started, or another '
      + 'one has taken over, since it ended, or later jobs needed the room.'
      : 'No curves yet: they begin with the first step.');
  } else {
    const when = new Date(run.since * 1000).toLocaleString();
    parts.push(`Since step ${run.since_step}, ${when}. Curves are kept in memory: they begin anew `
      + 'when the controller restarts or another one takes over.');
    if (run.left_out) parts.push('There was no room for some numbers.');
  }
  setText(byId('curves-note'), parts.join(' '));
  const { range } = curves;
  setText(byId('curves-range'), range ? `Steps ${Math.round(range[0])} to ${Math.round(range[1])}`
    : '');
  byId('curves-whole').disabled = range === null;
  byId('curves-earlier').disabled = range === null;
  byId('curves-later').disabled = range === null;
}

// Curves by key, Paceline's own first, each with the jobs that have it.
function partsByKey() {
  const found = new Map();
  curves.jobs.forEach((id, place) => {
    const run = curves.runs.get(id);
    for (const curve of (run && run.curves) || []) {
      const key = keyOf(curve);
      if (!found.has(key)) found.set(key, { key, curve, parts: [] });
      found.get(key).parts.push({ place, curve });
    }
  });
  const order = ({ curve }) => (curve.reported ? OWN_CURVES.size
    : [...OWN_CURVES.keys()].indexOf(curve.name));
  return [...found.values()].sort((a, b) => order(a) - order(b)
    || a.curve.name.localeCompare(b.curve.name));
}

function updateMarks() {
  const marks = shownMarks();
  show(byId('marks'), marks.length > 0);
  setText(byId('marks-title'), plural(marks.length, 'mark'));
  showList(byId('mark-list'), marks, (mark) => mark.id,
    (mark) => {
      const button = make('button', { type: 'button' });
      button.addEventListener('click', () => {
        const whole = wholeRange();
        const width = whole === null ? 100 : Math.max(20, (whole[1] - whole[0]) / 20);
        zoomCurves(mark.step - width / 2, mark.step + width / 2);
      });
      return make('li', { className: mark.warning ? 'warning' : '' }, button,
        make('span', { className: 'what', textContent: mark.what }));
    },
    (item, mark) => setText(item.firstChild, `Step ${mark.step}`));
}

// Jobs that are compared, and those that could be.
function updateCompared() {
  showList(byId('compared'), curves.jobs.length > 1 ? curves.jobs : [], (id) => id,
    (id) => {
      const button = make('button', { type: 'button', textContent: '×' });
      button.addEventListener('click', () => compareWith(curves.jobs.slice(1)
        .filter((one) => one !== id)));
      return make('li', {}, makeSvg('svg', { width: 28, height: 8, 'aria-hidden': 'true' },
        makeSvg('line', { x1: 0, y1: 4, x2: 28, y2: 4, 'stroke-width': 2 })),
      make('span'), button);
    },
    (item, id) => {
      const place = curves.jobs.indexOf(id);
      const [swatch, name, button] = item.children;
      swatch.firstChild.setAttribute('stroke', jobColour(place));
      swatch.firstChild.setAttribute('stroke-dasharray', JOB_DASHES[place].join(' '));
      const run = runOf(place);
      const missing = run && (!run.known || run.since === null) ? ' (no curves kept)' : '';
      setText(name, `${nameOfJob(place)}${missing}`);
      show(button, place > 0);
      button.setAttribute('aria-label', `Do not compare with ${nameOfJob(place)}`);
    });
  const others = ((state && state.jobs) || []).filter((job) => !curves.jobs.includes(job.id));
  const choice = byId('compare');
  choice.disabled = others.length === 0 || curves.jobs.length === MOST_JOBS;
  showList(choice, [{ id: '', name: 'Compare with …' }, ...others], (job) => job.id,
    (job) => make('option', { value: job.id }),
    (option, job) => setText(option, job.id === '' ? job.name : `${job.name} · ${job.id}`));
}

// The loss of the run, small, where the column under the heat map has room.
function updateRun() {
  const run = runOf(0);
  const loss = ((run && run.curves) || []).find((one) => one.name === 'loss' && !one.reported);
  const shown = loss && loss.steps.length > 1 ? [loss] : [];
  showList(byId('run'), shown, () => 'loss', () => makeChart('Loss'), (chart) => {
    const when = `of steps ${loss.steps[0]} to ${loss.steps[loss.steps.length - 1]}`;
    setText(chart.querySelector('.label'), `Loss ${when}`);
    updateChart(chart, 'Loss', loss.mean, fine, when);
  });
}

function showCurves() {
  if (curves.jobs.length === 0) return;
  tellCurves();
  updateRun();
  updateCompared();
  updateMarks();
  showList(byId('curves'), partsByKey(), (shown) => shown.key, () => makeCurveCard(PLOT_OWNER),
    () => {});
  // A plot needs the width of its card, which is in the page only now.
  partsByKey().forEach(({ curve, parts }, i) => {
    const [title, format] = curve.reported ? [curve.name, fine]
      : OWN_CURVES.get(curve.name) || [curve.name, fine];
    updateCurveCard(byId('curves').children[i], title, parts, format);
  });
}

async function fetchRun(id) {
  const answer = await fetch(`/curves?job=${encodeURIComponent(id)}`);
  if (!answer.ok) throw new Error(`the controller answers ${answer.status}`);
  return answer.json();
}

async function refreshCurves() {
  clearTimeout(curves.timer);
  curves.round += 1;
  const { round, jobs } = curves;
  if (jobs.length === 0) return;
  const answers = await Promise.allSettled(jobs.map(fetchRun));
  if (round !== curves.round) return; // Others have been selected since.
  curves.trouble = '';
  answers.forEach((answer, i) => {
    if (answer.status === 'fulfilled') {
      curves.runs.set(jobs[i], answer.value);
    } else {
      curves.trouble = `Curves could not be read: ${answer.reason.message}`;
    }
  });
  showCurves();
  const run = runOf(0);
  const waits = run && run.known && !run.ended && run.since === null;
  curves.timer = setTimeout(refreshCurves, waits ? FIRST_CURVES_PERIOD_MS : CURVES_PERIOD_MS);
}

// The selected job (empty: none), and those to compare it with.
function chooseCurves(job, others) {
  curves.jobs = job === '' ? [] : [...new Set([job, ...others])].slice(0, MOST_JOBS);
  curves.runs.clear();
  curves.range = null;
  curves.trouble = '';
  Array.from(byId('curves').children).forEach(dropPlot);
  byId('curves').replaceChildren();
  byId('run').replaceChildren();
  showCurves();
  refreshCurves();
}

// Keeps the selection in the address.
function compareWith(others) {
  const [job] = curves.jobs;
  curves.jobs = [job, ...others];
  const compared = others.length > 0 ? `&with=${others.join(',')}` : '';
  history.replaceState(null, '', `#job=${encodeURIComponent(job)}${compared}`);
  showCurves();
  refreshCurves();
}

byId('compare').addEventListener('change', (event) => {
  const job = event.target.value;
  event.target.value = '';
  if (job !== '') compareWith([...curves.jobs.slice(1), job]);
});
byId('mark-kind').addEventListener('change', showCurves);
byId('curves-in').addEventListener('click', () => scaleCurves(0.5, null));
byId('curves-out').addEventListener('click', () => scaleCurves(2, null));
byId('curves-earlier').addEventListener('click', () => moveCurves(-0.5));
byId('curves-later').addEventListener('click', () => moveCurves(0.5));
byId('curves-whole').addEventListener('click', () => zoomCurves(null));
DARK.addEventListener('change', showCurves);
