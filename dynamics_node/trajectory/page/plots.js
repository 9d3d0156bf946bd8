// Curves over time, one panel per kind and unit, with a cursor at the current time.

const PALETTE = ["#3b6ea8", "#c0392b", "#2e8b57", "#8e5aa8", "#d98c1f", "#2a9d9d", "#8c564b", "#5d6d7e",
  "#b5a21b", "#d0679d"];
const MARGIN = { left: 58, right: 10, top: 8, bottom: 22 };

// [{title, curves}] in order of first occurrence.
function panelsOf(curves) {
  const groups = new Map();
  for (const curve of curves) {
    const title = `${curve.kind} [${curve.unit}]`;
    if (!groups.has(title)) groups.set(title, []);
    groups.get(title).push(curve);
  }
  return [...groups].map(([title, members]) => ({ title, curves: members }));
}

// Lowest and highest value of the curves with their bands; never equal.
function range(curves) {
  let low = Infinity, high = -Infinity;
  for (const { values, band } of curves) {
    values.forEach((x, k) => {
      if (x === null) return;
      const wide = band && band[k] !== null ? band[k] : 0;
      low = Math.min(low, x - wide);
      high = Math.max(high, x + wide);
    });
  }
  if (low > high) return [-1, 1];
  const margin = 0.06 * (high - low) || Math.max(1e-9, 0.1 * Math.abs(high));
  return [low - margin, high + margin];
}

function ticks(low, high, count) {
  const step = roundStep((high - low) / count), values = [];
  for (let k = Math.ceil(low / step); k * step <= high; k += 1) values.push(k * step);
  return values;
}

function formatNumber(x) {
  if (x === null) return "";
  const size = Math.abs(x);
  return size !== 0 && (size < 1e-3 || size >= 1e5) ? x.toExponential(1) : String(Number(x.toPrecision(4)));
}

// x, y: numbers -> pixels, for the panel's curves.
function scales(time, curves, width, height) {
  const [low, high] = range(curves), [start, end] = [time[0], time[time.length - 1]];
  const span = end - start || 1;
  return {
    low, high,
    x: (t) => MARGIN.left + ((t - start) / span) * (width - MARGIN.left - MARGIN.right),
    y: (v) => height - MARGIN.bottom - ((v - low) / (high - low)) * (height - MARGIN.top - MARGIN.bottom),
    t: (x) => start + ((x - MARGIN.left) / (width - MARGIN.left - MARGIN.right)) * span,
  };
}

function drawPlot(context, width, height, time, curves) {
  context.clearRect(0, 0, width, height);
  const { x, y, low, high } = scales(time, curves, width, height);
  context.font = "11px system-ui, sans-serif";
  context.lineWidth = 1;
  context.fillStyle = "#666";
  context.strokeStyle = "#ececec";
  context.textAlign = "right";
  for (const v of ticks(low, high, 4)) {
    drawLine(context, [MARGIN.left, y(v)], [width - MARGIN.right, y(v)]);
    context.fillText(formatNumber(v), MARGIN.left - 6, y(v) + 4);
  }
  context.textAlign = "center";
  for (const t of ticks(time[0], time[time.length - 1] || 1, 6)) {
    drawLine(context, [x(t), MARGIN.top], [x(t), height - MARGIN.bottom]);
    context.fillText(formatNumber(t), x(t), height - 7);
  }
  for (const curve of curves) drawCurve(context, time, curve, x, y);
}

function drawCurve(context, time, { values, band, color }, x, y) {
  const stroke = PALETTE[color % PALETTE.length];
  if (band) {
    context.globalAlpha = 0.18;
    context.fillStyle = stroke;
    for (const [from, to] of pieces(values)) {
      context.beginPath();
      for (let k = from; k < to; k += 1) context.lineTo(x(time[k]), y(values[k] + (band[k] || 0)));
      for (let k = to - 1; k >= from; k -= 1) context.lineTo(x(time[k]), y(values[k] - (band[k] || 0)));
      context.fill();
    }
    context.globalAlpha = 1;
  }
  context.strokeStyle = stroke;
  context.lineWidth = 1.4;
  for (const [from, to] of pieces(values)) {
    context.beginPath();
    for (let k = from; k < to; k += 1) context.lineTo(x(time[k]), y(values[k]));
    context.stroke();
  }
}

// [from, to) of consecutive known values.
function pieces(values) {
  const ranges = [];
  let from = 0;
  for (let k = 0; k <= values.length; k += 1) {
    if (k < values.length && values[k] !== null) continue;
    if (k > from) ranges.push([from, k]);
    from = k + 1;
  }
  return ranges;
}

// The current time and the value of every curve.
function drawCursor(context, width, height, time, curves, t) {
  const { x, y } = scales(time, curves, width, height), k = indexAt(time, t);
  context.strokeStyle = "#888";
  context.lineWidth = 1;
  drawLine(context, [x(t), MARGIN.top], [x(t), height - MARGIN.bottom]);
  const right = x(t) > 0.7 * width;
  context.font = "11px system-ui, sans-serif";
  context.textAlign = right ? "right" : "left";
  for (const { values, color } of curves) {
    if (values[k] === null) continue;
    context.fillStyle = PALETTE[color % PALETTE.length];
    context.beginPath();
    context.arc(x(t), y(values[k]), 3, 0, 2 * Math.PI);
    context.fill();
    if (curves.length <= 4) context.fillText(formatNumber(values[k]), x(t) + (right ? -7 : 7), y(values[k]) - 5);
  }
}
