var run = data.run, nodes = data.nodes, byId = {}, rows = {}, order = [], selected = null;
nodes.forEach(function (node) {
  var content = node.content || {};
  byId[node.id] = node;
  node.children = [];
  node.in = content.in || undefined;
  node.out = content.out || undefined;
});
nodes.forEach(function (node) { var up = byId[node.parent_id]; if (up) up.children.push(node); });
var root = nodes[0], begin = root.started_at * 1000, span = Math.max(root.duration_ms || 0, 0.001);

function pick(table, ranges) {
  var all = [];
  (ranges || []).forEach(function (one) { for (var i = 0; i < one[1]; i++) all.push(table[one[0] + i]); });
  return all;
}
function messagesOf(node) {
  var given = node.in && node.in.messages;
  return !given ? [] : node.kind === 'model' ? pick(data.messages, given) : given;
}
function label(node) { return node.kind === 'step' ? 'step ' + node.step : node.name; }
function isBad(node) { return node.status === 'error'; }

// The tree with its times.

function tags(node) {
  var all = [];
  if (node.call_class && node.call_class !== 'agent') all.push(el('span', 'tag', node.call_class));
  if (node.made_by) all.push(el('span', 'tag', 'made by ' + node.made_by));
  if (node.attempts > 1) all.push(el('span', 'tag', node.attempts + ' attempts'));
  if (node.superseded) all.push(el('span', 'tag', 'superseded'));
  if (node.outcome === 'interrupted') all.push(el('span', 'tag wait', 'waits'));
  if (node.outcome === 'aborted') all.push(el('span', 'tag bad', 'aborted'));
  if (node.changes && node.kind !== 'run') all.push(el('span', 'tag', 'Δ ' + node.changes.length));
  return all;
}
function rowOf(node, depth) {
  var mood = isBad(node) ? ' error' : node.outcome === 'interrupted' ? ' waits' : '';
  var row = el('div', 'row ' + node.kind + mood);
  row.style.setProperty('--depth', depth);
  row.setAttribute('role', 'treeitem');
  row.setAttribute('aria-level', depth + 1);
  row.setAttribute('aria-selected', 'false');
  row.id = 'row-' + order.length;
  row.dataset.id = node.id;
  var twisty = el('button', 'twisty', node.children.length ? '▾' : '');
  twisty.tabIndex = -1;
  twisty.setAttribute('aria-hidden', 'true');
  var bar = el('div', 'bar ' + node.kind + (isBad(node) ? ' bad' : node.outcome === 'interrupted' ? ' wait' : ''));
  var left = Math.min(Math.max((node.started_at * 1000 - begin) / span * 100, 0), 100);
  bar.style.left = left + '%';
  bar.style.width = Math.min(Math.max((node.duration_ms || 0) / span * 100, 0), 100 - left) + '%';
  var name = el('span', 'name', label(node));
  name.title = label(node);
  row.append(el('div', 'what', twisty, el('span', 'dot ' + node.kind), name, tags(node)), el('div', 'track', bar),
    el('div', 'ms', time(node.duration_ms)));
  if (node.children.length) row.setAttribute('aria-expanded', 'true');
  rows[node.id] = { row: row, node: node, open: true, twisty: twisty, depth: depth };
  order.push(node.id);
  return row;
}
function grow(into) {
  // A stack of our own: a tree may be deeper than the browser's.
  var todo = [[root, 0]];
  while (todo.length) {
    var next = todo.pop();
    into.append(rowOf(next[0], next[1]));
    for (var i = next[0].children.length - 1; i >= 0; i--) todo.push([next[0].children[i], next[1] + 1]);
  }
}
function refresh() {
  var wanted = search.value.toLowerCase(), shown = {};
  if (wanted) {
    order.forEach(function (id) {
      var node = byId[id];
      if (node.told === undefined) node.told = told(node);
      if (node.told.indexOf(wanted) < 0) return;
      for (var up = node; up && !shown[up.id]; up = byId[up.parent_id]) shown[up.id] = true;
    });
  }
  var hiddenBelow = Infinity;
  order.forEach(function (id) {
    var one = rows[id];
    if (one.depth <= hiddenBelow) hiddenBelow = Infinity;
    one.row.hidden = wanted ? !shown[id] : one.depth > hiddenBelow;
    if (!wanted && !one.open && hiddenBelow === Infinity) hiddenBelow = one.depth;
  });
}
function told(node) {
  var given = node.kind === 'model' ? messagesOf(node).slice(-2) : node.in;
  return [label(node), node.error, JSON.stringify([given, node.out, node.meta, node.changes])].join(' ').toLowerCase();
}
function fold(id, open) {
  var one = rows[id];
  if (!one.node.children.length || one.open === open) return;
  one.open = open;
  one.twisty.textContent = open ? '▾' : '▸';
  one.row.setAttribute('aria-expanded', String(open));
  refresh();
}
var STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 3e4, 6e4, 12e4, 3e5, 6e5, 12e5, 18e5, 36e5, 72e5,
  144e5, 432e5, 864e5];
function axis() {
  // Round times, at most five: of a very short run in tenths and hundredths of a millisecond, of a long one in days.
  var ticks = el('div', 'ticks'), unit = span < 4 ? 0.01 : span > 3e8 ? 864e5 : 1;
  var step = unit * (STEPS.find(function (one) { return span / (one * unit) <= 4.3; }) || STEPS[STEPS.length - 1]);
  for (var n = 0; n * step <= span && n < 5; n++) {
    var at = n * step / span, tick = el('span', at > 0.93 ? 'end' : '', n ? round(n * step) : '0');
    tick.style.left = at * 100 + '%';
    ticks.append(tick);
  }
  return el('div', 'axis', el('span', '', 'Node'), ticks, el('span'));
}

function round(ms) {
  return time(ms).replace(/(\.\d*?)0+ /, '$1 ').replace('. ', ' ').replace(/(min|h) 0 (s|min)$/, '$1');
}

// The details of one node.

function pretty(value) {
  if (typeof value === 'string') {
    var first = value.trim()[0];
    if ((first === '{' || first === '[') && value.length < 200000) {
      try { return JSON.stringify(JSON.parse(value), null, 2); } catch (e) { return value; }
    }
    return value;
  }
  return JSON.stringify(value, null, 2);
}
function block(value, cls) { return el('pre', cls || '', pretty(value)); }
function section(into, name, content) {
  if (content === null || content === undefined) return;
  into.append(el('h2', '', name));
  add(into, content);
}
function messageOf(message) {
  var box = el('div', 'message ' + message.role);
  var head = el('header', '', el('b', '', message.role), message.name ? el('span', 'mono', message.name) : null,
    message.tool_call_id ? el('span', 'mono', message.tool_call_id) : null,
    message.is_error ? el('span', 'tag bad', 'error') : null);
  box.append(head);
  if (message.reasoning) box.append(el('div', 'body thought', message.reasoning));
  box.append(el('div', 'body', message.role === 'tool' ? pretty(message.text || '') : message.text || ''));
  (message.parts || []).forEach(function (part) { box.append(part.media_type ? attached(part) : el('div', 'call', block(part))); });
  (message.tool_calls || []).forEach(function (call) {
    box.append(el('div', 'call', el('div', '', el('span', 'mono', '→ ' + call.name), ' ',
      el('span', 'dim mono', call.id), call.edited_by ? el('span', 'tag wait', 'edited by ' + call.edited_by) : null),
      block(call.raw !== undefined ? call.raw : call.args)));
  });
  return box;
}
function attached(part) {
  var size = part.size_bytes, box = el('div', 'attached', el('b', '', part.type));
  function tell(text) { if (text) box.append(' ', el('span', 'mono', text)); }
  [part.name, part.url, part.file_id, part.media_type].forEach(tell);
  if (size !== undefined) tell(size < 1000 ? size + ' bytes' : size < 1e6 ? (size / 1e3).toFixed(1) + ' kB' : (size / 1e6).toFixed(1) + ' MB');
  return box;
}
function talk(messages, last) {
  var box = el('div'), hidden = messages.length - last;
  if (hidden > 0) {
    var more = el('button', 'more', 'Show ' + hidden + ' earlier message' + (hidden > 1 ? 's' : ''));
    on(more, 'click', function () {
      more.replaceWith.apply(more, messages.slice(0, hidden).map(messageOf));
    });
    box.append(more);
  }
  messages.slice(Math.max(hidden, 0)).forEach(function (one) { box.append(messageOf(one)); });
  return box;
}
function delta(change) {
  var old = change.old, now = change.new;
  if (Array.isArray(old) && Array.isArray(now)) {
    return [old.filter(function (one) { return now.indexOf(one) < 0; }).map(function (one) { return el('div', 'delta old', '− ' + one); }),
      now.filter(function (one) { return old.indexOf(one) < 0; }).map(function (one) { return el('div', 'delta new', '+ ' + one); })];
  }
  if (typeof old === 'string' && typeof now === 'string' && old && now) return linesOf(old.split('\n'), now.split('\n'));
  function side(value, cls, sign) {
    if (value === undefined || value === null || value === '') return null;
    if (value && Array.isArray(value.differ)) {
      return [el('div', 'dim', sign + ' ' + value.count + ' messages; from number ' + value.from + ' on:'),
        value.differ.map(function (one) { return el('div', 'delta ' + cls, sign + ' ' + one); })];
    }
    return el('div', 'delta ' + cls, sign + ' ' + (typeof value === 'string' ? value : JSON.stringify(value)));
  }
  return [side(old, 'old', '−'), side(now, 'new', '+')];
}
function linesOf(old, now) {
  // What is the same at the beginning and at the end stands there once, two lines of it.
  var shorter = Math.min(old.length, now.length), head = 0, tail = 0;
  while (head < shorter && old[head] === now[head]) head++;
  while (tail < shorter - head && old[old.length - 1 - tail] === now[now.length - 1 - tail]) tail++;
  function part(lines, cls, sign) {
    return lines.length ? el('div', 'delta ' + cls, lines.map(function (line) { return sign + ' ' + line; }).join('\n')) : null;
  }
  return [part((head > 2 ? ['…'] : []).concat(old.slice(Math.max(head - 2, 0), head)), 'same', ' '),
    part(old.slice(head, old.length - tail), 'old', '−'), part(now.slice(head, now.length - tail), 'new', '+'),
    part(old.slice(old.length - tail, old.length - tail + 2).concat(tail > 2 ? ['…'] : []), 'same', ' ')];
}
function changesOf(node) {
  return (node.changes || []).map(function (one) {
    return el('div', 'change', el('div', 'who', el('b', '', one.middleware), el('span', 'dim', one.hook ? '.' + one.hook : ''),
      ' changed ', el('span', 'mono', one.field)), delta(one));
  });
}
function facts(node) {
  var list = el('dl', 'facts'), usage = node.usage || {};
  function fact(name, value) { if (value !== undefined && value !== null && value !== '—') list.append(el('dt', '', name), el('dd', '', value)); }
  fact('started', '+' + time(node.started_at * 1000 - begin));
  fact('took', time(node.duration_ms));
  fact('provider', node.provider);
  fact('call class', node.call_class);
  fact('tokens', tokens(node.usage));
  fact('cached', usage.cache_read_tokens ? count(usage.cache_read_tokens) + ' read' : null);
  fact('reasoning', usage.reasoning_tokens ? count(usage.reasoning_tokens) + ' tokens' : null);
  fact('cost', money(usage.cost_usd));
  fact('attempts', node.kind === 'model' ? String(node.attempts || 0) : null);
  fact('made by', node.made_by);
  fact('finish reason', node.finish_reason);
  fact('resumed from', node.resumed_from);
  fact('call id', node.tool_call_id);
  fact('id', el('span', 'mono', node.id));
  return list;
}
function toolsOf(node) {
  return pick(data.tools, node.in && node.in.tools).map(function (tool) {
    return el('details', '', el('summary', 'mono', tool.name), tool.description ? el('p', '', tool.description) : null, block(tool.parameters));
  });
}
function show(node) {
  details.textContent = '';
  details.append(on(el('button', 'quiet close', '← back'), 'click', function () { details.classList.remove('open'); }));
  details.append(el('div', 'title', el('span', 'dot ' + node.kind), el('h1', '', label(node)), pill(node.outcome || 'running')), facts(node));
  details.querySelector('.dot').style.cssText = 'width:12px;height:12px;border-radius:4px';
  if (node.error && !(node.out && node.out.is_error && node.out.data === node.error)) section(details, 'Error', block(node.error, 'err'));
  if (node.failures) section(details, 'Failed attempts', node.failures.map(function (one) { return block(one, 'err'); }));
  if (node.changes) section(details, 'Changed on the way', changesOf(node));
  if (node.meta) section(details, 'Meta', block(node.meta));
  var given = node.in, out = node.out;
  if (node.kind === 'tool') {
    if (given) section(details, 'Arguments', block(given.raw !== undefined ? given.raw : given.args));
    if (out) section(details, 'Result', block(out.data, out.is_error ? 'err' : 'out'));
  } else if (node.kind === 'model') {
    if (out) section(details, 'Answer', messageOf(out));
    if (given && given.instructions) section(details, 'Instructions', block(given.instructions));
    if (given) section(details, 'Messages sent (' + messagesOf(node).length + ')', talk(messagesOf(node), 4));
    if (given && given.tools) section(details, 'Tools offered', toolsOf(node));
    ['settings', 'output_schema', 'metadata'].forEach(function (name) {
      if (given && given[name]) section(details, name.replace('_', ' '), block(given[name]));
    });
  } else if (node.kind === 'run') {
    if (given) section(details, 'Given', given.messages ? talk(given.messages, 4) : block(given));
    if (out && out.text) section(details, 'Text', el('pre', 'out', out.text));
    if (out && out.output !== undefined) section(details, 'Output', block(out.output, 'out'));
    if (out && out.interrupts) section(details, 'Waits for', out.interrupts.map(function (one) { return block(one); }));
  }
  details.scrollTop = 0;
}
function select(id, open) {
  if (!rows[id]) return;
  if (selected) rows[selected].row.setAttribute('aria-selected', 'false');
  selected = id;
  var row = rows[id].row;
  row.setAttribute('aria-selected', 'true');
  tree.setAttribute('aria-activedescendant', row.id);
  show(byId[id]);
  if (open) details.classList.add('open');
  row.scrollIntoView({ block: 'nearest' });
}

// The other views.

function conversation() {
  var own = nodes.filter(function (node) { return node.kind === 'model' && node.run_id === run.id && node.call_class !== 'summary'; });
  var last = own[own.length - 1], messages = last ? messagesOf(last) : messagesOf(root);
  if (last && last.out) messages = messages.concat([last.out]);
  return el('div', 'talk', messages.length ? talk(messages, 60) : el('div', 'empty', 'This report has no contents.'));
}
function stepTable() {
  var body = el('tbody');
  nodes.filter(function (node) { return node.kind === 'step' && node.run_id === run.id; }).forEach(function (step) {
    var calls = step.children.filter(function (one) { return one.kind === 'model'; });
    var tools = step.children.filter(function (one) { return one.kind === 'tool'; });
    var usage = step.usage || {};
    body.append(el('tr', '', el('td', 'n', String(step.step)),
      el('td', '', calls.map(function (one) { return one.name; }).join(', ')),
      el('td', '', el('div', 'chips', tools.map(function (one) { return el('span', 'tag' + (isBad(one) ? ' bad' : ''), one.name); }))),
      el('td', 'n', count(usage.input_tokens)), el('td', 'n', count(usage.output_tokens)), el('td', 'n', money(usage.cost_usd)),
      el('td', 'n', time(step.duration_ms)), el('td', '', pill(step.outcome || 'running'))));
  });
  var total = run.usage || {};
  function head(text, cls) { return el('th', cls || '', text); }
  return el('div', 'panel wide', el('table', '',
    el('thead', '', el('tr', '', head('Step', 'n'), head('Model'), head('Tools'), head('Tokens in', 'n'), head('out', 'n'), head('Cost', 'n'), head('Time', 'n'), head('Outcome'))),
    body, el('tfoot', '', el('tr', '', el('td'), el('td', '', 'All'), el('td'), el('td', 'n', count(total.input_tokens)),
      el('td', 'n', count(total.output_tokens)), el('td', 'n', money(total.cost_usd)), el('td', 'n', time(run.duration_ms)), el('td')))));
}

// The page.

var search = el('input');
search.type = 'search';
search.placeholder = 'Find in this run  ( / )';
search.setAttribute('aria-label', 'Find in this run');
var tree = el('div', 'tree panel');
tree.tabIndex = 0;
tree.setAttribute('role', 'tree');
tree.setAttribute('aria-label', 'Nodes of the run');
tree.append(axis());
var details = el('aside', 'details panel');
details.setAttribute('aria-label', 'Details');
grow(tree);
var views = { Timeline: el('div', 'split', tree, details), Conversation: null, Steps: null };
var makers = { Conversation: conversation, Steps: stepTable }, tabs = {}, holder = el('div');
function view(name) {
  if (!views[name]) views[name] = makers[name]();
  Object.keys(tabs).forEach(function (one) { tabs[one].setAttribute('aria-selected', String(one === name)); });
  holder.replaceChildren(views[name]);
}
function card(value, name) { return el('div', 'card', el('b', '', value), el('span', '', name)); }
var bar = el('div', 'tabs');
bar.setAttribute('role', 'tablist');
Object.keys(views).forEach(function (name) {
  tabs[name] = on(el('button', '', name), 'click', function () { view(name); });
  tabs[name].setAttribute('role', 'tab');
  bar.append(tabs[name]);
});
bar.append(el('div', 'find', search));
var back = el('a', 'quiet', 'All runs');
back.href = '../index.html';
var usage = run.usage || {};
page.textContent = '';
page.append(
  el('div', 'top', el('div', 'grow', el('div', 'title', el('h1', '', run.name), pill(run.outcome),
    run.finish_reason && run.finish_reason !== 'stop' ? el('span', 'pill', run.finish_reason) : null),
    el('div', 'sub', el('span', 'mono', run.id), el('span', '', date(run.started_at)), el('span', '', 'thread ', el('span', 'mono', run.thread_id)),
      run.resumed_from ? el('span', '', 'resumed from ', el('span', 'mono', run.resumed_from)) : null)), back, themeButton()),
  el('div', 'cards', card(time(run.duration_ms), 'time'), card(count(run.steps), 'steps'), card(count(run.model_calls), 'model calls'),
    card(count(run.tool_calls), 'tool calls'), card(tokens(usage), 'tokens in → out'), card(money(usage.cost_usd), 'cost')));
if (run.error) page.append(el('div', 'problem', run.error));
page.append(bar, holder);
view('Timeline');
select((nodes.find(function (node) { return isBad(node) && node.kind !== 'run' && node.kind !== 'step'; }) || root).id);
scrollTo(0, 0);

on(tree, 'click', function (event) {
  var row = event.target.closest('.row');
  if (!row) return;
  if (event.target.closest('.twisty')) fold(row.dataset.id, !rows[row.dataset.id].open);
  else select(row.dataset.id, true);
});
on(search, 'input', function () { view('Timeline'); refresh(); });
function step(by) {
  var shown = order.filter(function (id) { return !rows[id].row.hidden; });
  var next = shown[shown.indexOf(selected) + by];
  if (next) select(next);
}
on(document, 'keydown', function (event) {
  if (event.key === '/' && document.activeElement !== search) { event.preventDefault(); search.focus(); return; }
  if (event.key === 'Escape') {
    if (details.classList.contains('open')) details.classList.remove('open');
    else if (document.activeElement === search) { search.value = ''; refresh(); search.blur(); }
    return;
  }
  if (document.activeElement === search || event.ctrlKey || event.metaKey || event.altKey) return;
  var one = rows[selected];
  switch (event.key) {
    case 'ArrowDown': case 'j': step(1); break;
    case 'ArrowUp': case 'k': step(-1); break;
    case 'ArrowRight': if (one.open) step(1); else fold(selected, true); break;
    case 'ArrowLeft': if (one.open && one.node.children.length) fold(selected, false); else if (rows[one.node.parent_id]) select(one.node.parent_id); break;
    case 'Enter': details.classList.add('open'); break;
    default: return;
  }
  event.preventDefault();
});
