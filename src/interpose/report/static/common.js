var data = JSON.parse(document.getElementById('data').textContent);
var page = document.getElementById('page');

// Texts of a run become text nodes and nothing else.
function el(tag, cls) {
  var node = document.createElement(tag);
  if (cls) node.className = cls;
  for (var i = 2; i < arguments.length; i++) add(node, arguments[i]);
  return node;
}
function add(node, child) {
  if (child === null || child === undefined || child === false) return;
  if (Array.isArray(child)) child.forEach(function (one) { add(node, one); });
  else node.append(child instanceof Node ? child : visible(String(child)));
}
function visible(text) {
  // Control characters, and those that turn the text around, are shown as pictures.
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, function (c) {
    var code = c.charCodeAt(0);
    return code === 127 ? '\u2421' : String.fromCharCode(0x2400 + code);
  }).replace(/[\u202a-\u202e\u2066-\u2069]/g, '\ufffd');
}
function on(node, event, what) { node.addEventListener(event, what); return node; }

function time(ms) {
  if (ms === undefined || ms === null) return '—';
  if (ms < 1) return ms.toFixed(2) + ' ms';
  if (ms < 10) return ms.toFixed(1) + ' ms';
  if (ms < 1000) return Math.round(ms) + ' ms';
  if (ms < 60000) return (ms / 1000).toFixed(2) + ' s';
  if (ms < 3600000) return Math.floor(ms / 60000) + ' min ' + Math.round(ms % 60000 / 1000) + ' s';
  return Math.floor(ms / 3600000) + ' h ' + Math.round(ms % 3600000 / 60000) + ' min';
}
function count(n) { return n === undefined || n === null ? '—' : n.toLocaleString('en-US'); }
function money(usd) {
  if (usd === undefined || usd === null) return '—';
  return '$' + (usd === 0 ? '0' : usd < 0.01 ? usd.toPrecision(2) : usd.toFixed(4));
}
function tokens(usage) {
  if (!usage || usage.total_tokens === undefined) return '—';
  if (usage.input_tokens === undefined) return count(usage.total_tokens);
  return count(usage.input_tokens) + ' → ' + count(usage.output_tokens || 0);
}
function date(seconds) {
  var at = new Date(seconds * 1000);
  return isNaN(at) ? '—' : at.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
}
function pill(outcome) { return el('span', 'pill ' + outcome, outcome); }

function themeButton() {
  var root = document.documentElement, key = 'interpose-theme';
  function stored(value) {
    try { return value === undefined ? localStorage.getItem(key) : localStorage.setItem(key, value); } catch (e) { return null; }
  }
  var now = stored();
  if (now === 'dark' || now === 'light') root.dataset.theme = now;
  var button = el('button', 'quiet', '◐');
  button.title = 'Dark or light';
  button.setAttribute('aria-label', 'Dark or light');
  return on(button, 'click', function () {
    var dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.theme = dark ? 'light' : 'dark';
    stored(root.dataset.theme);
  });
}
