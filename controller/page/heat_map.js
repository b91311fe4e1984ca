// The steps of a job's ranks: a row per rank (or per some consecutive ranks), a column per step.
// Colour shows the rank's own time relative to the median of all, or its share of waiting.
//
// A pointer or the arrow keys select a cell, whose figures appear beside the legend.

const DARK = matchMedia('(prefers-color-scheme: dark)');

// Colours to interpolate between, from fast to slow; readable with all kinds of colour vision.
const SCALES = {
  light: [[0.0, [118, 169, 224]], [0.25, [222, 231, 242]], [0.5, [250, 205, 120]],
    [0.75, [226, 96, 52]], [1.0, [122, 18, 60]]],
  dark: [[0.0, [58, 105, 160]], [0.25, [36, 50, 68]], [0.5, [158, 104, 30]],
    [0.75, [240, 112, 56]], [1.0, [255, 214, 120]]],
};
const EMPTY = { light: [237, 240, 244], dark: [26, 34, 45] };

function colourOf(place) {
  const scale = SCALES[DARK.matches ? 'dark' : 'light'];
  const at = Math.min(1, Math.max(0, place));
  const above = Math.max(1, scale.findIndex(([stop]) => stop >= at));
  const [low, from] = scale[above - 1];
  const [high, to] = scale[above];
  const share = (at - low) / (high - low);
  return from.map((value, i) => Math.round(value + share * (to[i] - value)));
}

// Codes of times are those of controller/core/steps/step_code.h.
const SHORTEST_S = 1e-6;
const LN_RANGE = Math.log(1e5 / SHORTEST_S);
const decodeSeconds = (code) => (code === 0 ? 0
  : SHORTEST_S * Math.exp((LN_RANGE * (code - 1)) / 65534));

const MODES = {
  // From three quarters of the median to twice the median.
  own: {
    low: '≤ 0.75 × median', high: '≥ 2 ×',
    place: (own, step, median) => {
      const ratio = own / median;
      return ratio < 1 ? Math.max(0, ratio - 0.75) : 0.25 + 0.75 * (ratio - 1);
    },
  },
  wait: { low: '0 % waiting', high: '100 %', place: (own, step) => 0.2 + 0.8 * (1 - own / step) },
};

const heatMap = {
  canvas: byId('map'), readout: byId('map-readout'), mode: 'own', table: null, cells: null,
  cursor: null, // [row, column]
};

function heatCell(row, column) {
  const at = 2 * (row * heatMap.table.steps + column);
  return [decodeSeconds(heatMap.cells[at]), decodeSeconds(heatMap.cells[at + 1])];
}

function drawLegend() {
  const canvas = byId('legend');
  canvas.width = 120;
  canvas.height = 1;
  const context = canvas.getContext('2d');
  const image = context.createImageData(120, 1);
  for (let i = 0; i < 120; ++i) image.data.set([...colourOf(i / 119), 255], 4 * i);
  context.putImageData(image, 0, 0);
  setText(byId('legend-low'), MODES[heatMap.mode].low);
  setText(byId('legend-high'), MODES[heatMap.mode].high);
}

const styleOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// One pixel per cell, enlarged without smoothing; gaps between the rows if there is room.
function drawHeatMap() {
  const { canvas, table, cursor } = heatMap;
  const rows = table.rows.length;
  const image = new ImageData(table.steps, rows);
  const { place } = MODES[heatMap.mode];
  const empty = EMPTY[DARK.matches ? 'dark' : 'light'];
  for (let row = 0; row < rows; ++row) {
    for (let column = 0; column < table.steps; ++column) {
      const [own, step] = heatCell(row, column);
      const colour = own === 0 ? empty : colourOf(place(own, step, table.median_own_s));
      image.data.set([...colour, 255], 4 * (row * table.steps + column));
    }
  }
  const small = new OffscreenCanvas(table.steps, rows);
  small.getContext('2d').putImageData(image, 0, 0);
  const scale = devicePixelRatio || 1;
  const height = Math.max(96, Math.min(384, rows * Math.max(3, Math.min(22, 300 / rows))));
  canvas.style.height = `${height}px`;
  canvas.width = Math.max(1, Math.round(canvas.clientWidth * scale));
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext('2d');
  context.imageSmoothingEnabled = false;
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
  const cell = [canvas.width / table.steps, canvas.height / rows];
  if (cell[1] >= 8 * scale) {
    context.fillStyle = styleOf('--card');
    for (let row = 1; row < rows; ++row) {
      context.fillRect(0, Math.round(row * cell[1]) - scale / 2, canvas.width, scale);
    }
  }
  if (cursor) {
    context.lineWidth = 2 * scale;
    context.strokeStyle = styleOf('--text');
    context.strokeRect(cursor[1] * cell[0], cursor[0] * cell[1], Math.max(cell[0], 3 * scale),
      cell[1]);
  }
}

function rowName(table, row) {
  const { first_rank: first, nodes } = table.rows[row];
  const last = Math.min(first + table.ranks_per_row, table.ranks) - 1;
  const ranks = last > first ? `ranks ${first}–${last}` : `rank ${first}`;
  return nodes.length > 0 ? `${ranks} on ${nodes.join(', ')}` : ranks;
}

function tellCell() {
  const { table, cursor, readout } = heatMap;
  if (!cursor || !table || table.steps === 0) return setText(readout, '');
  const [row, column] = cursor;
  const [own, step] = heatCell(row, column);
  const where = `Step ${table.first_step + column}, ${rowName(table, row)}`;
  if (own === 0) return setText(readout, `${where}: not told`);
  const ratio = own / table.median_own_s;
  return setText(readout, `${where}: own ${seconds(own)} (${ratio.toFixed(2)} × median), `
    + `step ${seconds(step)}`);
}

function moveCursor(row, column) {
  const { table } = heatMap;
  if (!table || table.steps === 0) return;
  const within = (value, count) => Math.min(count - 1, Math.max(0, value));
  heatMap.cursor = [within(row, table.rows.length), within(column, table.steps)];
  drawHeatMap();
  tellCell();
}

function updateHeatMap(table, ended) {
  const has = table !== null && table.steps > 0 && table.rows.length > 0;
  show(heatMap.canvas, has);
  show(byId('no-steps'), !has);
  document.querySelectorAll('.legend, #map-mode').forEach((part) => show(part, has));
  if (!has) {
    heatMap.table = null;
    setText(byId('map-title'), 'Rank × step');
    setText(byId('no-steps'), ended ? 'Its steps are no longer kept.' : 'No step is done yet.');
    return;
  }
  const binary = atob(table.cells);
  const data = Uint8Array.from(binary, (character) => character.charCodeAt(0));
  heatMap.cells = new Uint16Array(data.length / 2);
  for (let i = 0; i < heatMap.cells.length; ++i) {
    heatMap.cells[i] = data[2 * i] + 256 * data[2 * i + 1];
  }
  // The cursor stays on its step while new ones come.
  if (heatMap.cursor && heatMap.table) {
    const column = heatMap.cursor[1] + heatMap.table.first_step - table.first_step;
    const stays = column >= 0 && column < table.steps && heatMap.cursor[0] < table.rows.length;
    heatMap.cursor = stays ? [heatMap.cursor[0], column] : null;
  }
  heatMap.table = table;
  const rows = table.ranks_per_row > 1 ? `, ${table.ranks_per_row} ranks a row: the slowest shows`
    : '';
  setText(byId('map-title'), `${plural(table.ranks, 'rank')} × ${plural(table.steps, 'step')} `
    + `(${table.first_step}–${table.first_step + table.steps - 1})${rows}`);
  heatMap.canvas.dataset.rows = table.rows.length;
  heatMap.canvas.dataset.steps = table.steps;
  drawLegend();
  drawHeatMap();
  tellCell();
}

heatMap.canvas.addEventListener('pointermove', (event) => {
  if (!heatMap.table) return;
  const box = heatMap.canvas.getBoundingClientRect();
  moveCursor(Math.floor(((event.clientY - box.top) / box.height) * heatMap.table.rows.length),
    Math.floor(((event.clientX - box.left) / box.width) * heatMap.table.steps));
});
heatMap.canvas.addEventListener('keydown', (event) => {
  if (!heatMap.table) return;
  const [row, column] = heatMap.cursor || [0, heatMap.table.steps];
  const moves = {
    ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1],
    ArrowRight: [row, column + 1], Home: [row, 0], End: [row, heatMap.table.steps - 1],
  };
  if (!moves[event.key]) return;
  event.preventDefault();
  moveCursor(...moves[event.key]);
});
const redraw = () => {
  if (!heatMap.table) return;
  drawLegend();
  drawHeatMap();
};
byId('map-mode').addEventListener('change', (event) => {
  heatMap.mode = event.target.value;
  redraw();
});
DARK.addEventListener('change', redraw);
addEventListener('resize', redraw);
