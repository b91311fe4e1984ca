// One job in detail: heat map, the last minutes, its slowest ranks, and its history.

const CHARTS = [
  ['Step time', 'step_s', seconds],
  ['Waiting for others', 'wait_share', percent],
  ['Throughput', 'rate', null],
  ['Loss', 'loss', (value) => number(value, 4)],
];

// Tokens per second if the job has any, else samples.
function rateOf(job) {
  if (job.tokens_per_s !== null) return `${number(job.tokens_per_s)} tokens/s`;
  return job.samples_per_s === null ? NONE : `${number(job.samples_per_s)} samples/s`;
}

// "rank 5 on n3 is slow: 1.41 × its peers (compute), costs 20 %"
function tellVerdict(verdict) {
  const far = `${verdict.slowdown.toFixed(2)} × its peers`;
  const cost = verdict.lost_share > 0 ? `, costs the job ${percent(verdict.lost_share)}` : '';
  let who = 'a group of ranks';
  if (verdict.ranks !== undefined) {
    who = `the exchange of ranks ${verdict.first_rank}–${verdict.first_rank + verdict.ranks - 1}`;
  } else if (verdict.rank >= 0) {
    who = `rank ${verdict.rank} on ${verdict.node}`;
  } else if (verdict.node !== '') {
    who = `node ${verdict.node}`;
  }
  return `${who}: ${far} (${verdict.cause})${cost}`;
}

function updateJobHead(job) {
  show(byId('job'), true);
  setText(byId('job-name'), job.name || job.id);
  setText(byId('job-id'), job.id);
  const parts = [job.state, plural(job.ranks, 'rank'), `generation ${job.generation}`];
  if (job.restarts > 0) parts.push(plural(job.restarts, 'restart'));
  if (job.save_trouble !== '') parts.push(job.save_trouble);
  if (job.reason !== '') parts.push(job.reason);
  setText(byId('job-reason'), parts.join(' · '));
  const slow = byId('job-slow');
  show(slow, job.slow.length > 0);
  const more = job.slow_count > job.slow.length ? `; ${job.slow_count - job.slow.length} more` : '';
  setText(slow, `Slow: ${job.slow.map(tellVerdict).join('; ')}${more}. `
    + `paceline job advise ${job.id} tells what can be done.`);
}

function updateCharts(series) {
  const tokens = series.tokens_per_s.some((value) => value !== null);
  const values = { ...series, rate: tokens ? series.tokens_per_s : series.samples_per_s };
  const unit = tokens ? 'tokens/s' : 'samples/s';
  showList(byId('charts'), CHARTS, ([title]) => title, ([title]) => makeChart(title),
    (chart, [title, name, format]) => {
      const tell = format || ((value) => (value === null ? NONE : `${number(value)} ${unit}`));
      updateChart(chart, title, values[name], tell);
    });
}

const RANK_COLUMNS = ['rank', 'node', 'state', 'step', 'own', 'ratio', 'wait', 'data', 'memory',
  'mfu', 'found'];
const RANK_TEXT = ['node', 'state', 'found'];

function makeRankRow() {
  const row = make('tr');
  for (const column of RANK_COLUMNS) {
    row.append(make('td', { className: RANK_TEXT.includes(column) ? '' : 'num' }));
  }
  return row;
}

function updateRanks(detail, now) {
  const shown = detail.ranks.length;
  const all = shown === detail.rank_count;
  setText(byId('ranks-title'), all ? 'Ranks, the slowest first'
    : `The ${shown} slowest of ${detail.rank_count} ranks`);
  show(byId('rank-table'), shown > 0);
  show(byId('no-ranks'), shown === 0);
  showList(byId('rank-rows'), detail.ranks, (rank) => rank.rank, makeRankRow, (row, rank) => {
    const ratio = rank.own_s !== null && detail.median_own_s !== null
      ? `${(rank.own_s / detail.median_own_s).toFixed(2)} ×` : NONE;
    const unreachable = rank.last_heard !== null; // Its figures date from then.
    const phase = rank.phase === 'idle' ? rank.state : `${rank.state}: ${rank.phase}`;
    const doing = unreachable ? `last heard ${ago(rank.last_heard, now)}` : phase;
    const figures = unreachable ? [NONE, NONE, NONE, NONE, NONE, NONE, ''] : [seconds(rank.own_s), ratio,
      percent(rank.wait_share), percent(rank.data_wait_share), bytes(rank.memory),
      percent(rank.mfu), rank.verdict ? `${rank.verdict.kind}: ${rank.verdict.cause}` : ''];
    const texts = [`${rank.rank}`, rank.node, doing, `${rank.step}`, ...figures];
    texts.forEach((text, i) => setText(row.children[i], text));
    row.lastChild.className = rank.verdict && !unreachable ? 'flag' : '';
  });
}

function updateArtifacts(artifacts) {
  show(byId('artifacts-title'), artifacts.length > 0);
  show(byId('artifact-list'), artifacts.length > 0);
  showList(byId('artifact-list'), artifacts, (one) => one.name,
    () => make('li', {}, make('span', { className: 'what' }),
      make('span', { className: 'when quiet' })),
    (item, one) => {
      const hash = one.sha256 !== '' ? `, ${number(one.bytes)} bytes, sha256 ${one.sha256}` : '';
      setText(item.firstChild, `${one.name}: ${one.path} on ${one.node}${hash}`
        + (one.error !== '' ? `: ${one.error}` : ''));
      setText(item.lastChild, `step ${one.step}`);
    });
}

function updateEvents(events, now) {
  show(byId('events-title'), events.length > 0);
  show(byId('event-list'), events.length > 0);
  showList(byId('event-list'), events, (event) => event.id,
    (event) => make('li', { className: event.warning ? 'warning' : '' },
      make('span', { className: 'what', textContent: event.what }),
      make('span', { className: 'when quiet' })),
    (item, event) => {
      setText(item.lastChild, event.time === null ? '' : ago(event.time, now));
    });
}

// What the job was made from, itself, and what was made from it, in this order.
function lineageOf(detail) {
  const { directory, ancestors, children, child_count: count } = detail.lineage;
  const items = ancestors.map((kin, i) => (
    { key: `from ${i}`, id: kin.known ? kin.id : '', text: `${kin.name}, step ${kin.step}` }));
  if (directory !== '') items.unshift({ key: 'directory', id: '', text: directory });
  items.push({ key: 'self', id: '', text: 'this job' });
  children.forEach((kin) => items.push(
    { key: `to ${kin.id}`, id: kin.id, text: `${kin.name}, from step ${kin.step}`, child: true }));
  if (count > children.length) {
    items.push({ key: 'more', id: '', text: `${count - children.length} more`, child: true });
  }
  return items;
}

function updateLineage(detail) {
  const items = lineageOf(detail);
  show(byId('lineage'), items.length > 1);
  showList(byId('lineage-list'), items, (item) => `${item.key} ${item.id}`,
    (item) => {
      const link = item.id === '' ? make('span')
        : make('a', { href: `#job=${encodeURIComponent(item.id)}` });
      return make('li', { className: item.child ? 'child' : '' }, link);
    },
    (entry, item) => {
      setText(entry.firstChild, item.text);
      if (item.key === 'self') entry.firstChild.setAttribute('aria-current', 'true');
    });
}

function updateJobDetail(job, detail, now) {
  updateLineage(detail);
  show(byId('job-description'), detail.description !== '');
  setText(byId('job-description'), detail.description);
  show(byId('job-labels'), detail.labels.length > 0);
  setText(byId('job-labels'), `Labels: ${detail.labels.join(' · ')}`);
  show(byId('job-strategy'), detail.strategy !== '');
  setText(byId('job-strategy'), `Strategy: ${detail.strategy}`);
  updateHeatMap(detail.table, job.ended !== null);
  updateCharts(detail.series);
  updateRanks(detail, now);
  updateArtifacts(detail.artifacts);
  updateEvents(detail.events, now);
}
