// Listings. Each line is an element with the keys of its subject. C kernels contain comments that the generator makes from the nodes: "// t5, t6 =
// accum_max(t4) [1, 128, 1]" precedes the lines that compute tensors 5 and 6 of the block graph, "//  t2 = sub(t0, t1)" those of a thread graph.
// Later lines at the same or a deeper indentation belong to these nodes.
#include "report/html.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

int html_lines_in(const char *text, size_t n)
{
  int lines = 0;
  for (size_t i = 0; i < n; i++) lines += text[i] == '\n';
  return lines + (n && text[n - 1] != '\n');
}

static size_t line_end(const char *text, size_t n, size_t at)
{
  const char *p = memchr(text + at, '\n', n - at);
  return p ? (size_t)(p - text) : n;
}

void html_listing(struct html *h, const char *label, const char *text, size_t n, int launch, const struct html_line *lines)
{
  html_add(h, "<div class=\"pre\" role=\"region\" tabindex=\"0\" aria-label=\"%s\"><pre>", label);
  size_t end;
  int i = 0;
  for (size_t at = 0; at < n; at = end + 1, i++) {
    end = line_end(text, n, at);
    size_t first = at + strspn(text + at, " ");
    bool comment = !strncmp(text + first, "//", 2) || text[first] == '#';
    html_raw(h, comment ? "<span class=\"l c\"" : "<span class=\"l\"");
    if (lines && lines[i].keys) html_add(h, " data-n=\"%s\"", lines[i].keys);
    if (launch >= 0 && lines && lines[i].line > 0) html_add(h, " data-l=\"%d:%d\"", launch, lines[i].line);
    html_raw(h, ">");
    html_escape(h->out, text + at, end - at);
    html_raw(h, "\n</span>");
  }
  html_raw(h, "</pre></div>\n");
}

// ---- C ----

struct html_lines_reading {
  struct html *h;
  const struct graph *block, *thread; // NULL: outside of one
  int node, thread_node;
  bool single; // the node is a single statement: an iterator
};

// The tensor of "t12" or "t12_name"; -1: none.
static int tensor_in(const char *s) { return *s == 't' && isdigit((unsigned char)s[1]) ? (int)strtol(s + 1, NULL, 10) : -1; }

static int node_making(const struct graph *g, int t) { return t >= 0 && t < g->ntensors ? g->tensors[t].node : -1; }

static int node_saving(const struct graph *g, int t)
{
  for (int i = 0; i < g->nnodes; i++)
    if ((g->nodes[i].op == OP_SAVE || g->nodes[i].op == OP_OUTPUT) && g->nodes[i].in[0] == t) return i;
  return -1;
}

// The node of g that the comment names; -1: none.
static int node_named(const struct graph *g, const char *s)
{
  if (!strncmp(s, "save(", 5)) return node_saving(g, tensor_in(s + 5));
  return node_making(g, tensor_in(s));
}

// One comment's key, or NULL for another kind of comment.
static const char *comment_key(struct html_lines_reading *r, const char *s)
{
  bool inner = !strncmp(s, "//   ", 5);
  if (strncmp(s, "// ", 3) || !r->block) return NULL;
  if (inner) {
    int node = r->thread ? node_named(r->thread, s + 5) : -1;
    return node >= 0 ? arena_printf(r->h->mem, "k%db%dt%d", r->node, r->thread_node, node) : NULL;
  }
  int node = node_named(r->block, s + 3);
  if (node < 0) return NULL;
  r->thread = r->block->nodes[node].sub, r->thread_node = node, r->single = r->block->nodes[node].op == OP_ITER;
  return arena_printf(r->h->mem, "k%db%d", r->node, node);
}

struct html_line *html_c_lines(struct html *h, const char *text, size_t n, int node)
{
  struct html_line *lines = NEWS(h->mem, struct html_line, html_lines_in(text, n) + 1);
  struct html_lines_reading r = {.h = h, .block = h->g->nodes[node].sub, .node = node};
  const char *keys = NULL, *whole = arena_printf(h->mem, "k%d", node);
  size_t indent = 0, end;
  bool group = false; // consecutive comments
  int i = 0;
  for (size_t at = 0; at < n; at = end + 1, i++) {
    end = line_end(text, n, at);
    const char *line = arena_printf(h->mem, "%.*s", (int)(end - at), text + at);
    size_t deep = strspn(line, " ");
    const char *key = i ? comment_key(&r, line + deep) : NULL; // the first is the kernel graph's
    if (key)
      keys = group ? arena_printf(h->mem, "%s %s", keys, key) : key, indent = deep;
    else if (line[deep] && deep < indent)
      keys = NULL, indent = 0;
    group = key != NULL;
    lines[i].keys = keys ? keys : i == 0 ? whole : NULL;
    if (!key && r.single) keys = NULL;
  }
  return lines;
}

// ---- a graph as text ----

static const char *tree_key(struct html *h, const struct draw_line *l, const char *prefix)
{
  if (l->node[KERNEL] < 0) return NULL;
  const char *s = arena_printf(h->mem, "%sk%d", prefix, l->node[KERNEL]);
  if (l->node[BLOCK] >= 0) s = arena_printf(h->mem, "%sb%d", s, l->node[BLOCK]);
  return l->node[THREAD] >= 0 ? arena_printf(h->mem, "%st%d", s, l->node[THREAD]) : s;
}

void html_tree(struct html *h, const struct graph *g, int node)
{
  struct draw_lines d = {0};
  struct str all = {0}, text = {0};
  graph_draw_lines(h->mem, g, &all, &d);
  struct html_line *lines = NEWS(h->mem, struct html_line, d.n + 1);
  int n = 0;
  for (int i = 0; i < d.n; i++) {
    size_t from = i ? d.line[i - 1].end : 0;
    if (node >= 0 && d.line[i].node[KERNEL] != node) continue;
    str_raw(&text, all.p + from, d.line[i].end - from);
    lines[n++].keys = tree_key(h, &d.line[i], node < 0 ? "p" : "");
  }
  html_listing(h, node < 0 ? "the program" : "graph as text", str_text(&text), text.n, -1, lines);
  str_free(&all), str_free(&text);
}
