// One curve of one or several jobs, drawn by uPlot: the mean as a line, in a band from the least to
// the greatest value, with a vertical line for each mark.
//
// A pointer or the arrow keys select a point, which is put into words below the plot. Dragging
// selects steps to zoom to; so do + and -, and Home and End go to the first and last point.

const PLOT_HEIGHT = 190;
const JOB_COLOURS = {
  light: ['#2563d9', '#b4540a', '#0f7553', '#8b3fc7', '#c02c38'],
  dark: ['#7aa5ff', '#e7b65a', '#3fcf9a', '#c99cf5', '#ff7a80'],
};
// Jobs can be told apart without colours, too.
const JOB_DASHES = [[], [8, 4], [2, 4], [12, 4, 2, 4], [5, 5]];
const MOST_JOBS = JOB_DASHES.length;
const PER_JOB = 3; // Series: mean, least, greatest.

const jobColour = (place) => JOB_COLOURS[DARK.matches ? 'dark' : 'light'][place];

// `parts`: [{place, curve}], by place of the job. Columns as uPlot wants them: all steps, then three
// series of each part.
function columnsOf(parts) {
  const tables = parts.map(({ curve }) => [curve.steps, curve.mean, curve.least, curve.most]);
  return tables.length === 1 ? tables[0] : uPlot.join(tables);
}

function seriesOf(parts) {
  const series = [{}];
  const bands = [];
  parts.forEach(({ place }, i) => {
    const hidden = { stroke: 'transparent', width: 0, points: { show: false } };
    series.push({ stroke: () => jobColour(place), width: 1.5, dash: JOB_DASHES[place] },
      { ...hidden }, { ...hidden });
    const first = 1 + PER_JOB * i;
    bands.push({ series: [first + 2, first + 1], fill: () => `${jobColour(place)}26` });
  });
  return { series, bands };
}

// `owner`: {range(): steps shown, null: all; zoom(from, to); scale(factor, about); marks();
// nameOf(place)}.
function drawMarks(plot, owner) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.lineWidth = devicePixelRatio || 1;
  for (const mark of owner.marks()) {
    const x = plot.valToPos(mark.step, 'x', true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = styleOf(mark.warning ? '--bad' : '--quiet');
    ctx.setLineDash(mark.warning ? [] : [4, 4]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

function takeSelection(plot, owner) {
  const { left, width } = plot.select;
  if (width < 4) return;
  owner.zoom(plot.posToVal(left, 'x'), plot.posToVal(left + width, 'x'));
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
}

function makePlot(box, parts, format, owner, tell) {
  const axis = {
    stroke: () => styleOf('--quiet'), font: '11px system-ui, sans-serif',
    grid: { stroke: () => styleOf('--line'), width: 1 }, ticks: { show: false },
  };
  const { series, bands } = seriesOf(parts);
  return new uPlot({
    width: Math.max(120, box.clientWidth),
    height: PLOT_HEIGHT,
    padding: [8, 12, 0, 0],
    legend: { show: false },
    scales: {
      x: { time: false, range: (plot, least, most) => owner.range() || [least, most] },
    },
    axes: [
      { ...axis, size: 28, values: (plot, splits) => splits.map((step) => number(step)) },
      {
        ...axis, size: 58,
        values: (plot, splits) => splits.map((value) => (value === null ? '' : format(value))),
      },
    ],
    series,
    bands,
    cursor: {
      y: false,
      drag: { x: true, y: false, setScale: false },
      bind: { dblclick: () => () => owner.zoom(null) },
    },
    hooks: {
      draw: [(plot) => drawMarks(plot, owner)],
      setSelect: [(plot) => takeSelection(plot, owner)],
      setCursor: [tell],
    },
  }, columnsOf(parts), box);
}

// The card of a curve; its plot is made when there is data.
function makeCurveCard(owner) {
  const box = make('div', { className: 'plot', tabIndex: 0 });
  box.setAttribute('role', 'img');
  const card = make('div', { className: 'card curve' },
    make('div', { className: 'row' }, make('h4'), make('span', { className: 'value' })),
    box, make('output', { className: 'quiet' }));
  card.curve = { owner, parts: [], plot: null, shown: '', format: number };
  box.addEventListener('keydown', (event) => pressInCurve(card, event));
  new ResizeObserver(() => {
    const { plot } = card.curve;
    if (plot && box.clientWidth > 0 && plot.width !== box.clientWidth) {
      plot.setSize({ width: box.clientWidth, height: PLOT_HEIGHT });
    }
  }).observe(box);
  return card;
}

// "Step 1200: 0.5 (0.4 to 0.7)", for each job with a value there.
function tellPoint(card) {
  const { plot, parts, format, owner } = card.curve;
  const index = plot ? plot.cursor.idx : null;
  if (index === null || index === undefined) return setText(card.querySelector('output'), '');
  const step = plot.data[0][index];
  const texts = parts.map(({ place }, i) => {
    const [mean, least, most] = [0, 1, 2].map((j) => plot.data[1 + PER_JOB * i + j][index]);
    if (mean === null || mean === undefined) return '';
    const spread = least < most ? ` (${format(least)} to ${format(most)})` : '';
    return `${parts.length > 1 ? `${owner.nameOf(place)} ` : ''}${format(mean)}${spread}`;
  }).filter((text) => text !== '');
  const before = index > 0 ? plot.data[0][index - 1] : 0;
  const marks = owner.marks().filter((mark) => mark.step > before && mark.step <= step);
  const happened = marks.length > 0 ? ` · ${marks[0].what}${marks.length > 1
    ? `, and ${marks.length - 1} more` : ''}` : '';
  return setText(card.querySelector('output'),
    `Step ${step}: ${texts.join('; ') || 'not a finite number'}${happened}`);
}

function pressInCurve(card, event) {
  const { plot, owner } = card.curve;
  if (!plot || event.ctrlKey || event.metaKey || event.altKey) return;
  const [first, last] = plot.series[0].idxs;
  const at = plot.cursor.idx;
  const here = at === null || at === undefined ? last + 1 : at;
  const moves = {
    ArrowLeft: here - 1, ArrowRight: here + 1, Home: first, End: last,
  };
  const zooms = { '+': 0.5, '=': 0.5, '-': 2 };
  if (moves[event.key] !== undefined) {
    const index = Math.min(last, Math.max(first, moves[event.key]));
    plot.setCursor({ left: plot.valToPos(plot.data[0][index], 'x'), top: 10 });
  } else if (zooms[event.key]) {
    owner.scale(zooms[event.key], at === null || at === undefined ? null : plot.data[0][at]);
  } else if (event.key === '0' || event.key === 'Escape') {
    owner.zoom(null);
  } else {
    return;
  }
  event.preventDefault();
}

function dropPlot(card) {
  if (card.curve.plot) card.curve.plot.destroy();
  card.curve.plot = null;
}

// `parts` is not empty. `title` may be text of a user.
function updateCurveCard(card, title, parts, format) {
  const { curve } = card;
  const box = card.querySelector('.plot');
  const shown = parts.map(({ place }) => place).join();
  curve.parts = parts;
  curve.format = format;
  setText(card.querySelector('h4'), title);
  const { mean, least, most, steps } = parts[0].curve;
  const newest = mean[mean.length - 1];
  const finite = (values) => values.filter((value) => value !== null);
  setText(card.querySelector('.value'), newest === null ? 'not finite' : format(newest));
  const range = finite(mean).length === 0 ? 'no finite value'
    : `between ${format(Math.min(...finite(least)))} and ${format(Math.max(...finite(most)))}`;
  box.setAttribute('aria-label', `${title}, ${plural(steps.length, 'point')} up to step `
    + `${steps[steps.length - 1]}: now ${newest === null ? 'not finite' : format(newest)}, ${range}. `
    + 'Arrow keys read points, plus and minus zoom.');
  if (curve.plot && curve.shown === shown) {
    curve.plot.setData(columnsOf(parts));
  } else {
    dropPlot(card);
    curve.plot = makePlot(box, parts, format, curve.owner, () => tellPoint(card));
    curve.shown = shown;
  }
  tellPoint(card);
}
