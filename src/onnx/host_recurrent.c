// RNN, GRU and LSTM on cells. States and gates have shape [direction, batch, hidden]. The first dimension of sequences is time; with layout 1 it is
// the second.
#include "onnx/onnx_host.h"

#include <math.h>
#include <string.h>

struct act {
  double (*f)(double x, double a, double b);
  double a, b;
};
struct recurrent {
  int64_t time, batch, in, hidden, ways, gates;
  bool layout, resets_after, shares; // shares: the forget gate of an LSTM is 1 - the input gate
  double clip;
  const struct onnx_cells *x, *w, *r, *bias, *lengths, *peep;
  struct act act[6];
  double *state, *cell; // [ways, batch, hidden]
};

static double applied(const struct recurrent *p, const struct act *a, double x)
{
  return a->f(p->clip > 0 ? fmin(fmax(x, -p->clip), p->clip) : x, a->a, a->b);
}

// One text with all activations is not supported; a node gives them as a list of texts.
static void acts_of(struct onnx_host *h, struct recurrent *p, int each, const char *const *plain)
{
  const struct onnx_attr *names = onnx_attr(h->n, "activations"), *alpha = onnx_attr(h->n, "activation_alpha"),
                         *beta = onnx_attr(h->n, "activation_beta");
  if (names && names->texts.n != each * p->ways) return host_fail(h, "it has %d activations", names->texts.n);
  for (int i = 0; i < each * p->ways; i++) {
    const struct host_act *row = host_act_find(names ? names->texts.v[i] : plain[i % each]);
    if (!row) return host_fail(h, "the activation `%.60s` is not known", names->texts.v[i]);
    p->act[i] = (struct act){row->f, alpha && i < alpha->nfloats ? alpha->floats[i] : row->a, beta && i < beta->nfloats ? beta->floats[i] : row->b};
  }
}

static bool has_shape(struct onnx_host *h, int k, int n, const int64_t *d)
{
  if (!host_has(h, k)) return true;
  const struct shape *s = &h->in[k]->shape;
  bool fits = s->n == n;
  for (int i = 0; i < n && fits; i++) fits = s->d[i] == d[i];
  if (!fits) host_fail(h, "input %d does not fit", k);
  return fits && host_real(h, k);
}

static bool recurrent_of(struct onnx_host *h, struct recurrent *p, int gates)
{
  const char *way = onnx_attr_text(h->n, "direction", "forward");
  *p = (struct recurrent){.x = host_in(h, 0),
                          .w = host_in(h, 1),
                          .r = host_in(h, 2),
                          .gates = gates,
                          .layout = onnx_attr_int(h->n, "layout", 0),
                          .resets_after = onnx_attr_int(h->n, "linear_before_reset", 0),
                          .shares = onnx_attr_int(h->n, "input_forget", 0),
                          .clip = onnx_attr_real(h->n, "clip", 0),
                          .ways = !strcmp(way, "bidirectional") ? 2 : 1};
  if (!host_real(h, 0) || !host_whole(h, 4)) return false;
  if (p->x->shape.n != 3 || p->r->shape.n != 3) return host_fail(h, "its sequences or weights do not fit"), false;
  p->time = p->x->shape.d[p->layout], p->batch = p->x->shape.d[!p->layout], p->in = p->x->shape.d[2], p->hidden = p->r->shape.d[2];
  if (p->hidden > 1 << 20 || p->in > 1 << 20 || p->batch * p->hidden > (int64_t)1 << 28) return host_fail(h, "it is too large"), false;
  const int64_t g = gates * p->hidden, *first = p->layout ? (int64_t[]){p->batch, p->ways, p->hidden} : (int64_t[]){p->ways, p->batch, p->hidden};
  if (!has_shape(h, 1, 3, (int64_t[]){p->ways, g, p->in}) || !has_shape(h, 2, 3, (int64_t[]){p->ways, g, p->hidden}) ||
      !has_shape(h, 3, 2, (int64_t[]){p->ways, 2 * g}) || !has_shape(h, 5, 3, first) || !has_shape(h, 6, 3, first) ||
      !has_shape(h, 7, 2, (int64_t[]){p->ways, 3 * p->hidden}))
    return false;
  p->bias = host_has(h, 3) ? h->in[3] : NULL, p->lengths = host_has(h, 4) ? h->in[4] : NULL, p->peep = host_has(h, 7) ? h->in[7] : NULL;
  if (p->lengths && onnx_elements(&p->lengths->shape) != p->batch) return host_fail(h, "its lengths do not fit"), false;
  return true;
}

// Copies [ways, batch, hidden] to or from the node's layout.
static int64_t state_at(const struct recurrent *p, int64_t d, int64_t b, int64_t k)
{
  return p->layout ? (b * p->ways + d) * p->hidden + k : (d * p->batch + b) * p->hidden + k;
}

static double *state_of(struct onnx_host *h, const struct recurrent *p, int k)
{
  double *s = arena_alloc(h->mem, 8 * (size_t)MAX(p->ways * p->batch * p->hidden, 1));
  for (int64_t i = 0; i < p->ways * p->batch * p->hidden && host_has(h, k); i++)
    s[i] = h->in[k]->f[state_at(p, i / p->hidden / p->batch, i / p->hidden % p->batch, i % p->hidden)];
  return s;
}

// Row `row` of the gates: W x + its bias, and R s + its bias.
static double from_input(const struct recurrent *p, int64_t d, int64_t row, const double *x)
{
  int64_t g = p->gates * p->hidden;
  double sum = p->bias ? p->bias->f[d * 2 * g + row] : 0;
  for (int64_t i = 0; i < p->in; i++) sum += p->w->f[(d * g + row) * p->in + i] * x[i];
  return sum;
}

static double from_state(const struct recurrent *p, int64_t d, int64_t row, const double *s)
{
  int64_t g = p->gates * p->hidden;
  double sum = p->bias ? p->bias->f[(d * 2 + 1) * g + row] : 0;
  for (int64_t i = 0; i < p->hidden; i++) sum += p->r->f[(d * g + row) * p->hidden + i] * s[i];
  return sum;
}

// ---- one step each: from state s (and cell c) to the next state ----

typedef void step(const struct recurrent *p, int64_t d, const double *x, const double *s, double *next, double *c, double *work);

static void rnn_step(const struct recurrent *p, int64_t d, const double *x, const double *s, double *next, double *c, double *work)
{
  (void)c, (void)work;
  for (int64_t k = 0; k < p->hidden; k++) next[k] = applied(p, &p->act[d], from_input(p, d, k, x) + from_state(p, d, k, s));
}

static void gru_step(const struct recurrent *p, int64_t d, const double *x, const double *s, double *next, double *c, double *work)
{
  const struct act *f = &p->act[2 * d], *g = f + 1;
  int64_t n = p->hidden;
  double *z = work, *r = work + n, *rs = work + 2 * n;
  (void)c;
  for (int64_t k = 0; k < n; k++) z[k] = applied(p, f, from_input(p, d, k, x) + from_state(p, d, k, s));
  for (int64_t k = 0; k < n; k++) r[k] = applied(p, f, from_input(p, d, n + k, x) + from_state(p, d, n + k, s)), rs[k] = r[k] * s[k];
  for (int64_t k = 0; k < n; k++) {
    double state = p->resets_after ? r[k] * from_state(p, d, 2 * n + k, s) : from_state(p, d, 2 * n + k, rs);
    next[k] = (1 - z[k]) * applied(p, g, from_input(p, d, 2 * n + k, x) + state) + z[k] * s[k];
  }
}

static double peeped(const struct recurrent *p, int64_t d, int64_t which, int64_t k, double c)
{
  return p->peep ? p->peep->f[(d * 3 + which) * p->hidden + k] * c : 0;
}

static void lstm_step(const struct recurrent *p, int64_t d, const double *x, const double *s, double *next, double *c, double *work)
{
  const struct act *f = &p->act[3 * d], *g = f + 1, *hh = f + 2;
  int64_t n = p->hidden;
  (void)work;
  for (int64_t k = 0; k < n; k++) { // the gates' order is i, o, f, c
    double gate[4];
    for (int j = 0; j < 4; j++) gate[j] = from_input(p, d, j * n + k, x) + from_state(p, d, j * n + k, s);
    double i = applied(p, f, gate[0] + peeped(p, d, 0, k, c[k])), forget = p->shares ? 1 - i : applied(p, f, gate[2] + peeped(p, d, 2, k, c[k]));
    c[k] = forget * c[k] + i * applied(p, g, gate[3]);
    next[k] = applied(p, f, gate[1] + peeped(p, d, 1, k, c[k])) * hh->f(c[k], hh->a, hh->b);
  }
}

// ---- sequences ----

static void run_one(const struct recurrent *p, struct onnx_cells *y, int64_t d, int64_t b, bool reverse, step *f, double *work)
{
  double *s = p->state + (d * p->batch + b) * p->hidden, *c = p->cell + (d * p->batch + b) * p->hidden, *next = work + 3 * p->hidden;
  int64_t length = p->lengths ? p->lengths->i[b] : p->time;
  for (int64_t t = 0; t < length; t++) {
    int64_t at = reverse ? length - 1 - t : t;
    f(p, d, p->x->f + (p->layout ? b * p->time + at : at * p->batch + b) * p->in, s, next, c, work);
    memcpy(s, next, 8 * (size_t)p->hidden);
    int64_t to = p->layout ? (b * p->time + at) * p->ways + d : (at * p->ways + d) * p->batch + b;
    if (y) memcpy(y->f + to * p->hidden, s, 8 * (size_t)p->hidden);
  }
}

static void put_state(const struct recurrent *p, struct onnx_cells *y, const double *s)
{
  for (int64_t i = 0; i < p->ways * p->batch * p->hidden && y; i++)
    y->f[state_at(p, i / p->hidden / p->batch, i / p->hidden % p->batch, i % p->hidden)] = s[i];
}

static void recurrent(struct onnx_host *h, int gates, int each, const char *const *plain, step *f)
{
  struct recurrent p;
  if (!recurrent_of(h, &p, gates)) return;
  acts_of(h, &p, each, plain);
  struct shape all = {.n = 4, .d = {p.time, p.ways, p.batch, p.hidden}}, last = {.n = 3, .d = {p.ways, p.batch, p.hidden}};
  if (p.layout)
    all = (struct shape){.n = 4, .d = {p.batch, p.time, p.ways, p.hidden}}, last = (struct shape){.n = 3, .d = {p.batch, p.ways, p.hidden}};
  struct onnx_cells *y[3] = {NULL};
  for (int k = 0; k < 3 && k < h->n->nout; k++)
    if (*h->n->out_name[k]) y[k] = host_out(h, k, p.x->type, k ? &last : &all);
  if (!host_ready(h)) return;
  p.state = state_of(h, &p, 5), p.cell = state_of(h, &p, 6);
  double *work = arena_alloc(h->mem, 8 * (size_t)(4 * p.hidden + 1));
  bool reverse = !strcmp(onnx_attr_text(h->n, "direction", "forward"), "reverse");
  for (int64_t i = 0; i < p.ways * p.batch; i++) {
    if (p.lengths && (p.lengths->i[i % p.batch] < 0 || p.lengths->i[i % p.batch] > p.time))
      return host_fail(h, "a sequence is longer than %lld", (long long)p.time);
    run_one(&p, y[0], i / p.batch, i % p.batch, reverse || i / p.batch, f, work);
  }
  put_state(&p, y[1], p.state), put_state(&p, y[2], p.cell);
}

void host_rnn(struct onnx_host *h) { recurrent(h, 1, 1, (const char *const[]){"Tanh"}, rnn_step); }
void host_gru(struct onnx_host *h) { recurrent(h, 3, 2, (const char *const[]){"Sigmoid", "Tanh"}, gru_step); }
void host_lstm(struct onnx_host *h) { recurrent(h, 4, 3, (const char *const[]){"Sigmoid", "Tanh", "Tanh"}, lstm_step); }
