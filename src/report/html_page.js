'use strict';
(function () {
  var all = function (what, where) { return Array.prototype.slice.call((where || document).querySelectorAll(what)); };
  var say = function (text) { document.getElementById('said').textContent = text; };
  var make = function (tag, text, label) {
    var e = document.createElement(tag);
    e.textContent = text;
    if (tag === 'button') e.type = 'button';
    if (label) e.setAttribute('aria-label', label), e.title = label;
    return e;
  };

  // ---- what is the same thing lights up together ----
  // By key, elements; those of a thread graph's nodes also by the node that holds the thread graph.
  var byNode = Object.create(null), byLine = Object.create(null), lit = [], pinned = null;
  var put = function (map, key, e) { (map[key] = map[key] || []).push(e); };
  var keys = function (e) { return e.dataset.n ? e.dataset.n.split(' ') : []; };
  all('[data-n]').forEach(function (e) {
    keys(e).forEach(function (k) {
      put(byNode, k, e);
      var around = /^(.*b\d+)t\d+$/.exec(k);
      if (around) put(byNode, around[1], e);
    });
  });
  all('[data-l]').forEach(function (e) { put(byLine, e.dataset.l, e); });
  all('.e').forEach(function (e) { put(byNode, e.dataset.a, e); put(byNode, e.dataset.b, e); });
  var dark = function () {
    lit.forEach(function (e) { e.classList.remove('hi', 'same'); });
    lit = [];
  };
  var light = function (e) {
    dark();
    if (!e) return;
    keys(e).forEach(function (k) { (byNode[k] || []).forEach(function (x) { x.classList.add('hi'); lit.push(x); }); });
    (byLine[e.dataset.l] || []).forEach(function (x) { x.classList.add('same'); lit.push(x); });
  };
  // Every listing on the page goes to its first line of the thing.
  var show = function (but) {
    all('.pre').forEach(function (box) {
      var to = box.querySelector('.same') || box.querySelector('.l.hi');
      if (!to || box.contains(but) || !box.offsetParent) return;
      var y = to.offsetTop, top = box.scrollTop;
      if (y < top || y > top + box.clientHeight - 40) box.scrollTop = Math.max(0, y - box.clientHeight / 3);
    });
  };
  var pin = function (e) {
    pinned = pinned === e ? null : e;
    light(pinned);
    if (pinned) show(pinned);
  };
  var about = function (e) { return e.target.closest ? e.target.closest('[data-n], [data-l]') : null; };
  document.addEventListener('mouseover', function (e) { light(about(e) || pinned); });
  document.addEventListener('click', function (e) {
    var x = about(e);
    if (x && !x.closest('a, summary')) pin(x);
  });
  document.addEventListener('keydown', function (e) { if (e.key === 'Escape') pinned = null, dark(); });

  // ---- drawings: pan, zoom, from node to node ----
  all('.fig').forEach(function (fig) {
    var svg = fig.querySelector('svg'), box = svg.viewBox.baseVal, w = box.width, h = box.height, nodes = all('.n', svg), at = -1, from = null, moved = false;
    var view = { x: 0, y: 0, w: w, h: h };
    var tall = Math.min(h + 8, 0.78 * window.innerHeight);
    fig.style.height = Math.max(120, Math.min(tall, h * Math.max(1, fig.clientWidth / w) + 8)) + 'px';
    fig.classList.add('live');
    fig.setAttribute('aria-label', fig.getAttribute('aria-label') + ', ' + nodes.length + ' nodes; arrow keys move, plus and minus zoom, 0 fits, n and p go from node to node');
    var scale = function () { return Math.min(svg.clientWidth / view.w, svg.clientHeight / view.h); };
    var apply = function () { svg.setAttribute('viewBox', [view.x, view.y, view.w, view.h].map(function (x) { return x.toFixed(2); }).join(' ')); };
    // All of it, or its width where that leaves text that can be read.
    var fit = function () {
      var fw = svg.clientWidth, fh = svg.clientHeight, s = Math.min(1, fw / w), whole = Math.min(1, fw / w, fh / h);
      if (whole >= 0.62) s = whole;
      s = Math.max(s, 0.2);
      view.w = fw / s, view.h = fh / s;
      view.x = (w - view.w) / 2, view.y = whole >= 0.62 ? (h - view.h) / 2 : 0;
      apply();
    };
    var zoom = function (by, px, py) {
      var x = view.x + view.w * px, y = view.y + view.h * py, nw = view.w / by;
      if (nw < 60 || nw > 40 * w) return;
      view.w = nw, view.h /= by, view.x = x - view.w * px, view.y = y - view.h * py;
      apply();
    };
    var move = function (dx, dy) {
      view.x = Math.min(w - 20, Math.max(20 - view.w, view.x + dx)), view.y = Math.min(h - 20, Math.max(20 - view.h, view.y + dy));
      apply();
    };
    var go = function (to) {
      if (!nodes.length) return;
      if (at >= 0) nodes[at].classList.remove('at');
      at = (to + nodes.length) % nodes.length;
      var n = nodes[at], b = n.getBBox(), m = n.getCTM().inverse().multiply(svg.getCTM() || svg.createSVGMatrix()).inverse();
      var cx = (b.x + b.width / 2) + (m.e || 0), cy = (b.y + b.height / 2) + (m.f || 0);
      n.classList.add('at');
      if (cx < view.x || cx > view.x + view.w || cy < view.y || cy > view.y + view.h) view.x = cx - view.w / 2, view.y = cy - view.h / 2, apply();
      pinned = n, light(n), show(n);
      say('node ' + (at + 1) + ' of ' + nodes.length + ': ' + n.querySelector('title').textContent);
    };
    var tools = make('div', '');
    tools.className = 'tools';
    [['+', 'zoom in', function () { zoom(1.3, 0.5, 0.5); }], ['\u2212', 'zoom out', function () { zoom(1 / 1.3, 0.5, 0.5); }], ['fit', 'fit the drawing', fit]].forEach(function (t) {
      var b = make('button', t[0], t[1]);
      b.addEventListener('click', t[2]);
      tools.appendChild(b);
    });
    fig.appendChild(tools);
    fig.addEventListener('keydown', function (e) {
      if (e.target !== fig || e.ctrlKey || e.metaKey || e.altKey) return;
      var step = 60 / scale(), done = true;
      switch (e.key) {
      case 'ArrowLeft': move(-step, 0); break;
      case 'ArrowRight': move(step, 0); break;
      case 'ArrowUp': move(0, -step); break;
      case 'ArrowDown': move(0, step); break;
      case '+': case '=': zoom(1.25, 0.5, 0.5); break;
      case '-': zoom(0.8, 0.5, 0.5); break;
      case '0': fit(); break;
      case 'n': go(at + 1); break;
      case 'p': go(at < 0 ? -1 : at - 1); break;
      case 'Enter': {
        var a = at >= 0 && nodes[at].closest('a');
        if (a) location.hash = a.getAttribute('href');
        break;
      }
      default: done = false;
      }
      if (done) e.preventDefault();
    });
    fig.addEventListener('wheel', function (e) {
      if (!e.ctrlKey && !e.metaKey) return;
      var r = svg.getBoundingClientRect();
      e.preventDefault();
      zoom(Math.exp(-e.deltaY / 400), (e.clientX - r.left) / r.width, (e.clientY - r.top) / r.height);
    }, { passive: false });
    svg.addEventListener('pointerdown', function (e) { if (e.button === 0) from = { x: e.clientX, y: e.clientY }, moved = false; });
    svg.addEventListener('pointermove', function (e) {
      if (!from) return;
      var dx = e.clientX - from.x, dy = e.clientY - from.y, s = scale();
      if (!moved && Math.abs(dx) + Math.abs(dy) < 4) return;
      if (!moved) svg.setPointerCapture(e.pointerId);
      moved = true, from = { x: e.clientX, y: e.clientY };
      move(-dx / s, -dy / s);
    });
    ['pointerup', 'pointercancel'].forEach(function (what) { svg.addEventListener(what, function () { from = null; }); });
    svg.addEventListener('click', function (e) { if (moved) e.stopPropagation(), e.preventDefault(), moved = false; }, true);
    fit();
    var wide = fig.clientWidth;
    window.addEventListener('resize', function () { if (fig.clientWidth && fig.clientWidth !== wide) wide = fig.clientWidth, fit(); });
    var holder = fig.closest('details');
    if (holder) holder.addEventListener('toggle', function () { if (holder.open) fig.style.height = Math.max(120, Math.min(0.78 * window.innerHeight, h + 8)) + 'px', fit(); });
    window.addEventListener('beforeprint', function () { svg.setAttribute('viewBox', '0 0 ' + w + ' ' + h); });
    window.addEventListener('afterprint', apply);
  });

  // ---- tabs ----
  all('.tabs').forEach(function (tabs) {
    var panels = all('.panel', tabs), list = make('div', '');
    list.className = 'tablist';
    list.setAttribute('role', 'tablist');
    var choose = function (k, focus) {
      panels.forEach(function (p, i) {
        var b = list.children[i];
        p.hidden = i !== k;
        b.setAttribute('aria-selected', i === k);
        b.tabIndex = i === k ? 0 : -1;
        if (i === k && focus) b.focus();
      });
      if (pinned) show(null);
    };
    panels.forEach(function (p, i) {
      var b = make('button', p.dataset.tab);
      b.setAttribute('role', 'tab');
      b.setAttribute('aria-controls', p.id);
      b.id = p.id + '-tab';
      p.setAttribute('role', 'tabpanel');
      p.setAttribute('aria-labelledby', b.id);
      b.addEventListener('click', function () { choose(i); });
      b.addEventListener('keydown', function (e) {
        var d = e.key === 'ArrowRight' ? 1 : e.key === 'ArrowLeft' ? -1 : 0;
        if (d) e.preventDefault(), choose((i + d + panels.length) % panels.length, true);
      });
      list.appendChild(b);
    });
    tabs.insertBefore(list, tabs.firstChild);
    tabs.classList.add('live');
    choose(0);
  });
  all('.pre').forEach(function (box) {
    var b = make('button', 'Copy');
    b.className = 'copy';
    b.addEventListener('click', function () {
      var text = box.querySelector('pre').textContent, done = function () { b.textContent = 'Copied'; setTimeout(function () { b.textContent = 'Copy'; }, 1500); };
      if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, function () {});
    });
    box.insertBefore(b, box.firstChild);
  });

  // ---- tables ----
  all('table.sortable').forEach(function (table) {
    var body = table.tBodies[0], rows = all('tr', body);
    all('thead th', table).forEach(function (th, k) {
      var b = make('button', th.textContent), up = true;
      th.textContent = '';
      th.appendChild(b);
      b.addEventListener('click', function () {
        all('th', table).forEach(function (x) { if (x !== th) x.removeAttribute('aria-sort'); });
        up = th.getAttribute('aria-sort') !== 'ascending';
        th.setAttribute('aria-sort', up ? 'ascending' : 'descending');
        var at = k === 3 ? 2 : k; // the bar is that of the time
        var value = function (row) {
          var c = row.cells[at], v = c.dataset.v;
          return v === undefined ? c.textContent : v === '' ? null : +v;
        };
        rows.map(function (r, i) { return { r: r, v: value(r), i: i }; }).sort(function (a, b) {
          if (a.v === null || b.v === null) return (a.v === null) - (b.v === null) || a.i - b.i;
          var d = typeof a.v === 'number' ? a.v - b.v : a.v < b.v ? -1 : a.v > b.v ? 1 : 0;
          return (up ? d : -d) || a.i - b.i;
        }).forEach(function (x) { body.appendChild(x.r); });
        say('sorted by ' + b.textContent + (up ? ', ascending' : ', descending'));
      });
    });
  });

  // ---- what a link leads to is unfolded; for paper all is ----
  var unfold = function () {
    var to = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    for (var e = to; e; e = e.parentElement) if (e.tagName === 'DETAILS') e.open = true;
    if (to) to.scrollIntoView();
  };
  window.addEventListener('hashchange', unfold);
  unfold();
  var folded = [];
  window.addEventListener('beforeprint', function () { folded = all('details:not([open])'); folded.forEach(function (d) { d.open = true; }); });
  window.addEventListener('afterprint', function () { folded.forEach(function (d) { d.open = false; }); });
  document.documentElement.dataset.ready = '1';
}());
