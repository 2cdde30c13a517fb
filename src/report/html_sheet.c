// Layered drawing, after K. Sugiyama, S. Tagawa and M. Toda, "Methods for Visual Understanding of Hierarchical System Structures". Each box is one
// layer below the lowest that it reads. Edges that cross layers get a point in each. The order in a layer follows the mean position of neighbours in
// sweeps down and up; the order with the fewest crossings is kept. Positions keep the order and are as near as possible to those neighbours. That is
// a least-squares problem under an order, which pooling of adjacent violators solves exactly (R. Barlow et al., "Statistical Inference under Order
// Restrictions", section 1.2).
#include "report/html.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SWEEPS = 12, PLACINGS = 24, DOWN = 0, UP = 1, TOO_LARGE = 600 };
static const double GAP_X = 22, GAP_Y = 34, GAP_POINT = 14, MARGIN = 12, STAGE_GAP = 30;

struct html_sheet_point { // a box, or the point where an edge crosses a layer
  int box;                // -1: of an edge
  int layer, at;          // at: index in its layer
  double w, x;            // x: of its middle
  double key;
  int nin, nout, in0, out0; // its links, in the lists sorted by lower and by upper end
};
struct link {
  int from, to; // points in adjacent layers
};
struct arranging {
  struct arena *mem;
  struct sheet *s;
  int npoints, nlinks, nlayers;
  struct html_sheet_point *p;
  struct link *link;
  int *by_to, *by_from; // links
  int **layer, *nlayer; // points
  int *first;           // for each edge: its first link; the others follow
  double *top, *bottom; // of layers
};

// ---- layers ----

static void find_layers(struct arranging *a)
{
  struct sheet *s = a->s;
  int base = 0;
  for (int stage = 0; stage < SHEET_STAGES; stage++) {
    int most = base - 1;
    for (int i = 0; i < s->nboxes; i++) {
      struct sheet_box *b = &s->box[i];
      if (b->stage != stage) continue;
      b->layer = base;
      for (int e = 0; e < s->nedges; e++)
        if (s->edge[e].to == i) b->layer = MAX(b->layer, s->box[s->edge[e].from].layer + 1);
      most = MAX(most, b->layer);
    }
    base = most + 1;
  }
  a->nlayers = MAX(base, 1);
}

// Loads are near their readers.
static void sink(struct arranging *a)
{
  struct sheet *s = a->s;
  int last[SHEET_STAGES] = {0};
  for (int i = 0; i < s->nboxes; i++) last[s->box[i].stage] = MAX(last[s->box[i].stage], s->box[i].layer);
  for (int i = s->nboxes - 1; i >= 0; i--) {
    struct sheet_box *b = &s->box[i];
    int to = last[b->stage];
    bool read = false;
    for (int e = 0; e < s->nedges; e++)
      if (s->edge[e].from == i) to = MIN(to, s->box[s->edge[e].to].layer - 1), read = true;
    if (b->late && read && to > b->layer) b->layer = to;
  }
}

// ---- points ----

static int add_point(struct arranging *a, int box, int layer, double w)
{
  int i = a->npoints++;
  a->p[i] = (struct html_sheet_point){.box = box, .layer = layer, .w = w};
  a->layer[layer][a->nlayer[layer]] = i;
  a->p[i].at = a->nlayer[layer]++;
  return i;
}

static void make_points(struct arranging *a)
{
  struct sheet *s = a->s;
  int most = s->nboxes;
  for (int e = 0; e < s->nedges; e++) most += s->box[s->edge[e].to].layer - s->box[s->edge[e].from].layer;
  a->p = NEWS(a->mem, struct html_sheet_point, most + 1), a->link = NEWS(a->mem, struct link, most + s->nedges + 1);
  a->layer = NEWS(a->mem, int *, a->nlayers), a->nlayer = NEWS(a->mem, int, a->nlayers), a->first = NEWS(a->mem, int, s->nedges + 1);
  int *room = NEWS(a->mem, int, a->nlayers);
  for (int i = 0; i < s->nboxes; i++) room[s->box[i].layer]++;
  for (int e = 0; e < s->nedges; e++)
    for (int l = s->box[s->edge[e].from].layer + 1; l < s->box[s->edge[e].to].layer; l++) room[l]++;
  for (int l = 0; l < a->nlayers; l++) a->layer[l] = NEWS(a->mem, int, room[l] + 1);
  for (int i = 0; i < s->nboxes; i++) add_point(a, i, s->box[i].layer, s->box[i].w);
  for (int e = 0; e < s->nedges; e++) {
    int from = s->edge[e].from, to = s->edge[e].to;
    a->first[e] = a->nlinks;
    for (int l = s->box[from].layer + 1, at = from; l <= s->box[to].layer; l++) {
      int next = l == s->box[to].layer ? to : add_point(a, -1, l, 2);
      a->link[a->nlinks++] = (struct link){at, next};
      at = next;
    }
  }
}

static void index_links(struct arranging *a)
{
  a->by_to = NEWS(a->mem, int, a->nlinks + 1), a->by_from = NEWS(a->mem, int, a->nlinks + 1);
  for (int i = 0; i < a->nlinks; i++) a->p[a->link[i].to].nin++, a->p[a->link[i].from].nout++;
  for (int i = 0, in = 0, out = 0; i < a->npoints; i++) {
    a->p[i].in0 = in, in += a->p[i].nin, a->p[i].nin = 0;
    a->p[i].out0 = out, out += a->p[i].nout, a->p[i].nout = 0;
  }
  for (int i = 0; i < a->nlinks; i++) {
    struct html_sheet_point *to = &a->p[a->link[i].to], *from = &a->p[a->link[i].from];
    a->by_to[to->in0 + to->nin++] = i, a->by_from[from->out0 + from->nout++] = i;
  }
}

// The k-th neighbour above (DOWN: a downward sweep uses these) or below.
static const struct html_sheet_point *neighbour(const struct arranging *a, const struct html_sheet_point *p, int dir, int k)
{
  return dir == DOWN ? &a->p[a->link[a->by_to[p->in0 + k]].from] : &a->p[a->link[a->by_from[p->out0 + k]].to];
}

static int neighbours(const struct html_sheet_point *p, int dir) { return dir == DOWN ? p->nin : p->nout; }

// ---- the order in a layer ----

static void sort_layer(struct arranging *a, int l)
{
  int *v = a->layer[l], n = a->nlayer[l];
  for (int i = 1; i < n; i++) { // insertion sort: nearly sorted, and stable
    int x = v[i], k = i;
    for (; k > 0 && a->p[v[k - 1]].key > a->p[x].key; k--) v[k] = v[k - 1];
    v[k] = x;
  }
  for (int i = 0; i < n; i++) a->p[v[i]].at = i;
}

static void sweep(struct arranging *a, int dir)
{
  for (int i = 1; i < a->nlayers; i++) {
    int l = dir == DOWN ? i : a->nlayers - 1 - i;
    for (int k = 0; k < a->nlayer[l]; k++) {
      struct html_sheet_point *p = &a->p[a->layer[l][k]];
      int n = neighbours(p, dir);
      double sum = 0;
      for (int m = 0; m < n; m++) sum += neighbour(a, p, dir, m)->at;
      p->key = n ? sum / n : p->at;
    }
    sort_layer(a, l);
  }
}

static long crossings(const struct arranging *a)
{
  long n = 0;
  for (int i = 0; i < a->nlinks; i++)
    for (int k = 0; k < i; k++) {
      const struct link *x = &a->link[i], *y = &a->link[k];
      if (a->p[x->from].layer != a->p[y->from].layer) continue;
      n += (a->p[x->from].at - a->p[y->from].at) * (a->p[x->to].at - a->p[y->to].at) < 0;
    }
  return n;
}

static void find_order(struct arranging *a)
{
  int *best = NEWS(a->mem, int, a->npoints + 1), sweeps = a->nlinks > TOO_LARGE ? 2 : SWEEPS;
  long fewest = -1;
  for (int i = 0; i <= sweeps; i++) {
    long n = a->nlinks > TOO_LARGE ? sweeps - i : crossings(a);
    if (fewest < 0 || n < fewest) {
      fewest = n;
      for (int k = 0; k < a->npoints; k++) best[k] = a->p[k].at;
    }
    sweep(a, i % 2);
  }
  for (int k = 0; k < a->npoints; k++) a->p[k].key = best[k];
  for (int l = 0; l < a->nlayers; l++) sort_layer(a, l);
}

// ---- places ----

static double apart(const struct arranging *a, int left, int right)
{
  const struct html_sheet_point *p = &a->p[left], *q = &a->p[right];
  return p->w / 2 + q->w / 2 + (p->box < 0 || q->box < 0 ? GAP_POINT : GAP_X);
}

// Wanted positions in key: the nearest ones with the gaps between. Points of edges have a larger weight, so that edges are straight.
static void pool(struct arranging *a, int l)
{
  struct html_sheet_group {
    double sum, weight;
    int n;
  } *g = NEWS(a->mem, struct html_sheet_group, a->nlayer[l] + 1);
  const int *v = a->layer[l];
  double *gap = NEWS(a->mem, double, a->nlayer[l] + 1);
  int n = 0;
  for (int i = 0; i < a->nlayer[l]; i++) {
    gap[i] = i ? gap[i - 1] + apart(a, v[i - 1], v[i]) : 0;
    double w = a->p[v[i]].box < 0 ? 8 : 1;
    g[n++] = (struct html_sheet_group){w * (a->p[v[i]].key - gap[i]), w, 1};
    while (n > 1 && g[n - 2].sum / g[n - 2].weight > g[n - 1].sum / g[n - 1].weight) {
      g[n - 2].sum += g[n - 1].sum, g[n - 2].weight += g[n - 1].weight, g[n - 2].n += g[n - 1].n;
      n--;
    }
  }
  for (int k = 0, i = 0; k < n; k++)
    for (int end = i + g[k].n; i < end; i++) a->p[v[i]].x = g[k].sum / g[k].weight + gap[i];
}

static void place_layer(struct arranging *a, int l, int dir)
{
  for (int k = 0; k < a->nlayer[l]; k++) {
    struct html_sheet_point *p = &a->p[a->layer[l][k]];
    double sum = 0;
    int n = 0;
    for (int d = DOWN; d <= UP; d++)
      for (int m = 0; m < neighbours(p, d); m++) {
        const struct html_sheet_point *q = neighbour(a, p, d, m);
        int weight = (d == dir ? 2 : 1) * (p->box < 0 && q->box < 0 ? 8 : 1); // long edges are straight
        sum += weight * q->x, n += weight;
      }
    p->key = n ? sum / n : p->x;
  }
  pool(a, l);
}

static void find_x(struct arranging *a)
{
  struct sheet *s = a->s;
  for (int l = 0; l < a->nlayers; l++)
    for (int k = 0; k < a->nlayer[l]; k++) a->p[a->layer[l][k]].x = k ? a->p[a->layer[l][k - 1]].x + apart(a, a->layer[l][k - 1], a->layer[l][k]) : 0;
  for (int i = 0; i < PLACINGS; i++)
    for (int k = 0; k < a->nlayers; k++) place_layer(a, i % 2 ? a->nlayers - 1 - k : k, i % 2);
  double left = INFINITY, right = 0;
  for (int i = 0; i < a->npoints; i++) left = MIN(left, a->p[i].x - a->p[i].w / 2);
  for (int i = 0; i < a->npoints; i++) {
    a->p[i].x += MARGIN - left, right = MAX(right, a->p[i].x + a->p[i].w / 2);
    if (a->p[i].box >= 0) s->box[a->p[i].box].x = a->p[i].x - a->p[i].w / 2;
  }
  s->w = right + MARGIN;
}

static void find_y(struct arranging *a)
{
  struct sheet *s = a->s;
  double y = MARGIN;
  a->top = NEWS(a->mem, double, a->nlayers), a->bottom = NEWS(a->mem, double, a->nlayers);
  for (int i = 0; i < SHEET_STAGES; i++) s->top[i] = 0, s->bottom[i] = -1;
  for (int l = 0, stage = -1; l < a->nlayers; l++) {
    double h = 0;
    int now = stage;
    for (int i = 0; i < s->nboxes; i++)
      if (s->box[i].layer == l) h = MAX(h, s->box[i].h), now = s->box[i].stage;
    if (stage >= 0 && now != stage) y += STAGE_GAP;
    stage = now, a->top[l] = y, a->bottom[l] = y + h;
    for (int i = 0; i < s->nboxes; i++) {
      struct sheet_box *b = &s->box[i];
      if (b->layer != l) continue;
      b->y = y + (h - b->h) / 2;
      if (s->bottom[b->stage] < 0) s->top[b->stage] = y;
      s->bottom[b->stage] = MAX(s->bottom[b->stage], y + h);
    }
    y += h + GAP_Y;
  }
  s->h = y - GAP_Y + MARGIN;
}

// ---- edges ----

// Position where an edge ends at the top of a box: in the order of the other ends, around the middle.
static double port(const struct arranging *a, const struct sheet_box *b, int point, int link)
{
  const struct html_sheet_point *p = &a->p[point];
  int before = 0;
  double own = a->p[a->link[link].from].x;
  for (int k = 0; k < p->nin; k++) {
    int other = a->by_to[p->in0 + k];
    double x = a->p[a->link[other].from].x;
    before += x < own || (x == own && other < link);
  }
  double step = MIN(18, (b->w - 24) / MAX(p->nin, 1));
  return b->x + b->w / 2 + step * (before - (p->nin - 1) / 2.0);
}

static void go(struct sheet_edge *d, double x, double y)
{
  if (d->n && d->x[d->n - 1] == x && d->y[d->n - 1] == y) return;
  d->x[d->n] = x, d->y[d->n++] = y;
}

// Straight through layers, whose boxes may be taller than those at its ends; curved between them.
static void find_edges(struct arranging *a)
{
  struct sheet *s = a->s;
  for (int e = 0; e < s->nedges; e++) {
    struct sheet_edge *d = &s->edge[e];
    const struct sheet_box *from = &s->box[d->from], *to = &s->box[d->to];
    int links = to->layer - from->layer, first = a->first[e];
    double x0 = from->x + from->w / 2, x1 = port(a, to, d->to, first + links - 1);
    d->x = NEWS(a->mem, double, 2 * links + 2), d->y = NEWS(a->mem, double, 2 * links + 2);
    go(d, x0, from->y + from->h);
    go(d, x0, a->bottom[from->layer]);
    for (int i = 1; i < links; i++) {
      double x = a->p[a->link[first + i - 1].to].x;
      go(d, x, a->top[from->layer + i]);
      go(d, x, a->bottom[from->layer + i]);
    }
    go(d, x1, a->top[to->layer]);
    go(d, x1, to->y);
  }
}

void sheet_arrange(struct arena *mem, struct sheet *s)
{
  struct arranging a = {.mem = mem, .s = s};
  find_layers(&a);
  sink(&a);
  make_points(&a);
  index_links(&a);
  find_order(&a);
  find_x(&a);
  find_y(&a);
  find_edges(&a);
}
