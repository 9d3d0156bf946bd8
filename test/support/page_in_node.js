// Runs the script of a page with a minimal document and prints the drawing operations.
// node page_in_node.js PAGE.html < actions, a JSON list of [id, event, {fields}]
const fs = require("fs"), vm = require("vm");
const html = fs.readFileSync(process.argv[2], "utf-8");
const actions = JSON.parse(fs.readFileSync(0, "utf-8"));

function context(drawn) {
  const record = {};
  return new Proxy(record, {
    get: (target, name) => name in target ? target[name] : (...parts) => {
      if (name === "drawImage") drawn.push(...parts[0].drawn.map((op) => op));
      else if (name === "clearRect") drawn.length = 0;
      else drawn.push([name, parts, { stroke: target.strokeStyle, fill: target.fillStyle, width: target.lineWidth,
        alpha: target.globalAlpha, align: target.textAlign }]);
    },
    set: (target, name, value) => { target[name] = value; return true; },
  });
}

function element(tag) {
  const made = { tagName: tag.toUpperCase(), children: [], style: {}, listeners: {}, drawn: [], textContent: "",
    clientWidth: 640, clientHeight: 400, width: 0, height: 0, hidden: false, checked: false, value: "1" };
  made.append = (...parts) => made.children.push(...parts);
  made.addEventListener = (kind, call) => { (made.listeners[kind] = made.listeners[kind] || []).push(call); };
  made.setPointerCapture = () => {};
  made.context = context(made.drawn);
  made.getContext = () => made.context;
  return new Proxy(made, { set: (target, name, value) => {
    if (name === "innerHTML") throw new Error("innerHTML is never set");
    target[name] = value;
    return true;
  } });
}

const elements = {};
for (const [, tag, id] of html.matchAll(/<(\w+)[^>]* id="(\w+)"/g)) elements[id] = element(tag);
const [, data] = html.match(/<script id="data" type="application\/json">([^]*?)<\/script>/);
const [, script] = html.match(/<script>([^]*?)<\/script>/);
elements.data.textContent = data;
const waiting = [];
const window = element("window"), document = element("document");
window.requestAnimationFrame = (call) => waiting.push(call);
window.devicePixelRatio = 2;
document.getElementById = (id) => elements[id];
document.createElement = element;
document.createTextNode = (text) => ({ textContent: text });

let now = 0;
function settle(frames) {
  for (let k = 0; k < frames && waiting.length; k += 1) {
    now += 50;
    for (const call of waiting.splice(0)) call(now);
  }
}

vm.runInNewContext(script, { document, window, console });
settle(3);
for (const [id, kind, fields] of actions) {
  const target = id === "document" ? document : elements[id];
  const { set, frames, ...event } = fields;
  Object.assign(target, set || {});
  for (const call of target.listeners[kind] || []) {
    call({ target, preventDefault() {}, ...event });
  }
  settle(frames || 2);
}
const panels = elements.plots.children.map((box) => ({ title: box.children[0].textContent, hidden: box.hidden,
  drawn: box.children[1].drawn }));
const chosen = elements.chosen.children.map((label) => [label.children[2].textContent, label.children[0].checked]);
console.log(JSON.stringify({ scene: elements.scene.drawn, panels, chosen, clock: elements.clock.textContent,
  play: elements.play.textContent }));
