// The program and the found graph at its levels: the kernel graph, and for each kernel its block graph, with nested thread graphs, beside its texts:
// the graph as text, the tile program, the source. A kernel is a launch on a GPU, and a function of the source on a CPU.
#include "report/html.h"

#include <string.h>

enum { MOST_TEXT = 400 << 10, MOST_OPEN = 4 }; // bytes of one listing; number of kernels that are shown open

// ---- the program ----

static void tensors(struct html *h, const char *what, int n, const int *t)
{
  for (int i = 0; i < n; i++) {
    struct tensor whole = h->source->tensors[t[i]];
    const struct tensor *x = &whole;
    whole.shape = graph_whole(h->source, t[i]);
    html_add(h, "<tr><th scope=\"row\">%s</th><td><code>%s</code></td><td><code>%s</code></td><td class=\"num\">%s</td></tr>\n", what,
             x->name ? x->name : "\xe2\x80\x93", html_tensor(h, x), html_unit(h, (double)(shape_size(&x->shape) * dtype_bytes(x->dtype)), "B"));
  }
}

void html_program(struct html *h)
{
  html_section(h, "program", "Program");
  if (!h->source) {
    html_raw(h, "<p class=\"note\">The report's program cannot be read.</p>\n");
    html_section_end(h);
    return;
  }
  int n = graph_inputs(h->source, NULL), m = graph_outputs(h->source, NULL), *t = NEWS(h->mem, int, MAX(n, m) + 1);
  html_raw(h, "<div class=\"pair\"><div>\n");
  html_draw_kernels(h, h->source, "program-graph", false);
  html_raw(h, "</div><div>\n");
  struct str text = {0};
  graph_print(h->source, &text);
  html_raw(h, "<h3>In the language</h3>\n");
  html_listing(h, "the program in the language", str_text(&text), text.n, -1, NULL);
  str_free(&text);
  html_raw(h, "<h3>Tensors</h3>\n<div class=\"scroll\"><table><thead><tr><th scope=\"col\">Role</th><th scope=\"col\">Name</th><th "
              "scope=\"col\">Type</th><th scope=\"col\" class=\"num\">Size</th></tr></thead><tbody>\n");
  graph_inputs(h->source, t);
  tensors(h, "input", n, t);
  graph_outputs(h->source, t);
  tensors(h, "output", m, t);
  html_raw(h, "</tbody></table></div>\n</div></div>\n");
  html_section_end(h);
}

// ---- tabs ----

// Without the script all panels are shown, one after the other.
struct tabs {
  struct html *h;
  int kernel, n;
};

static void tab(struct tabs *t, const char *title)
{
  html_raw(t->h, t->n ? "</div>\n" : "");
  html_add(t->h, "<div class=\"panel\" id=\"panel-%d-%d\" data-tab=\"%s\"><h4>%s</h4>\n", t->kernel, t->n, title, title);
  t->n++;
}

static void tabs_end(struct tabs *t)
{
  if (t->n) html_raw(t->h, "</div>\n");
}

static void listing_cut(struct html *h, const char *label, const char *text, size_t n, int launch, const struct html_line *lines)
{
  size_t shown = n;
  if (n > MOST_TEXT)
    for (shown = MOST_TEXT; shown && text[shown - 1] != '\n';) shown--;
  html_listing(h, label, text, shown, launch, lines);
  if (shown < n) html_add(h, "<p class=\"note\">%s bytes more are in the folder of --out.</p>\n", html_count(h, (double)(n - shown)));
}

// ---- GPUs ----

static const char *about_key(struct html *h, const struct launch *l, int line)
{
  if (!l->about || line < 1 || line > l->nabout) return NULL;
  const struct line_about *a = &l->about[line - 1];
  return a->node >= 0 ? arena_printf(h->mem, "k%db%d", a->kernel, a->node) : NULL;
}

static void tile_listing(struct html *h, const struct launch *l, int launch)
{
  int n = html_lines_in(l->text, strlen(l->text));
  struct html_line *lines = NEWS(h->mem, struct html_line, n + 1);
  for (int i = 0; i < n; i++) lines[i] = (struct html_line){about_key(h, l, i + 1), i + 1};
  listing_cut(h, "tile program", l->text, strlen(l->text), launch, lines);
}

static void cuda_listing(struct html *h, const struct launch *l, int launch)
{
  struct cuda_marks marks = {.mem = h->mem};
  struct err e = {0};
  struct str s = {0};
  if (cuda_print_marked(l->p, l->k, h->d->gpu->arch, &s, &marks, &e) != OK) {
    html_add(h, "<p class=\"note\">%s</p>\n", e.text);
    str_free(&s);
    return;
  }
  const char *text = str_text(&s), *start = strstr(text, cuda_prelude_text);
  start = start ? start + strlen(cuda_prelude_text) : text;
  start += strspn(start, "\n");
  size_t n = s.n - (size_t)(start - text);
  struct html_line *lines = NEWS(h->mem, struct html_line, html_lines_in(start, n) + 1);
  int i = 0, next = 0;
  for (const char *p = start; *p; i++) {
    lines[i].line = cuda_marked(&marks, (size_t)(p - text), &next), lines[i].keys = about_key(h, l, lines[i].line);
    p += strcspn(p, "\n");
    p += *p == '\n';
  }
  listing_cut(h, "CUDA C++", start, n, launch, lines);
  str_free(&s);
}

static void launch_facts(struct html *h, const struct launch *l, int i)
{
  const json_t *j = json_array_get(json_object_get(json_object_get(h->r, "gpu"), "launches"), (size_t)i);
  html_add(h, "<dl class=\"facts\"><div><dt>Launch</dt><dd><code>%s</code></dd></div><div><dt>Made by</dt><dd><code>%s</code></dd></div>", l->name,
           l->how);
  html_add(h, "<div><dt>Model</dt><dd>%s</dd></div>", html_time(h, html_num(j, "model_us")));
  if (html_has(j, "registers")) html_add(h, "<div><dt>Registers</dt><dd>%s</dd></div>", html_count(h, html_num(j, "registers")));
  if (html_num(j, "spilled") > 0) html_add(h, "<div><dt>Spilled</dt><dd>%s</dd></div>", html_unit(h, html_num(j, "spilled"), "B"));
  if (html_has(j, "shared")) html_add(h, "<div><dt>Shared memory</dt><dd>%s</dd></div>", html_unit(h, html_num(j, "shared"), "B"));
  html_raw(h, "</dl>\n");
}

static void kernel_open(struct html *h, int node, int number, const char *name, int all)
{
  const struct graph *sub = h->g->nodes[node].sub;
  html_add(h, "<details class=\"kernel\" id=\"kernel-%d\"%s><summary><h3 data-n=\"k%d\">Kernel %d: <code>%s</code>", node,
           number <= MOST_OPEN || all <= 2 * MOST_OPEN ? " open" : "", node, number, name);
  if (sub)
    html_add(h, " <small>%s, %s, %s</small>", html_plural(h, (double)graph_blocks(sub), "block"),
             html_plural(h, (double)graph_iterations(sub), "iteration"), html_plural(h, graph_ops(sub), "operator"));
  html_raw(h, "</h3></summary>\n");
}

static void picture_of(struct html *h, int node)
{
  html_raw(h, "<div>\n");
  if (h->g->nodes[node].sub)
    html_draw_block(h, h->g, node);
  else
    html_add(h, "<p class=\"note\">One operator of the library: <code>%s</code>.</p>\n", op_rows[h->g->nodes[node].op].name);
}

static void launch(struct html *h, int i)
{
  const struct launch *l = &h->d->launch[i];
  struct tabs t = {h, l->first, 0};
  kernel_open(h, l->first, i + 1, l->name, h->d->nlaunch);
  launch_facts(h, l, i);
  html_raw(h, "<div class=\"pair\">");
  picture_of(h, l->first);
  if (l->last != l->first) {
    html_add(h, "<p class=\"note\" id=\"kernel-%d\">The same launch ends with node %d of the kernel graph:</p>\n", l->last, l->last);
    if (h->g->nodes[l->last].sub) html_draw_block(h, h->g, l->last);
  }
  html_raw(h, "</div><div class=\"tabs\">\n");
  tab(&t, "Graph");
  html_tree(h, h->g, l->first);
  if (l->last != l->first) html_tree(h, h->g, l->last);
  if (l->text) tab(&t, "Tile program"), tile_listing(h, l, i);
  if (l->text)
    tab(&t, "CUDA C++"), cuda_listing(h, l, i);
  else
    html_add(h, "<p class=\"note\">%s</p>\n", l->product ? "A product by cuBLASLt." : "All ranks meet.");
  tabs_end(&t);
  html_raw(h, "</div></div></details>\n");
}

// ---- CPUs ----

struct function { // of the source: its comment and all its text
  const char *text;
  size_t n;
  int node;
};

// Functions of kernels begin with their node's comment, "// t3 = block(...)", and a line "static void NAME_k0(".
static bool next_function(const struct html *h, const char **at, struct function *f)
{
  for (const char *p = *at; (p = strstr(p, "\n// t")); p++) {
    const char *line = strchr(p + 1, '\n'), *end = line ? strstr(line, "\n}\n") : NULL;
    if (!end || strncmp(line + 1, "static void ", 12)) continue;
    long t = strtol(p + 5, NULL, 10);
    if (t < 0 || t >= h->g->ntensors) continue;
    *f = (struct function){p + 1, (size_t)(end + 3 - (p + 1)), h->g->tensors[t].node};
    return *at = end + 2, true;
  }
  return false;
}

static const char *name_of(const struct html *h, const struct function *f)
{
  const char *name = strstr(f->text, "static void ") + strlen("static void ");
  return arena_printf(h->mem, "%.*s", (int)strcspn(name, "("), name);
}

static const json_t *own_figures(const struct html *h, int node)
{
  const json_t *list = json_object_get(json_object_get(h->r, "cpu"), "kernels"), *k;
  struct function f;
  const char *at = h->c;
  size_t i;
  while (at && next_function(h, &at, &f))
    if (f.node == node) json_array_foreach(list, i, k) if (!strcmp(html_txt(k, "name"), name_of(h, &f))) return k;
  return NULL;
}

double html_own_time(const struct html *h, int node) { return html_num(own_figures(h, node), "us"); }

static void function_facts(struct html *h, const struct function *f)
{
  const json_t *list = json_object_get(json_object_get(h->r, "cpu"), "kernels"), *k;
  double own = html_own_time(h, f->node), all = 0;
  size_t i;
  json_array_foreach(list, i, k) all += html_num(k, "us");
  if (!(own > 0 && own <= all)) return;
  html_add(h, "<dl class=\"facts\"><div><dt>Own time</dt><dd>%s, %.0f%% of all kernels", html_time(h, own), 100 * own / all);
  const char *disturbed = html_txt(own_figures(h, f->node), "disturbed");
  if (*disturbed) html_add(h, ", <strong>disturbed</strong>: %s", disturbed);
  html_raw(h, "</dd></div></dl>\n");
}

static void function(struct html *h, const struct function *f, int number, int all)
{
  struct tabs t = {h, f->node, 0};
  kernel_open(h, f->node, number, name_of(h, f), all);
  function_facts(h, f);
  html_raw(h, "<div class=\"pair\">");
  picture_of(h, f->node);
  html_raw(h, "</div><div class=\"tabs\">\n");
  tab(&t, "C");
  listing_cut(h, "C", f->text, f->n, -1, html_c_lines(h, f->text, f->n, f->node));
  tab(&t, "Graph");
  html_tree(h, h->g, f->node);
  tabs_end(&t);
  html_raw(h, "</div></div></details>\n");
}

static void functions(struct html *h)
{
  struct function f;
  const char *at = h->c;
  int all = 0, number = 0;
  while (next_function(h, &at, &f)) all++;
  for (at = h->c; next_function(h, &at, &f);) function(h, &f, ++number, all);
  at += strspn(at, "\n");
  html_raw(h, "<details class=\"kernel\"><summary><h3>Entry points</h3></summary>\n");
  listing_cut(h, "entry points in C", at, strlen(at), -1, NULL);
  html_raw(h, "</details>\n");
}

// ---- the section ----

void html_kernels(struct html *h)
{
  const json_t *best = json_object_get(h->r, "best");
  html_section(h, "graph", "Found graph");
  if (!h->g) {
    html_raw(h, "<p class=\"note\">The report's graph cannot be read.</p>\n");
    html_section_end(h);
    return;
  }
  if (html_yes(best, "op_by_op"))
    html_add(h, "<p>The program stays as it is, one operator a kernel: %s.</p>\n", html_txt(best, "reason"));
  else if (*html_txt(best, "schedule"))
    html_add(h, "<p>Schedule: <code>%s</code></p>\n", html_txt(best, "schedule"));
  html_raw(h, "<p class=\"hint\">Point at a node, or at a line of a text: what it is in the others lights up; a click keeps it. In a drawing arrow "
              "keys move, + and &minus; zoom, 0 fits, n and p go from node to node.</p>\n");
  html_raw(h, "<h3>Kernel graph</h3>\n");
  html_draw_kernels(h, h->g, "kernel-graph", true);
  if (h->no_kernels) html_add(h, "<p class=\"note\">No texts of kernels: %s</p>\n", h->no_kernels);
  for (int i = 0; h->d && i < h->d->nlaunch; i++) launch(h, i);
  if (h->c) functions(h);
  html_section_end(h);
}
