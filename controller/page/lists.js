// The cluster: summary, jobs, nodes, decisions.

const JOB_TONES = {
  running: 'good', succeeded: 'done', queued: 'wait', starting: 'busy', recovering: 'wait',
  stopping: 'wait', failed: 'bad', cancelled: 'idle',
};
const NODE_TONES = {
  ready: 'good', unreachable: 'bad', cordoned: 'wait', draining: 'wait', drained: 'idle',
  lost: 'bad',
};
const toneOf = (tones, state) => `tone-${tones[state] || 'idle'}`;

const total = (counts) => Object.values(counts).reduce((sum, count) => sum + count, 0);

// Number of jobs that hold slots, from counts by state.
function countTraining(jobs) {
  return (jobs.running || 0) + (jobs.starting || 0) + (jobs.recovering || 0)
    + (jobs.stopping || 0);
}

// Lists may be cut, so the controller sends the sums.
function updateSummary(state) {
  const jobs = state.job_counts;
  const nodes = state.node_counts;
  const { ranks, slow, slots, slots_used: used } = state.sums;
  const training = countTraining(jobs);
  const ready = nodes.ready || 0;
  const all = total(nodes);
  const tiles = [
    [training, training === 1 ? 'job trains' : 'jobs train', ''],
    [jobs.queued || 0, 'wait for slots', jobs.queued ? 'wait' : ''],
    [ranks, ranks === 1 ? 'rank runs' : 'ranks run', ''],
    [slow, slow === 1 ? 'slow rank or node' : 'slow ranks and nodes', slow ? 'bad' : ''],
    [`${ready}/${all}`, 'nodes ready', ready < all ? 'wait' : ''],
    [`${used}/${slots}`, 'slots and GPUs used', ''],
  ];
  showList(byId('summary'), tiles.map((tile, i) => [i, tile]), ([i]) => i,
    () => make('li', {}, make('div', { className: 'value' }), make('div', { className: 'label' })),
    (tile, [, [value, label, tone]]) => {
      setText(tile.children[0], String(value));
      setText(tile.children[1], label);
      tile.className = tone;
    });
  const banner = byId('automation');
  show(banner, state.automation.paused);
  setText(banner, `Automation is paused by ${state.automation.owner}: ${state.automation.reason}`);
}

function makeJobRow(job) {
  const link = make('a', { href: `#job=${encodeURIComponent(job.id)}` });
  const cell = (className, ...children) => make('td', { className }, ...children);
  return make('tr', {},
    cell('name', link, make('span', { className: 'quiet mono', textContent: job.id }),
      make('span', { className: 'quiet labels' })),
    cell('', make('span')),
    cell('', make('progress'), make('span')),
    cell('num spark', make('div', {}, makeSpark(), make('span'))),
    cell('num'), cell('num'), cell('num'), cell('num'), cell('flag'));
}

function updateJobRow(row, job, chosen) {
  const over = job.ended !== null;
  row.className = [over ? 'over' : '', job.id === chosen ? 'chosen' : ''].join(' ').trim();
  const [name, state, progress, time, wait, rate, loss, mfu, slow] = row.children;
  setText(name.firstChild, job.name || job.id);
  name.title = job.name;
  const unlisted = job.label_count - job.labels.length;
  show(name.lastChild, job.label_count > 0);
  setText(name.lastChild, job.labels.join(' · ') + (unlisted > 0 ? ` · ${unlisted} more` : ''));
  name.lastChild.title = name.lastChild.textContent;
  if (job.id === chosen) {
    name.firstChild.setAttribute('aria-current', 'true');
  } else {
    name.firstChild.removeAttribute('aria-current');
  }
  const mark = state.firstChild;
  mark.className = `state ${toneOf(JOB_TONES, job.state)}`;
  setText(mark, job.state);
  state.title = job.reason;
  const share = job.steps > 0 ? Math.min(1, job.step / job.steps) : 0;
  progress.firstChild.value = share;
  const of = job.steps > 0 ? job.steps : null;  // A command need not say how many steps it makes.
  progress.firstChild.setAttribute('aria-label', `${job.step}${of ? ` of ${of}` : ''} steps`);
  setText(progress.lastChild, `${number(job.step)}${of ? ` / ${number(of)}` : ''}`);
  const [spark, latest] = time.firstChild.children;
  updateLine(spark, job.recent_step_s, `step time, now ${seconds(job.step_s)}`);
  spark.style.visibility = job.recent_step_s.length > 1 ? 'visible' : 'hidden';
  setText(latest, over ? NONE : seconds(job.step_s));
  setText(wait, percent(over ? null : job.wait_share));
  setText(rate, rateOf(job));
  setText(loss, number(job.loss, 4));
  setText(mfu, percent(job.mfu));
  setText(slow, job.save_trouble !== '' ? 'saves fail' : job.slow_count === 0 ? ''
    : job.slow.slice(0, 1).map((verdict) => (verdict.rank >= 0
      ? `rank ${verdict.rank} · ${verdict.slowdown.toFixed(2)} ×` : tellVerdict(verdict))).join('')
      + (job.slow_count > 1 ? ` and ${job.slow_count - 1} more` : ''));
  slow.title = [job.save_trouble, ...job.slow.map(tellVerdict)].filter(Boolean).join('\n');
}

function updateJobs(state, chosen) {
  show(byId('job-table'), state.jobs.length > 0);
  show(byId('no-jobs'), state.jobs.length === 0);
  showList(byId('job-rows'), state.jobs, (job) => job.id, makeJobRow,
    (row, job) => updateJobRow(row, job, chosen));
  const more = total(state.jobs_left_out);
  const parts = Object.entries(state.jobs_left_out).map(([name, count]) => `${count} ${name}`);
  show(byId('more-jobs'), more > 0);
  setText(byId('more-jobs'),
    `${plural(more, 'more job')} not shown (${parts.join(', ')}): paceline job list`);
}

function useOf(node) {
  const parts = [];
  if (node.slots > 0) parts.push(`${node.slots_used}/${node.slots} slots`);
  if (node.gpus > 0) parts.push(`${node.gpus_used}/${node.gpus} GPUs`);
  if (node.jobs.length > 0) parts.push(node.jobs.join(', '));
  return parts.join(' · ');
}

function updateNodes(state) {
  show(byId('no-nodes'), state.nodes.length === 0);
  showList(byId('node-tiles'), state.nodes, (node) => node.name,
    () => make('li', {},
      make('div', { className: 'top' }, make('span', { className: 'name' }),
        make('span', { className: 'what' })),
      make('div', { className: 'use' }), make('div', { className: 'why' })),
    (tile, node) => {
      tile.className = toneOf(NODE_TONES, node.state);
      const [top, use, why] = tile.children;
      setText(top.children[0], node.name);
      setText(top.children[1], node.state);
      setText(use, useOf(node));
      const reason = node.state === 'ready' ? '' : node.reason;
      show(why, reason !== '');
      setText(why, reason);
      tile.title = reason;
    });
  show(byId('more-nodes'), state.nodes_left_out > 0);
  setText(byId('more-nodes'),
    `${plural(state.nodes_left_out, 'more node')} not shown: paceline node list`);
}

const DECISION_TONES = {
  advised: 'wait', ordered: 'busy', checking: 'busy', helped: 'good', done: 'good',
  'under way': 'busy', 'did not help': 'bad', failed: 'bad',
};

function updateDecisions(state) {
  show(byId('decision-list'), state.decisions.length > 0);
  show(byId('no-decisions'), state.decisions.length === 0);
  showList(byId('decision-list'), state.decisions, (decision) => decision.id,
    () => make('li', {},
      make('div', { className: 'row' }, make('span', { className: 'state' }),
        make('span', { className: 'when quiet' })),
      make('div', { className: 'what' }), make('div', { className: 'why' })),
    (item, decision) => {
      const [row, what, why] = item.children;
      row.children[0].className = `state ${toneOf(DECISION_TONES, decision.state)}`;
      setText(row.children[0], decision.state);
      setText(row.children[1], decision.time === null ? '' : ago(decision.time, state.time));
      setText(what, decision.what);
      setText(why, [decision.job_name, decision.why, decision.outcome].filter((text) => text)
        .join(' · '));
    });
}
