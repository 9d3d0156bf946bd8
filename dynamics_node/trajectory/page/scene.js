// The robot: moving points with bars between them, viewed by a camera that the pointer rotates.

const FIELD = 0.6; // rad, of view

function camera(data) {
  const low = [Infinity, Infinity, Infinity], high = [-Infinity, -Infinity, -Infinity];
  for (const frame of data.points) {
    frame.forEach((x, k) => {
      if (x === null) return;
      low[k % 3] = Math.min(low[k % 3], x);
      high[k % 3] = Math.max(high[k % 3], x);
    });
  }
  const middle = low.map((x, k) => (Number.isFinite(x) ? (x + high[k]) / 2 : 0));
  const size = Math.max(0.1, Math.hypot(...low.map((x, k) => (Number.isFinite(x) ? high[k] - x : 0))));
  const reach = (data.planar ? 1.15 : 1.1) * size / (2 * Math.tan(FIELD / 2));
  return { planar: data.planar, target: middle, size, yaw: -1.0, pitch: 0.35, distance: reach };
}

// Axes of the picture: right, up, and toward the viewer.
function axesOf(view) {
  if (view.planar) return [[1, 0, 0], [0, 1, 0], [0, 0, 1]];
  const [cy, sy, cp, sp] = [Math.cos(view.yaw), Math.sin(view.yaw), Math.cos(view.pitch), Math.sin(view.pitch)];
  return [[-sy, cy, 0], [-sp * cy, -sp * sy, cp], [cp * cy, cp * sy, sp]];
}

const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];

// point -> [x, y, pixels a meter, depth], or null behind the camera.
function projection(view, width, height) {
  const axes = axesOf(view), focus = Math.min(width, height) / (2 * Math.tan(FIELD / 2));
  return (point) => {
    const seen = axes.map((axis) => dot(axis, [0, 1, 2].map((k) => point[k] - view.target[k])));
    const depth = view.planar ? view.distance : view.distance - seen[2];
    if (!(depth > 0.02 * view.distance)) return null;
    const scale = focus / depth;
    return [width / 2 + scale * seen[0], height / 2 - scale * seen[1], scale, view.distance - seen[2]];
  };
}

// Points at a time, interpolated between frames; null if unknown.
function pointsAt(data, t) {
  const k = indexAt(data.time, t), after = Math.min(k + 1, data.time.length - 1);
  const span = data.time[after] - data.time[k];
  const part = span > 0 ? Math.min(1, Math.max(0, (t - data.time[k]) / span)) : 0;
  const [a, b] = [data.points[k], data.points[after]], points = [];
  for (let i = 0; i < a.length; i += 3) {
    const known = [0, 1, 2].every((j) => a[i + j] !== null && b[i + j] !== null);
    points.push(known ? [0, 1, 2].map((j) => a[i + j] + part * (b[i + j] - a[i + j])) : null);
  }
  return points;
}

// Index of the last of increasing numbers that is at most x.
function indexAt(numbers, x) {
  let low = 0, high = numbers.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (numbers[middle] <= x) low = middle;
    else high = middle - 1;
  }
  return low;
}

// 1, 2 or 5 times a power of ten, near x.
function roundStep(x) {
  const power = 10 ** Math.floor(Math.log10(x));
  return power * [1, 2, 5, 10].find((n) => n * power >= x * 0.999);
}

function drawScene(context, width, height, data, view, t, visible) {
  context.clearRect(0, 0, width, height);
  const project = projection(view, width, height);
  drawGrid(context, view, project);
  if (visible.paths) drawPaths(context, data, project, t);
  const points = pointsAt(data, t), places = points.map((p) => (p ? project(p) : null));
  if (!view.planar) drawShadow(context, data, points, project);
  const bars = data.bars.filter(([i, j]) => places[i] && places[j]);
  bars.sort((a, b) => places[b[0]][3] + places[b[1]][3] - places[a[0]][3] - places[a[1]][3]);
  for (const [i, j, color] of bars) drawBar(context, view, places[i], places[j], color);
  if (visible.names) drawNames(context, data, places);
}

function drawLine(context, from, to) {
  if (!from || !to) return;
  context.beginPath();
  context.moveTo(from[0], from[1]);
  context.lineTo(to[0], to[1]);
  context.stroke();
}

function drawGrid(context, view, project) {
  const step = roundStep(view.size / 6), count = Math.ceil((1.5 * view.size) / step);
  const middle = view.target.map((x) => step * Math.round(x / step));
  const at = (a, b) => project([middle[0] + a * step, middle[1] + b * step, 0]);
  context.lineWidth = 1;
  for (let a = -count; a <= count; a += 1) {
    for (const across of [true, false]) {
      const axis = Math.abs(middle[across ? 0 : 1] + a * step) < 1e-9;
      context.strokeStyle = axis ? "#bbb" : "#ececec";
      for (let b = -count; b < count; b += 1) {
        drawLine(context, across ? at(a, b) : at(b, a), across ? at(a, b + 1) : at(b + 1, a));
      }
    }
  }
}

function drawShadow(context, data, points, project) {
  context.strokeStyle = "rgba(0, 0, 0, 0.10)";
  context.lineWidth = 4;
  context.lineCap = "round";
  const flat = points.map((p) => (p ? project([p[0], p[1], 0]) : null));
  for (const [i, j] of data.bars) drawLine(context, flat[i], flat[j]);
}

function drawBar(context, view, from, to, color) {
  const pixels = (0.02 * view.size * (from[2] + to[2])) / 2;
  const width = Math.min(16, Math.max(3, pixels));
  context.lineCap = "round";
  for (const [stroke, extra] of [["#fff", 3], [PALETTE[color % PALETTE.length], 0]]) {
    context.strokeStyle = stroke;
    context.lineWidth = width + extra;
    drawLine(context, from, to);
  }
  for (const place of [from, to]) {
    context.beginPath();
    context.arc(place[0], place[1], 0.35 * width, 0, 2 * Math.PI);
    context.fillStyle = "#fff";
    context.fill();
  }
}

function drawPaths(context, data, project, t) {
  const until = indexAt(data.time, t);
  context.strokeStyle = "rgba(192, 57, 43, 0.55)";
  context.lineWidth = 1.2;
  for (const point of data.paths) {
    let drawing = false;
    context.beginPath();
    for (let k = 0; k <= until; k += 1) {
      const p = data.points[k].slice(3 * point, 3 * point + 3);
      const place = p.includes(null) ? null : project(p);
      if (place && drawing) context.lineTo(place[0], place[1]);
      else if (place) context.moveTo(place[0], place[1]);
      drawing = place !== null;
    }
    context.stroke();
  }
}

function drawNames(context, data, places) {
  context.font = "12px system-ui, sans-serif";
  context.lineWidth = 3;
  context.strokeStyle = "rgba(255, 255, 255, 0.85)";
  context.fillStyle = "#333";
  for (const [point, name] of data.names) {
    if (!places[point]) continue;
    const [x, y] = places[point];
    context.strokeText(name, x + 9, y - 7);
    context.fillText(name, x + 9, y - 7);
  }
}

// Drag: rotate (in a plane: pan). Shift or another button: pan. Wheel: zoom. Double click: reset.
function steer(canvas, view, redraw) {
  const first = { ...view, target: [...view.target] };
  let last = null;
  canvas.addEventListener("pointerdown", (event) => {
    last = [event.clientX, event.clientY];
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", () => { last = null; });
  canvas.addEventListener("pointermove", (event) => {
    if (!last) return;
    const [dx, dy] = [event.clientX - last[0], event.clientY - last[1]];
    last = [event.clientX, event.clientY];
    if (view.planar || event.shiftKey || event.buttons > 1) shift(view, canvas, dx, dy);
    else turn(view, dx, dy);
    redraw();
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    view.distance *= Math.exp(0.001 * event.deltaY);
    redraw();
  }, { passive: false });
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  canvas.addEventListener("dblclick", () => {
    Object.assign(view, first, { target: [...first.target] });
    redraw();
  });
}

function turn(view, dx, dy) {
  view.yaw -= 0.008 * dx;
  view.pitch = Math.min(1.55, Math.max(-1.55, view.pitch + 0.008 * dy));
}

function shift(view, canvas, dx, dy) {
  const meters = (view.distance * 2 * Math.tan(FIELD / 2)) / Math.min(canvas.clientWidth, canvas.clientHeight);
  const [right, up] = axesOf(view);
  view.target = view.target.map((x, k) => x - meters * (dx * right[k] - dy * up[k]));
}
