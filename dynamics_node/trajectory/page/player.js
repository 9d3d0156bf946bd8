// The player: one time for the scene, the slider and the plots.

function start(document, window) {
  const data = JSON.parse(document.getElementById("data").textContent);
  const get = (id) => document.getElementById(id);
  const state = { t: data.time[0], playing: false, last: null, view: camera(data), drawn: false };
  state.visible = { names: data.names.length <= 20, paths: data.paths.length > 0 };
  state.chosen = new Set(coordinatesOf(data).slice(0, 7));
  const redraw = () => {
    if (state.drawn) return;
    state.drawn = true;
    window.requestAnimationFrame(() => { state.drawn = false; draw(); });
  };
  const panels = panelsOf(data.curves).map((panel) => addPanel(document, panel, data, (t) => seek(t)));

  function draw() {
    const [context, width, height] = sized(window, get("scene"));
    drawScene(context, width, height, data, state.view, state.t, state.visible);
    for (const panel of panels) showPanel(document, window, panel, data, state);
    get("time").value = String(state.t);
    get("clock").textContent = `${state.t.toFixed(3)} s of ${data.time[data.time.length - 1].toFixed(3)}`;
  }

  function seek(t) {
    state.t = Math.min(data.time[data.time.length - 1], Math.max(data.time[0], t));
    redraw();
  }

  function tick(now) {
    if (!state.playing) return;
    const passed = state.last === null ? 0 : Math.min(0.1, (now - state.last) / 1000);
    const end = data.time[data.time.length - 1], next = state.t + passed * Number(get("speed").value);
    state.t = next <= end ? next : data.time[0];
    state.last = now;
    draw();
    window.requestAnimationFrame(tick);
  }

  function play(playing) {
    Object.assign(state, { playing, last: null });
    get("play").textContent = playing ? "Pause" : "Play";
    if (playing) window.requestAnimationFrame(tick);
  }

  Object.assign(get("time"), { min: data.time[0], max: data.time[data.time.length - 1], step: "any" });
  get("time").addEventListener("input", () => { play(false); seek(Number(get("time").value)); });
  get("play").addEventListener("click", () => play(!state.playing));
  document.addEventListener("keydown", (event) => onKey(event, data, state, play, seek));
  for (const id of ["names", "paths"]) {
    get(id).checked = state.visible[id];
    get(id).addEventListener("change", () => { state.visible[id] = get(id).checked; redraw(); });
  }
  addChoices(document, data, state, redraw);
  steer(get("scene"), state.view, redraw);
  window.addEventListener("resize", redraw);
  const still = window.matchMedia && window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  play(!still);
  draw();
}

const coordinatesOf = (data) => [...new Set(data.curves.map((curve) => curve.name))];

// Space plays and pauses, arrows go to the previous or next frame.
function onKey(event, data, state, play, seek) {
  if (["INPUT", "SELECT", "BUTTON"].includes(event.target.tagName)) return;
  const k = indexAt(data.time, state.t);
  if (event.key === " ") play(!state.playing);
  else if (event.key === "ArrowRight") seek(data.time[Math.min(k + 1, data.time.length - 1)]);
  else if (event.key === "ArrowLeft") seek(data.time[Math.max(k - (state.t > data.time[k] ? 0 : 1), 0)]);
  else return;
  event.preventDefault();
}

// Match the canvas to the screen resolution: [context, width, height] in CSS pixels.
function sized(window, canvas) {
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return [context, width, height];
}

function addPanel(document, panel, data, seek) {
  const box = document.createElement("div"), title = document.createElement("h2");
  const canvas = document.createElement("canvas");
  title.textContent = panel.title;
  box.append(title, canvas);
  document.getElementById("plots").append(box);
  const at = (event) => scales(data.time, [], canvas.clientWidth, 100).t(event.offsetX);
  canvas.addEventListener("pointerdown", (event) => seek(at(event)));
  canvas.addEventListener("pointermove", (event) => { if (event.buttons) seek(at(event)); });
  return { ...panel, box, canvas, picture: document.createElement("canvas"), key: "" };
}

// Curves are redrawn only for a new size or selection, the cursor every time.
function showPanel(document, window, panel, data, state) {
  const curves = panel.curves.filter((curve) => state.chosen.has(curve.name));
  panel.box.hidden = curves.length === 0;
  if (panel.box.hidden) return;
  const [context, width, height] = sized(window, panel.canvas);
  const key = [panel.canvas.width, panel.canvas.height, ...curves.map((curve) => curve.color)].join();
  if (key !== panel.key) {
    const ratio = window.devicePixelRatio || 1;
    Object.assign(panel.picture, { width: panel.canvas.width, height: panel.canvas.height });
    const picture = panel.picture.getContext("2d");
    picture.setTransform(ratio, 0, 0, ratio, 0, 0);
    drawPlot(picture, width, height, data.time, curves);
    panel.key = key;
  }
  context.clearRect(0, 0, width, height);
  if (panel.picture.width) context.drawImage(panel.picture, 0, 0, width, height);
  drawCursor(context, width, height, data.time, curves, state.t);
}

function addChoices(document, data, state, redraw) {
  const colors = new Map(data.curves.map((curve) => [curve.name, curve.color]));
  for (const name of coordinatesOf(data)) {
    const label = document.createElement("label"), box = document.createElement("input");
    const mark = document.createElement("i");
    box.type = "checkbox";
    box.checked = state.chosen.has(name);
    mark.style.background = PALETTE[colors.get(name) % PALETTE.length];
    box.addEventListener("change", () => {
      if (box.checked) state.chosen.add(name);
      else state.chosen.delete(name);
      redraw();
    });
    label.append(box, mark, document.createTextNode(name));
    document.getElementById("chosen").append(label);
  }
}

start(document, window);
