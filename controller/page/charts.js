// Line charts without axes: small ones, and larger ones with an area. Curves with axes:
// curve_plot.js.

// Path through the known values, in a box of 100 by `height`; `low` is at the bottom.
function pathOf(values, low, high, height) {
  const step = values.length > 1 ? 100 / (values.length - 1) : 0;
  const range = high - low || 1;
  let path = '';
  let drawn = false;
  values.forEach((value, i) => {
    if (value === null) {
      drawn = false;
      return;
    }
    const y = height - 1.5 - ((value - low) / range) * (height - 3);
    path += `${drawn ? 'L' : 'M'}${(i * step).toFixed(2)} ${y.toFixed(2)}`;
    drawn = true;
  });
  return path;
}

function limits(values) {
  const known = values.filter((value) => value !== null);
  if (known.length === 0) return null;
  const low = Math.min(...known);
  const high = Math.max(...known);
  // Noise of one percent must not fill the chart.
  const slack = Math.max((high - low) * 0.05, Math.abs(high) * 0.04, 1e-9);
  return [low - slack, high + slack];
}

function makeLine(className, height) {
  const svg = makeSvg('svg', {
    class: className, viewBox: `0 0 100 ${height}`, preserveAspectRatio: 'none', role: 'img',
  });
  svg.append(makeSvg('path', { class: 'area' }), makeSvg('path', { class: 'line' }));
  return svg;
}

// `describe` returns the text for screen readers.
function updateLine(svg, values, describe) {
  const height = Number(svg.getAttribute('viewBox').split(' ')[3]);
  const [area, line] = svg.children;
  const range = limits(values);
  const path = range ? pathOf(values, range[0], range[1], height) : '';
  line.setAttribute('d', path);
  const whole = path !== '' && !values.includes(null) && values.length > 1;
  area.setAttribute('d', whole ? `${path}L100 ${height}L0 ${height}Z` : '');
  svg.setAttribute('aria-label', describe);
}

function makeSpark() {
  const svg = makeLine('spark', 20);
  svg.setAttribute('width', '80');
  svg.setAttribute('height', '20');
  return svg;
}

// A card with a title, the newest value and a line.
function makeChart(title) {
  const svg = makeLine('wide', 48);
  svg.setAttribute('width', '100%');
  svg.setAttribute('height', '48');
  return make('div', { className: 'card chart' },
    make('div', { className: 'row' }, make('span', { className: 'label', textContent: title }),
      make('span', { className: 'value' })),
    svg);
}

function updateChart(chart, title, values, format, when = 'of the last minutes') {
  const known = values.filter((value) => value !== null);
  const newest = known.length > 0 ? known[known.length - 1] : null;
  setText(chart.querySelector('.value'), format(newest));
  updateLine(chart.querySelector('svg'), values, known.length === 0 ? `${title}: nothing yet`
    : `${title} ${when}: now ${format(newest)}, between ${format(Math.min(...known))} `
      + `and ${format(Math.max(...known))}`);
}
