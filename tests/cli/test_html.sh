#!/usr/bin/env bash
# The report as a page from outside: written where it is asked for, made again from a report that was kept; and in a browser: its script runs
# to the end without a complaint, what belongs together lights up together, tables sort, keys work. Without Chromium the second half is left
# out, with a message.
# test: release
# test: timeout 300
set -u
. tests/shell.sh
export MICA_DB=$work/mica.db

cat >"$work/found.mica" <<'EOF'
program att() {
  Q: f32[2, 64, 64]
  K: f32[2, 64, 256]
  V: f32[2, 256, 64]
  return matmul(softmax(matmul(Q, K), dim=2), V)
}
EOF
small=(--max-block-ops 8 --measure 2 --threads 2 --disturbed)

# ---- the command ----
expect 0 'Result|optimized' "$MICA" optimize "$work/found.mica" "${small[@]}" --html "$work/cpu.html" --out "$work/cpu"
expect 0 'report.html' "$MICA" optimize "$work/found.mica" "${small[@]}" --out "$work/cpu"
[ -s "$work/cpu.html" ] || complain 'no page'
cmp -s "$work/cpu.html" "$work/cpu/report.html" || complain 'the page of --html differs from that of --out'
expect 0 '' "$MICA" show "$work/cpu/report.json" --html "$work/again.html"
cmp -s "$work/cpu.html" "$work/again.html" || complain 'the page made again from report.json differs'
expect 0 '^<!DOCTYPE html>' "$MICA" show "$work/cpu/report.json" --html -
[ "$(grep -c '</html>' "$work/out")" = 1 ] || complain 'standard output has more than the page'
expect 2 'is no report' "$MICA" show "$work/cpu/graph.json" --html "$work/no.html"
expect 2 'bad-json|error' "$MICA" show "$work/found.mica" --html "$work/no.html"
expect 3 'cannot write' "$MICA" show "$work/cpu/report.json" --html "$work"
[ ! -e "$work/no.html" ] || complain 'a page of what is no report'
expect 0 '' "$MICA" optimize "$work/found.mica" --dtype f16 --target sm_90a "${small[@]}" --html "$work/gpu.html" --quiet

# ---- a browser ----
browser=
for b in chromium chromium-browser google-chrome; do command -v "$b" >/dev/null && browser=$b && break; done
if [ -z "$browser" ]; then
  echo 'no Chromium: what the page does in a browser is not tested'
  finish
  exit
fi

# The page with a script behind its own, which acts and leaves what it saw in an element. `try` counts what is not so.
act() {
  sed '$d' "$1" | sed '$d' # </body>, </html>
  cat <<'EOF'
<script>
var bad = [], all = function (s) { return Array.prototype.slice.call(document.querySelectorAll(s)); };
var check = function (what, so) { if (!so) bad.push(what); };
var report = JSON.parse(document.getElementById('report').textContent);
try {
  check('its script ended', document.documentElement.dataset.ready === '1');
  var n = 0;
  report.parts.forEach(function (p) { n += p.candidates.length; });
  check('a row for each candidate', all('table.sortable tbody tr').length === n);
  all('a[href^="#"]').forEach(function (a) { check('link ' + a.getAttribute('href'), document.getElementById(a.getAttribute('href').slice(1))); });
  // every operator of a block graph that is no view lights up in a text
  var nodes = all('.fig .n').filter(function (g) { return /^k\d+b\d+$/.test(g.dataset.n) && !g.classList.contains('view'); }), texts = 0;
  nodes.forEach(function (g) {
    g.dispatchEvent(new MouseEvent('mouseover', { bubbles: true }));
    check('node ' + g.dataset.n + ' lights up', g.classList.contains('hi'));
    if (all('.l.hi').length > 1) texts++;
  });
  check('nodes light up lines: ' + texts + ' of ' + nodes.length, texts === nodes.length);
  // a line lights up its node and, where there are several texts, the line it was printed for
  var line = all('.l[data-n*="b"]').pop();
  if (line) {
    line.dispatchEvent(new MouseEvent('mouseover', { bubbles: true }));
    check('a line lights up a node', all('.n.hi').length > 0);
    check('and what it was printed for', !line.dataset.l || all('.l.same').length > 1);
  }
  document.body.dispatchEvent(new MouseEvent('mouseover', { bubbles: true }));
  check('all is dark again', all('.hi').length === 0);
  // keys in a drawing
  var fig = all('.fig').filter(function (f) { return f.offsetParent; })[0], svg = fig.querySelector('svg');
  var key = function (k) { var was = svg.getAttribute('viewBox'); fig.dispatchEvent(new KeyboardEvent('keydown', { key: k, bubbles: true, cancelable: true })); return was !== svg.getAttribute('viewBox'); };
  check('fig takes the focus', fig.tabIndex === 0);
  ['+', '-', 'ArrowLeft', 'ArrowDown'].forEach(function (k) { check('key ' + k, key(k)); });
  // the mouse: pulling moves, the wheel zooms with Ctrl alone
  var box = function () { return svg.getAttribute('viewBox'); }, was = box();
  svg.setPointerCapture = function () {}; // there is no such pointer
  [['pointerdown', 100], ['pointermove', 140], ['pointerup', 140]].forEach(function (e) {
    svg.dispatchEvent(new PointerEvent(e[0], { clientX: e[1], clientY: 100, button: 0, pointerId: 1, bubbles: true }));
  });
  check('pulling moves', box() !== was);
  was = box();
  fig.blur();
  fig.dispatchEvent(new WheelEvent('wheel', { deltaY: 120, bubbles: true, cancelable: true }));
  check('the wheel alone scrolls the page', box() === was);
  fig.dispatchEvent(new WheelEvent('wheel', { deltaY: 120, ctrlKey: true, bubbles: true, cancelable: true }));
  check('with Ctrl it zooms', box() !== was);
  key('0');
  check('the page is as wide as the window', document.documentElement.scrollWidth <= window.innerWidth);
  key('n');
  check('n goes to a node and says so', all('.n.at').length === 1 && /^node 1 of/.test(document.getElementById('said').textContent));
  document.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }));
  // sorting
  var table = document.querySelector('table.sortable');
  if (table) {
    var b = table.querySelectorAll('thead button')[2], times = function () {
      return Array.prototype.map.call(table.tBodies[0].rows, function (r) { return r.cells[2].dataset.v; }).filter(function (v) { return v !== ''; }).map(Number);
    };
    b.click();
    var up = times();
    check('sorted', up.every(function (v, i) { return !i || up[i - 1] <= v; }) && b.parentElement.getAttribute('aria-sort') === 'ascending');
    b.click();
    up = times();
    check('sorted down', up.every(function (v, i) { return !i || up[i - 1] >= v; }));
    check('no row is lost', all('table.sortable tbody tr').length === n);
  }
  // tabs
  all('.tabs').forEach(function (t) {
    var tabs = t.querySelectorAll('[role=tab]'), last = tabs[tabs.length - 1];
    last.click();
    check('one panel is shown', Array.prototype.filter.call(t.querySelectorAll('.panel'), function (p) { return !p.hidden; }).length === 1 && last.getAttribute('aria-selected') === 'true');
  });
  check('nothing was loaded', performance.getEntriesByType('resource').length === 0);
  check('no picture is empty', all('.fig svg').every(function (s) { return s.querySelectorAll('.n').length > 0; }));
} catch (e) { bad.push(String(e)); }
document.body.dataset.verdict = bad.length ? 'bad: ' + bad.slice(0, 12).join('; ') : 'good, ' + all('.n').length + ' nodes';
</script></body></html>
EOF
}

in_browser() { # PAGE [WIDTH]
  act "$1" >"$work/act.html"
  timeout 90 "$browser" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$work/profile" --window-size=${2:-1400},1000 --virtual-time-budget=5000 \
    --enable-logging=stderr --dump-dom "file://$work/act.html" >"$work/dom" 2>"$work/err"
  grep -o 'data-verdict="[^"]*"' "$work/dom" >"$work/out" || echo 'no verdict' >"$work/out"
  grep -q 'data-verdict="good' "$work/out" || complain "in the browser: $1"
  ! grep -i 'CONSOLE' "$work/err" || complain "the console has something to say: $1"
}
in_browser "$work/cpu.html"
in_browser "$work/gpu.html"
in_browser "$work/gpu.html" 500

# A report with names that would be markup: no element of theirs comes to be, no script of theirs runs.
sed 's/"X"/"<img src=x onerror=document.title=1>"/g; s/"att"/"<\/script><script>document.body.dataset.verdict=\\"owned\\"<\/script>"/g; s/"Q"/"\\"><svg onload=alert(1)>]]>"/g' \
  "$work/cpu/report.json" >"$work/evil.json"
expect 0 '' "$MICA" show "$work/evil.json" --html "$work/evil.html"
grep -q 'onload=alert' "$work/evil.html" || complain 'the names are not in the page'
in_browser "$work/evil.html"
grep -Eq '<img|<svg onload' "$work/dom" && complain 'a name became an element'
finish
