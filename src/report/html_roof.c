// The roofline (S. Williams, A. Waterman and D. Patterson, "Roofline: An Insightful Visual Performance Model"): operations a second over operations a
// byte, below the limits of the machine's memory and units. Bytes are the unavoidable ones: each input of a kernel is read once, each result written
// once. There is a point for each known time: the whole program's, each kernel's on a CPU, and each launch's modelled time on a GPU. Kernels without
// a time are hollow points on the roof, at their best possible time.
#include "report/html.h"

#include <math.h>

struct html_roof_work {
  const char *name, *how; // how: the source of its time
  double bytes, ops, us;  // us: 0 if unknown
};
struct roof {
  struct html *h;
  double bandwidth, flops;
  int n;
  struct html_roof_work *w;
  double x0, x1, y0, y1; // decimal logarithms
};
static const double WIDTH = 760, HEIGHT = 400, LEFT = 74, RIGHT = 20, TOP = 18, BOTTOM = 48;

// ---- work ----

static double node_ops(const struct graph *g, const struct node *n);

static double graph_work(const struct graph *g)
{
  double sum = 0, blocks = g->level == KERNEL ? 1 : (double)graph_blocks(g);
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    enum phase p = n->nout ? g->tensors[n->out].phase : AFTER;
    bool looped = g->nloop && (p == VARYING || p == RUN || op_rows[n->op].rule == RULE_ACCUM);
    sum += node_ops(g, n) * blocks * (looped ? (double)graph_iterations(g) : 1);
  }
  return sum;
}

static double node_ops(const struct graph *g, const struct node *n)
{
  enum rule r = op_rows[n->op].rule;
  if (n->sub) return graph_work(n->sub);
  if (r == RULE_IO || r == RULE_CONST || r == RULE_INDEX || r == RULE_VIEW || r == RULE_CONCAT || r == RULE_SPLIT || !n->nout) return 0;
  double size = (double)shape_size(&g->tensors[n->out].shape), read = n->nin ? (double)shape_size(&g->tensors[n->in[0]].shape) : 0;
  if (r != RULE_CONTRACT) return r == RULE_REDUCE || r == RULE_ACCUM ? read : MAX(1, op_rows[n->op].cost) * size;
  const struct shape *a = &g->tensors[n->in[0]].shape;
  return 2 * size * (a->n ? (double)a->d[a->n - 1] : 1);
}

static double tensor_bytes(const struct graph *g, int t) { return (double)shape_size(&g->tensors[t].shape) * dtype_bytes(g->tensors[t].dtype); }

// Bytes of a kernel or library operator: inputs, each once, and results.
static double node_bytes(const struct graph *g, const struct node *n)
{
  double sum = 0;
  for (int i = 0; i < n->nin; i++) {
    bool again = false;
    for (int k = 0; k < i; k++) again |= n->in[k] == n->in[i];
    if (!again) sum += tensor_bytes(g, n->in[i]);
  }
  for (int i = 0; i < n->nout; i++) sum += tensor_bytes(g, n->out + i);
  return sum;
}

static double program_bytes(const struct graph *g)
{
  double sum = 0;
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    if (n->op == OP_INPUT) sum += tensor_bytes(g, n->out);
    if (n->op == OP_OUTPUT) sum += tensor_bytes(g, n->in[0]);
  }
  return sum;
}

static bool is_kernel(const struct node *n)
{
  enum rule r = op_rows[n->op].rule;
  return r != RULE_IO && r != RULE_CONST && r != RULE_INDEX && r != RULE_VIEW;
}

static void add(struct roof *f, const char *name, const char *how, double bytes, double ops, double us)
{
  if (bytes > 0 && ops > 0) f->w[f->n++] = (struct html_roof_work){name, how, bytes, ops, us};
}

static double known_time(const json_t *t, const char **how)
{
  *how = html_has(t, "us") ? "measured" : "modelled";
  return html_num(t, html_has(t, "us") ? "us" : "model_us");
}

static void add_kernels(struct roof *f)
{
  struct html *h = f->h;
  for (int i = 0; h->d && i < h->d->nlaunch; i++) {
    const struct launch *l = &h->d->launch[i];
    const struct graph *g = h->g;
    double bytes = node_bytes(g, &g->nodes[l->first]), ops = node_ops(g, &g->nodes[l->first]);
    if (l->last != l->first) bytes += node_bytes(g, &g->nodes[l->last]), ops += node_ops(g, &g->nodes[l->last]);
    const json_t *j = json_array_get(json_object_get(json_object_get(h->r, "gpu"), "launches"), (size_t)i);
    add(f, l->name, "modelled", bytes, ops, html_num(j, "model_us"));
  }
  if (h->d) return;
  int n = 0, all = 0;
  for (int i = 0; i < h->g->nnodes; i++) all += is_kernel(&h->g->nodes[i]);
  for (int i = 0; i < h->g->nnodes && all > 1; i++)
    if (is_kernel(&h->g->nodes[i])) {
      const struct node *x = &h->g->nodes[i];
      double us = html_own_time(h, i);
      add(f, arena_printf(h->mem, "kernel %d: %s", ++n, op_rows[x->op].name), us > 0 ? "measured" : "at best", node_bytes(h->g, x), node_ops(h->g, x),
          us);
    }
}

static void collect(struct roof *f)
{
  struct html *h = f->h;
  const json_t *best = json_object_get(h->r, "best"), *base = json_object_get(h->r, "baseline");
  const char *how;
  double ops = h->source ? graph_work(h->source) : 0, bytes = h->source ? program_bytes(h->source) : 0;
  f->w = NEWS(h->mem, struct html_roof_work, (h->g ? h->g->nnodes : 0) + (h->d ? h->d->nlaunch : 0) + 3);
  double us = known_time(best, &how);
  if (us > 0) add(f, "optimized", how, bytes, ops, us);
  us = known_time(base, &how);
  if (us > 0) add(f, "op-by-op", how, bytes, ops, us);
  if (h->g) add_kernels(f);
}

// ---- the plot ----

static double intensity(const struct html_roof_work *w) { return w->ops / w->bytes; }
static double rate_of(const struct roof *f, const struct html_roof_work *w)
{
  return w->us > 0 ? w->ops / (1e-6 * w->us) : MIN(f->flops, f->bandwidth * intensity(w));
}

static double px(const struct roof *f, double lx) { return LEFT + (WIDTH - LEFT - RIGHT) * (lx - f->x0) / (f->x1 - f->x0); }
static double py(const struct roof *f, double ly) { return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (ly - f->y0) / (f->y1 - f->y0); }

static void limits(struct roof *f)
{
  double ridge = log10(f->flops / f->bandwidth);
  f->x0 = floor(ridge - 1), f->x1 = ceil(ridge + 1), f->y1 = ceil(log10(f->flops) + 0.2), f->y0 = f->y1 - 2;
  for (int i = 0; i < f->n; i++) {
    double x = log10(intensity(&f->w[i])), y = log10(rate_of(f, &f->w[i]));
    f->x0 = MIN(f->x0, floor(x - 0.2)), f->x1 = MAX(f->x1, ceil(x + 0.2));
    f->y0 = MIN(f->y0, floor(y - 0.1)), f->y1 = MAX(f->y1, ceil(y + 0.1));
  }
  f->y0 = MIN(f->y0, floor(log10(f->bandwidth) + f->x0));
  f->y0 = MAX(f->y0, f->y1 - 8);
}

static void text(const struct roof *f, const char *class, const char *anchor, double x, double y, const char *s)
{
  html_add(f->h, "<text class=\"%s\" text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", class, anchor, x, y, s);
}

static void axes(const struct roof *f)
{
  struct html *h = f->h;
  for (double x = f->x0; x <= f->x1 + 0.01; x++) {
    html_add(h, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>", px(f, x), TOP, HEIGHT - BOTTOM);
    text(f, "tick", "middle", px(f, x), HEIGHT - BOTTOM + 16, arena_printf(h->mem, "%g", pow(10, x)));
  }
  for (double y = f->y0; y <= f->y1 + 0.01; y++) {
    html_add(h, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>", LEFT, py(f, y), WIDTH - RIGHT);
    text(f, "tick", "end", LEFT - 6, py(f, y) + 4, html_unit(h, pow(10, y), ""));
  }
  text(f, "axis", "middle", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, "operations a byte");
  html_add(h, "<text class=\"axis\" text-anchor=\"middle\" transform=\"translate(14 %.1f) rotate(-90)\">operations a second</text>\n",
           (TOP + HEIGHT - BOTTOM) / 2);
}

static void roof_line(const struct roof *f)
{
  double ridge = log10(f->flops / f->bandwidth), top = log10(f->flops), left = MAX(f->x0, f->y0 - log10(f->bandwidth));
  html_add(f->h, "<path class=\"roof\" d=\"M%.1f %.1fL%.1f %.1fH%.1f\"/>\n", px(f, left), py(f, left + log10(f->bandwidth)), px(f, ridge), py(f, top),
           WIDTH - RIGHT);
  text(f, "label", "end", WIDTH - RIGHT - 4, py(f, top) - 6, arena_printf(f->h->mem, "products: %s", html_unit(f->h, f->flops, "op/s")));
  double middle = (left + ridge) / 2;
  text(f, "label", "start", px(f, middle) + 10, py(f, middle + log10(f->bandwidth)) + 18,
       arena_printf(f->h->mem, "memory: %s", html_unit(f->h, f->bandwidth, "B/s")));
}

// Discs with numbers; an overlapping disc is moved aside, with a line to its position.
static void points(const struct roof *f)
{
  struct html *h = f->h;
  double *at = NEWS(h->mem, double, 2 * f->n);
  for (int i = 0; i < f->n; i++) {
    const struct html_roof_work *w = &f->w[i];
    double own = px(f, log10(intensity(w))), x = own, y = py(f, MAX(f->y0, log10(rate_of(f, w))));
    for (int k = 0; k < i; k++)
      if (fabs(at[2 * k] - x) < 21 && fabs(at[2 * k + 1] - y) < 21) x = at[2 * k] + 23, k = -1;
    at[2 * i] = x, at[2 * i + 1] = y;
    if (x > own) html_add(h, "<path class=\"lead\" d=\"M%.1f %.1fH%.1f\"/>", own, y, x);
    html_add(h,
             "<g class=\"%s\"><title>%s: %s, %s of %s</title><circle cx=\"%.1f\" cy=\"%.1f\" r=\"10\"/><text text-anchor=\"middle\" x=\"%.1f\" "
             "y=\"%.1f\">%d</text></g>\n",
             w->us > 0 ? "pt" : "pt hollow", w->name, w->us > 0 ? html_time(h, w->us) : "no time of its own", html_unit(h, rate_of(f, w), "op/s"),
             html_unit(h, intensity(w), "op/B"), x, y, x, y + 4, i + 1);
  }
}

static void rows(const struct roof *f)
{
  struct html *h = f->h;
  html_raw(h, "<div class=\"scroll\"><table><thead><tr><th scope=\"col\" class=\"num\">Point</th><th scope=\"col\">What</th><th scope=\"col\" "
              "class=\"num\">Bytes</th><th scope=\"col\" class=\"num\">Operations</th><th scope=\"col\" class=\"num\">Op/byte</th>"
              "<th scope=\"col\" class=\"num\">Time</th><th scope=\"col\">Known by</th><th scope=\"col\" class=\"num\">At best</th><th scope=\"col\" "
              "class=\"num\">Of the roof</th></tr></thead><tbody>\n");
  for (int i = 0; i < f->n; i++) {
    const struct html_roof_work *w = &f->w[i];
    double least = 1e6 * MAX(w->bytes / f->bandwidth, w->ops / f->flops);
    html_add(h,
             "<tr><td class=\"num\">%d</td><th scope=\"row\">%s</th><td class=\"num\">%s</td><td class=\"num\">%s</td><td class=\"num\">%.3g</td><td "
             "class=\"num\">%s</td><td>%s</td><td class=\"num\">%s</td>",
             i + 1, w->name, html_unit(h, w->bytes, "B"), html_unit(h, w->ops, "op"), intensity(w), html_time(h, w->us), w->how, html_time(h, least));
    if (w->us > 0)
      html_add(h, "<td class=\"num\">%.0f%%</td></tr>\n", 100 * least / w->us);
    else
      html_raw(h, "<td class=\"num\">&ndash;</td></tr>\n");
  }
  html_raw(h, "</tbody></table></div>\n");
}

void html_roofline(struct html *h)
{
  const json_t *m = json_object_get(h->r, "machine");
  struct roof f = {.h = h, .bandwidth = html_num(m, "bandwidth"), .flops = html_num(m, "flops")};
  html_section(h, "roofline", "Roofline");
  if (f.bandwidth > 0 && f.flops > 0) collect(&f);
  if (!f.n) {
    html_raw(h, "<p class=\"note\">The report has no rates of the machine, or no work and no times to hold against them.</p>\n");
    html_section_end(h);
    return;
  }
  limits(&f);
  html_add(h, "<p>Under the roof of %s: copies at %s, products at %s, %s. Bytes: every input of a kernel read once, every result written once.</p>\n",
           html_txt(h->r, "device"), html_unit(h, f.bandwidth, "B/s"), html_unit(h, f.flops, "op/s"),
           html_yes(m, "measured") ? "as measured here" : "typical rates of the target");
  html_raw(h, "<div class=\"plots\">");
  html_add(h,
           "<figure class=\"plot\"><svg viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" role=\"img\" aria-label=\"roofline: the table below "
           "has its points\">\n",
           WIDTH, HEIGHT, WIDTH, HEIGHT);
  axes(&f);
  roof_line(&f);
  points(&f);
  html_raw(h, "</svg></figure>\n");
  rows(&f);
  html_raw(h, "</div>\n");
  html_section_end(h);
}
