// Helpers for elements, texts and numbers. User-provided text enters the page only as text
// (textContent); the page's policy forbids everything that would parse it.

const byId = (id) => document.getElementById(id);

// Makes an element with properties. Its children are elements; text is set by setText or by the
// property textContent.
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  Object.assign(element, properties);
  element.append(...children);
  return element;
}

const SVG = 'http://www.w3.org/2000/svg';

function makeSvg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Does nothing if the text is the same, so that selections and screen readers are not disturbed.
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function show(element, shown) {
  if (element.hidden === shown) element.hidden = !shown;
}

// Makes the children of `parent` match `items`, in their order. An element persists while an item
// has its key, and so keeps the focus. Keys must be unique.
function showList(parent, items, keyOf, create, update) {
  const known = new Map(Array.from(parent.children, (child) => [child.dataset.key, child]));
  let place = parent.firstChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let child = known.get(key);
    if (!child) {
      child = create(item);
      child.dataset.key = key;
    }
    update(child, item);
    if (child === place) {
      place = place.nextSibling;
    } else {
      parent.insertBefore(child, place);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

// Shows a hint above a box that scrolls sideways while its content does not fit.
function watchOverflow(box) {
  const hint = make('p', {
    className: 'quiet hint', textContent: 'Scroll sideways for more columns →', hidden: true,
  });
  box.before(hint);
  const look = new ResizeObserver(() => show(hint, box.scrollWidth > box.clientWidth + 4));
  look.observe(box);
  for (const child of box.children) look.observe(child);
}
document.querySelectorAll('.scroll').forEach(watchOverflow);

const NONE = '–';

// At least `count` digits, including all digits before the point.
function digits(value, count) {
  const text = value.toPrecision(count);
  return text.includes('e') && Math.abs(value) >= 1 ? value.toFixed(0) : text;
}

// Three digits, with the unit that fits.
function seconds(value) {
  if (value === null || value === undefined) return NONE;
  if (value >= 1) return `${digits(value, 3)} s`;
  if (value >= 1e-3) return `${digits(value * 1e3, 3)} ms`;
  return `${digits(value * 1e6, 3)} µs`;
}

function number(value, count = 3) {
  if (value === null || value === undefined) return NONE;
  for (const [from, unit, suffix] of [[1e12, 1e12, 'T'], [1e9, 1e9, 'G'], [1e6, 1e6, 'M'],
    [1e4, 1e3, 'k']]) {
    if (Math.abs(value) >= from) return digits(value / unit, count) + suffix;
  }
  return Number.isInteger(value) ? String(value) : digits(value, count);
}

function percent(value) {
  return value === null || value === undefined ? NONE : `${(value * 100).toFixed(0)} %`;
}

function bytes(value) {
  return value === null ? NONE : `${digits(value / 2 ** 30, 3)} GiB`;
}

function ago(then, now) {
  const passed = Math.max(0, now - then);
  if (passed < 60) return `${Math.floor(passed)} s ago`;
  if (passed < 3600) return `${Math.floor(passed / 60)} min ago`;
  if (passed < 86400) return `${Math.floor(passed / 3600)} h ago`;
  return `${Math.floor(passed / 86400)} d ago`;
}

function plural(count, one, many = `${one}s`) {
  return `${count} ${count === 1 ? one : many}`;
}
