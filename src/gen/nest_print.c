// Prints a nest: loops over the outer dimensions, and the innermost one in whole vectors with a masked remainder. Values that are constant along the
// innermost dimension are computed once a row. A reduction keeps its partial results in registers if every loop inside it is reduced; otherwise it
// combines into memory, row by row. In a nest that is a whole kernel, dimensions that are not reduced come first and are divided over threads.
#include "gen/nest_print.h"

enum { CHUNK = 1024, TINY = 1 << 14 };      // most elements of a thread's piece of a row; most elements for which one thread is enough
enum { LONG = 256 };                        // rows of at least this length get aligned stores
enum { PIECE = 1 << 12, SHARED = 1 << 18 }; // least elements: of a piece of a shared row; of a nest whose rows are shared

static bool folds_row(const struct nest *f, const struct sink *k) { return k->fold != FOLD_NONE && k->red[last_dim(f)]; }
static bool folds_memory(const struct nest *f, const struct sink *k) { return k->fold != FOLD_NONE && !k->red[last_dim(f)]; }

// The outermost loop such that it and all inner loops are reduced by k. The partial result is in registers there.
static int fold_level(const struct nest *f, const struct sink *k)
{
  int l = last_dim(f);
  while (l > 0 && k->red[l - 1]) l--;
  return l;
}

static bool folds_outside(const struct nest *f, const struct sink *k)
{
  for (int i = 0; i < fold_level(f, k); i++)
    if (k->red[i]) return true;
  return false;
}

static void print_values(const struct gen_printer *p, int depth, bool inner)
{
  for (int i = 0; i < p->f->nvalues; i++) {
    const struct gen_value *v = &p->f->values[i];
    if (v->inner != inner) continue;
    const char *text = v->operand >= 0 ? nest_load_text(p, &p->f->operands[v->operand]) : nest_code_text(p, v);
    line(p->s, depth, "const m_vec v%d = %s;", i, text);
    if (inner && v->operand >= 0) nest_prefetch(p, depth, &p->f->operands[v->operand]);
  }
}

// The neutral value of a reduction as a vector, a number and text; the operation on two values; the operation over the lanes of a vector; the operation
// into memory; the operation on s and the value of the next piece of a row.
static const struct {
  const char *vector, *text, *both, *lanes, *into, *one;
  double number;
} fold_words[] = {
    [FOLD_SUM] = {"{0}", "0", "%s + %s", "m_hsum(%s)", "*(%s) += s%d;", "s + (%s)[k]", 0},
    [FOLD_MAX] = {"m_splat(-INFINITY)", "-INFINITY", "m_max(%s, %s)", "m_hmax(%s)", NULL, "m_max1(s, (%s)[k])", -(double)__builtin_inf()},
    [FOLD_PROD] = {"m_splat(1)", "1", "%s * %s", "m_hprod(%s)", "*(%s) *= s%d;", "s * (%s)[k]", 1}};

static const char *both(const struct gen_printer *p, const struct sink *k, const char *a, const char *b)
{
  return arena_printf(p->f->mem, fold_words[k->fold].both, a, b);
}

static const char *combined(const struct gen_printer *p, const struct sink *k, const char *old, const char *value)
{
  return k->fold == FOLD_MAX ? both(p, k, value, old) : both(p, k, old, value);
}

// The memory where one thread combines its piece of a row of reduced results.
static struct operand partial(const struct nest *f)
{
  struct operand o = {"acc", F32, {0}, -1, true};
  o.s[last_dim(f)] = 1;
  return o;
}

// Prints one whole vector, or the masked remainder, of a row.
static void print_body(const struct gen_printer *p, int depth)
{
  struct nest *f = p->f;
  struct arena *mem = f->mem;
  print_values(p, depth, true);
  for (int i = 0; i < f->nsinks; i++) {
    const struct sink *k = &f->sinks[i];
    const char *v = arena_printf(mem, "v%d", k->value);
    if (folds_row(f, k)) {
      const char *old = arena_printf(mem, "f%d[%s]", i, p->unroll > 1 && !p->rest ? "u" : "0");
      const char *now = combined(p, k, old, v);
      line(p->s, depth, p->rest ? "%s = m_first(n, %s, %s);" : "%s = %s;", old, now, old);
    } else if (folds_memory(f, k)) {
      struct operand acc = k->to;
      if (p->threads) acc = partial(f);
      if (k->scale != 1) v = arena_printf(mem, "%s * %s", v, number(mem, k->scale));
      nest_store_line(p, depth, &acc, combined(p, k, nest_load_text(p, &acc), v));
    } else if (k->to.s[last_dim(f)]) {
      nest_store_line(p, depth, &k->to, k->add ? arena_printf(mem, "%s + %s", nest_load_text(p, &k->to), v) : v);
    }
  }
}

static bool works_inside(const struct nest *f)
{
  for (int i = 0; i < f->nsinks; i++)
    if (f->sinks[i].fold != FOLD_NONE || f->sinks[i].to.s[last_dim(f)]) return true;
  return false;
}

// The tensor that a long row writes with non-temporal stores. The row starts with fewer elements than a vector, so that the following vectors are
// aligned. NULL if there is none, or if its vectors are read several at a time.
static const struct operand *past_of_row(const struct gen_printer *p)
{
  for (int i = 0; i < p->f->nsinks && p->unroll == 1 && p->bound >= LONG; i++) {
    const struct sink *k = &p->f->sinks[i];
    if (k->fold == FOLD_NONE && nest_goes_past(p, &k->to)) return &k->to;
  }
  return NULL;
}

static void print_part(struct gen_printer *p, int depth, const char *lanes)
{
  line(p->s, depth, "const int n = %s;", lanes);
  p->rest = true;
  print_body(p, depth);
  p->rest = false;
}

// Sets j to the first position at which vectors of `o` are aligned.
static void print_head(struct gen_printer *p, int depth, const struct operand *o)
{
  line(p->s, depth, "const int h = m_head(%s);", nest_address(p, o, false));
  line(p->s, depth, "if (h) {");
  print_part(p, depth + 1, "h");
  line(p->s, depth, "}");
  line(p->s, depth, "j = h;");
}

static void print_row(struct gen_printer *p, int depth)
{
  struct nest *f = p->f;
  struct str *s = p->s;
  const char *bound = p->chunk && !p->bound ? "m" : arena_printf(f->mem, "%lld", (long long)p->bound);
  p->whole = past_of_row(p);
  bool ragged = !p->bound || p->bound % 16 || p->whole, whole = !p->bound || p->bound >= 4;
  print_values(p, depth, false);
  if (!works_inside(f)) return;
  const int unroll = p->unroll;
  if (ragged) line(s, depth, "ptrdiff_t j = 0;");
  if (p->whole) print_head(p, depth, p->whole);
  if (whole && unroll > 1) {
    if (ragged)
      line(s, depth, "for (ptrdiff_t k = 0; k + %d * M_W <= %s; k += %d * M_W, j = k)", unroll, bound, unroll);
    else
      line(s, depth, "for (ptrdiff_t k = 0; k < %s; k += %d * M_W)", bound, unroll);
    line(s, depth + 1, "M_UNROLL");
    line(s, depth + 1, "for (int u = 0; u < %d; u++) {", unroll);
    line(s, depth + 2, "const ptrdiff_t j = k + u * M_W;");
    print_body(p, depth + 2);
    line(s, depth + 1, "}");
  }
  p->unroll = 1; // of what is left
  if (whole && (unroll == 1 || ragged)) {
    line(s, depth, ragged ? "for (; j + M_W <= %s; j += M_W) {" : "for (ptrdiff_t j = 0; j < %s; j += M_W) {", bound);
    print_body(p, depth + 1);
    line(s, depth, "}");
  }
  if (ragged) {
    line(s, depth, "if (j < %s) {", bound);
    print_part(p, depth + 1, arena_printf(f->mem, "(int)(%s - j)", bound));
    line(s, depth, "}");
  }
  p->unroll = unroll;
}

// Before loop l: declares registers of the reductions that start there.
static void open_folds(struct gen_printer *p, int depth, int l)
{
  for (int i = 0; i < p->f->nsinks; i++) {
    const struct sink *k = &p->f->sinks[i];
    if (!folds_row(p->f, k) || fold_level(p->f, k) != l) continue;
    const char *zero = fold_words[k->fold].vector;
    struct str t = {0};
    for (int u = 0; u < p->unroll; u++) str_add(&t, "%s%s", u ? ", " : "", zero);
    line(p->s, depth, "m_vec f%d[%d] = {%s};", i, p->unroll, str_text(&t));
    str_free(&t);
  }
}

static const char *gathered(const struct gen_printer *p, const struct sink *k, int i)
{
  struct arena *mem = p->f->mem;
  const char *t = arena_printf(mem, "f%d[0]", i);
  for (int u = 1; u < p->unroll; u++) t = both(p, k, t, arena_printf(mem, "f%d[%d]", i, u));
  t = arena_printf(mem, fold_words[k->fold].lanes, t);
  return k->scale == 1 ? t : arena_printf(mem, "%s * %s", t, number(mem, k->scale));
}

// After loop l: makes one number of each reduction, and combines it with memory if other iterations contribute to it.
static void close_folds(struct gen_printer *p, int depth, int l)
{
  struct nest *f = p->f;
  for (int i = 0; i < f->nsinks; i++) {
    const struct sink *k = &f->sinks[i];
    if (!folds_row(f, k) || fold_level(f, k) != l) continue;
    const char *at = nest_address(p, &k->to, false);
    line(p->s, depth, "const float s%d = %s;", i, gathered(p, k, i));
    if (k->to.dtype != F32)
      line(p->s, depth, "%s(%s, 1, m_splat(s%d));", nest_storen(p->f->mem, k->to.dtype), at, i);
    else if (!k->add && !folds_outside(f, k))
      line(p->s, depth, "*(%s) = s%d;", at, i);
    else if (fold_words[k->fold].into)
      line(p->s, depth, fold_words[k->fold].into, at, i);
    else
      line(p->s, depth, "*(%s) = m_max1(*(%s), s%d);", at, at, i);
  }
}

// Stores values that are constant along the row.
static void print_row_stores(struct gen_printer *p, int depth)
{
  struct nest *f = p->f;
  for (int i = 0; i < f->nsinks; i++) {
    const struct sink *k = &f->sinks[i];
    if (k->fold != FOLD_NONE || k->to.s[last_dim(f)]) continue;
    const char *at = nest_address(p, &k->to, false);
    if (k->add)
      line(p->s, depth, "*(%s) += v%d[0];", at, k->value);
    else
      line(p->s, depth, "%s(%s, 1, v%d);", nest_storen(p->f->mem, k->to.dtype), at, k->value);
  }
}

static void print_loops(struct gen_printer *p, int l, int depth)
{
  struct nest *f = p->f;
  open_folds(p, depth, l);
  if (l == last_dim(f)) {
    print_row(p, depth);
    print_row_stores(p, depth);
  } else {
    line(p->s, depth, "for (ptrdiff_t i%d = 0; i%d < %lld; i%d++) {", l, l, (long long)f->d[l], l);
    print_loops(p, l + 1, depth + 1);
    line(p->s, depth, "}");
  }
  close_folds(p, depth, l);
}

// Initializes reductions into memory with the neutral value: a separate nest over the dimensions that are not reduced.
static void print_neutral(struct gen_printer *p, int depth, const struct sink *k)
{
  struct shape one = {0};
  struct nest f = nest_new(p->f->mem, &one);
  f.n = p->f->n;
  struct sink to = {k->to, nest_const(&f, fold_words[k->fold].number), FOLD_NONE, -1, 0, {0}, false, 1};
  for (int i = 0; i < f.n; i++) f.d[i] = k->red[i] ? 1 : p->f->d[i];
  PUSH(f.mem, f.sinks, f.nsinks, f.sinks_cap) = to;
  nest_print(p->s, depth, &f, 0);
}

static void print_inside(struct gen_printer *p, int depth)
{
  for (int i = 0; i < p->f->nsinks; i++) {
    const struct sink *k = &p->f->sinks[i];
    if (!k->add && (folds_memory(p->f, k) || (folds_row(p->f, k) && folds_outside(p->f, k)))) print_neutral(p, depth, k);
  }
  line(p->s, depth, "{");
  print_loops(p, 0, depth + 1);
  line(p->s, depth, "}");
}

// Moves dimensions that are not reduced to the front, so that threads can divide them.
static int threads_first(struct nest *f)
{
  struct nest old = *f;
  int n = 0, outer = 0;
  old.operands = arena_copy(f->mem, f->operands, sizeof *f->operands * (size_t)f->noperands);
  old.sinks = arena_copy(f->mem, f->sinks, sizeof *f->sinks * (size_t)f->nsinks);
  for (int pass = 0; pass < 2; pass++) {
    for (int i = 0; i < f->n - 1; i++) {
      if (old.sinks[0].red[i] != (pass == 1)) continue;
      f->d[n] = old.d[i];
      for (int o = 0; o < f->noperands; o++) f->operands[o].s[n] = old.operands[o].s[i];
      for (int o = 0; o < f->nsinks; o++) f->sinks[o].to.s[n] = old.sinks[o].to.s[i], f->sinks[o].red[n] = old.sinks[o].red[i];
      n++;
    }
    if (!pass) outer = n;
  }
  return outer;
}

// The length of the piece of a row that one thread processes at a time.
static int64_t chunk_of(const struct gen_printer *p, int64_t outer, bool folds)
{
  int64_t n = p->f->d[last_dim(p->f)], most = folds ? CHUNK : 16 * CHUNK;
  if (p->f->sinks[0].red[last_dim(p->f)]) return 0;
  if (!folds && outer >= 4 * p->threads && n <= most) return 0;
  while (most > 64 && outer * (n / most) < 4 * p->threads) most /= 2;
  if (n <= most) return folds ? n : 0;
  for (int64_t c = most; c >= most / 2; c -= 16)
    if (n % c == 0) return c;
  return most;
}

static void print_shared_fold(struct gen_printer *p, int depth, int outer)
{
  struct nest *f = p->f;
  struct sink *k = &f->sinks[0];
  const char *zero = fold_words[k->fold].text;
  line(p->s, depth, "float acc[%lld];", (long long)p->chunk);
  line(p->s, depth, "for (int j = 0; j < %lld; j++) acc[j] = %s;", (long long)p->chunk, zero);
  bool bare = outer == last_dim(f); // nothing is reduced: two rows must not be in one block
  if (bare) line(p->s, depth, "{");
  print_loops(p, outer, depth + bare);
  if (bare) line(p->s, depth, "}");
  struct shape one = {0};
  struct nest out = nest_new(f->mem, &one);
  out.n = f->n;
  for (int i = 0; i < f->n; i++) out.d[i] = f->d[i];
  struct operand acc = partial(f);
  struct sink to = {k->to, nest_value(&out, NULL, NULL, -1, -1), FOLD_NONE, -1, 0, {0}, false, 1};
  out.values[0].operand = 0, out.values[0].inner = true;
  PUSH(out.mem, out.operands, out.noperands, out.operands_cap) = acc;
  PUSH(out.mem, out.sinks, out.nsinks, out.sinks_cap) = to;
  struct gen_printer q = *p;
  q.f = &out, q.unroll = 1;
  print_loops(&q, last_dim(&out), depth);
}

static int unroll_of(const struct nest *f, int64_t bound)
{
  bool fold = false;
  for (int i = 0; i < f->nsinks; i++) fold |= folds_row(f, &f->sinks[i]);
  return !fold || bound % 32 ? 1 : bound % 64 ? 2 : 4;
}

// The number of pieces into which threads cut the rows of a nest. 1: none, as rows are enough for the threads, or short, or one number of a row needs all
// of it.
static int64_t pieces_of(const struct gen_printer *p, int64_t rows)
{
  const struct nest *f = p->f;
  bool folds = false;
  if (rows >= 4 * p->threads || p->total < SHARED) return 1;
  for (int i = 0; i < f->nsinks; i++) {
    const struct sink *k = &f->sinks[i];
    if (folds_row(f, k) ? k->add || folds_outside(f, k) : !k->to.s[last_dim(f)]) return 1;
    folds |= folds_row(f, k);
  }
  return folds || p->inside ? MAX(1, MIN(p->threads, f->d[last_dim(f)] / PIECE)) : 1;
}

static void print_rows(const struct gen_printer *p, int depth, int outer)
{
  const struct nest *f = p->f;
  for (int i = 0; i < outer; i++) line(p->s, depth + i, "for (ptrdiff_t i%d = 0; i%d < %lld; i%d++)", i, i, (long long)f->d[i], i);
}

static void print_parallel(const struct gen_printer *p, int loops)
{
  if (!loops || p->total <= TINY) return;
  const char *collapse = loops > 1 ? arena_printf(p->f->mem, " collapse(%d)", loops) : "";
  line(p->s, 0, "#pragma omp parallel for num_threads(MICA_THREADS) schedule(static)%s", collapse);
}

static void print_cut(const struct gen_printer *p, int depth, int64_t row)
{
  line(p->s, depth - 1, "for (ptrdiff_t c = 0; c < %lld; c += %lld)", (long long)row, (long long)p->chunk);
  line(p->s, depth - 1, "{");
  if (!p->bound)
    line(p->s, depth, "const ptrdiff_t m = c + %lld <= %lld ? %lld : %lld;", (long long)p->chunk, (long long)row, (long long)p->chunk,
         (long long)(row % p->chunk));
}

// One number for each row, from those of its pieces.
static void print_meeting(const struct gen_printer *p, int depth, int i, const struct operand *part, int64_t pieces)
{
  const struct nest *f = p->f;
  const struct sink *k = &f->sinks[i];
  const char *first = nest_address(p, part, false);
  int in = depth;
  for (int l = 0; l < last_dim(f); l++)
    if (!k->red[l]) line(p->s, in++, "for (ptrdiff_t i%d = 0; i%d < %lld; i%d++)", l, l, (long long)f->d[l], l);
  line(p->s, in, "{");
  line(p->s, in + 1, "float s = *(%s);", first);
  line(p->s, in + 1, "for (int k = 1; k < %lld; k++) s = %s;", (long long)pieces, arena_printf(f->mem, fold_words[k->fold].one, first));
  if (k->scale != 1) line(p->s, in + 1, "s *= (float)%s;", number(f->mem, k->scale));
  line(p->s, in + 1, "%s(%s, 1, m_splat(s));", nest_storen(f->mem, k->to.dtype), nest_address(p, &k->to, false));
  line(p->s, in, "}");
}

// Threads take pieces of long rows, and reduce each to a number of its own. One thread combines these in the order of the pieces, so the result does not
// depend on which thread is faster.
static void print_pieces(struct gen_printer *p, int depth, int64_t pieces)
{
  struct nest *f = p->f, cut = *f;
  const int64_t row = f->d[last_dim(f)];
  struct gen_printer q = *p;
  struct operand *part = NEWS(f->mem, struct operand, f->nsinks);
  cut.sinks = arena_copy(f->mem, f->sinks, sizeof *f->sinks * (size_t)f->nsinks);
  q.f = &cut, q.threads = 0, q.chunk = (row / pieces + 63) / 64 * 64, pieces = (row + q.chunk - 1) / q.chunk;
  q.bound = row % q.chunk ? 0 : q.chunk, q.unroll = unroll_of(&cut, q.bound);
  line(p->s, depth, "{");
  for (int i = 0; i < f->nsinks; i++) {
    struct sink *k = &cut.sinks[i];
    if (!k->add && folds_memory(f, k)) print_neutral(p, depth + 1, k);
    if (!folds_row(f, k)) continue;
    int64_t n = pieces;
    part[i] = (struct operand){arena_printf(f->mem, "part%d", i), F32, {0}, -1, .local = true};
    for (int l = last_dim(f) - 1; l >= 0; l--)
      if (!k->red[l]) part[i].s[l] = n, n *= f->d[l];
    line(p->s, depth + 1, "float part%d[%lld];", i, (long long)n);
    k->to = part[i], k->scale = 1;
    k->to.ptr = arena_printf(f->mem, "part%d + c / %lld", i, (long long)q.chunk);
  }
  print_parallel(p, 1);
  print_cut(&q, depth + 2, row);
  print_loops(&q, 0, depth + 2);
  line(p->s, depth + 1, "}");
  for (int i = 0; i < f->nsinks; i++)
    if (folds_row(f, &f->sinks[i])) print_meeting(p, depth + 1, i, &part[i], pieces);
  line(p->s, depth, "}");
}

static void print_threads(struct gen_printer *p, int depth)
{
  struct nest *f = p->f;
  int outer = threads_first(f), loops = 0;
  int64_t blocks = 1;
  for (int i = 0; i < outer; i++) blocks *= f->d[i];
  const int64_t pieces = pieces_of(p, blocks);
  if (pieces > 1) {
    print_pieces(p, depth, pieces);
    return;
  }
  bool folds = folds_memory(f, &f->sinks[0]);
  p->chunk = chunk_of(p, blocks, folds);
  int64_t row = f->d[last_dim(f)];
  if (p->chunk) p->bound = row % p->chunk ? 0 : p->chunk;
  loops = outer + (p->chunk != 0);
  print_parallel(p, loops);
  print_rows(p, depth, outer);
  int in = depth + loops;
  if (p->chunk)
    print_cut(p, in, row);
  else
    line(p->s, in - 1, "{");
  if (folds)
    print_shared_fold(p, in, outer);
  else
    print_loops(p, outer, in);
  line(p->s, in - 1, "}");
}

void nest_print(struct str *s, int depth, struct nest *f, int threads)
{
  struct gen_printer p = {s, f, depth, 1, threads, 1, 0, f->d[last_dim(f)], false, false, NULL};
  for (int i = 0; i < f->n; i++) p.total *= f->d[i];
  p.unroll = unroll_of(f, p.bound);
  if (threads)
    print_threads(&p, depth);
  else
    print_inside(&p, depth);
}

void nest_print_shared(struct str *s, int depth, struct nest *f, int threads)
{
  struct gen_printer p = {s, f, depth, 1, threads, 1, 0, f->d[last_dim(f)], false, true, NULL};
  for (int i = 0; i < f->n; i++) p.total *= f->d[i];
  p.unroll = unroll_of(f, p.bound);
  const int64_t pieces = threads ? pieces_of(&p, p.total / f->d[last_dim(f)]) : 1;
  p.threads = 0;
  if (pieces > 1)
    print_pieces(&p, depth, pieces);
  else
    print_inside(&p, depth);
}
