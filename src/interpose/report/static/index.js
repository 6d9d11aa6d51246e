var runs = data.runs;
var body = el('tbody');
var search = el('input');
search.type = 'search';
search.placeholder = 'Find a run  ( / )';
search.setAttribute('aria-label', 'Find a run');

function rowOf(run) {
  var link = el('a', '', run.name);
  link.href = encodeURIComponent(run.folder) + '/index.html';
  var told = [run.name, run.id, run.thread_id, run.outcome, run.error].join(' ').toLowerCase();
  return {
    told: told,
    row: el('tr', '',
      el('td', '', link, el('div', 'dim mono', run.id)),
      el('td', '', pill(run.outcome), run.error ? el('div', 'dim', run.error.slice(0, 120)) : null),
      el('td', 'hide', date(run.started_at)),
      el('td', 'n', time(run.duration_ms)),
      el('td', 'n hide', count(run.steps)),
      el('td', 'n hide', count(run.tool_calls)),
      el('td', 'n hide', tokens(run.usage)),
      el('td', 'n hide', money(run.usage && run.usage.cost_usd)))
  };
}
var rows = runs.map(rowOf);
body.append.apply(body, rows.map(function (one) { return one.row; }));

function head(label, cls) { return el('th', cls || '', label); }
page.textContent = '';
page.append(
  el('div', 'top', el('div', 'grow', el('div', 'title', el('h1', '', 'Runs')),
    el('div', 'sub', count(runs.length) + (runs.length === 1 ? ' run' : ' runs') + ', newest first')), search, themeButton()),
  el('div', 'panel wide', runs.length ? el('table', '', el('thead', '', el('tr', '', head('Run'), head('Outcome'),
    head('Started', 'hide'), head('Time', 'n'), head('Steps', 'n hide'), head('Tools', 'n hide'), head('Tokens', 'n hide'),
    head('Cost', 'n hide'))), body) : el('div', 'empty', 'No runs yet.')));
page.querySelector('.panel').style.marginTop = '16px';

on(search, 'input', function () {
  var wanted = search.value.toLowerCase();
  rows.forEach(function (one) { one.row.hidden = one.told.indexOf(wanted) < 0; });
});
on(document, 'keydown', function (event) {
  if (event.key === '/' && document.activeElement !== search) { event.preventDefault(); search.focus(); }
});
