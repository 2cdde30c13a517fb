// Replaces the placeholders $0, $v1, $a1 and so on in the texts of instr.def by operands; the head of that file defines
// them. C++ texts get expressions. PTX texts get registers: the placeholders of a text are collected first, each once,
// outputs before inputs, and then numbered.
#include "cuda/cu_print.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

// ---- placeholders of a text ----

struct mark {
  char what;   // the letter after $; 0: none, as in $1
  int operand; // number of the operand; -1: none
  size_t n;    // length of the placeholder
};

static struct mark mark_at(const char *t)
{
  struct mark m = {0, -1, 1};
  if (isalpha((unsigned char)t[m.n])) m.what = t[m.n++];
  if (isdigit((unsigned char)t[m.n])) m.operand = t[m.n++] - '0';
  return m;
}

static const struct instr_operand *wanted(const struct instr *row, int operand)
{
  return operand < row->nout ? &row->out[operand] : &row->in[operand - row->nout];
}

static int elements(const struct cuda_piece *q, int operand)
{
  const struct instr_operand *o = wanted(q->atom->row, operand);
  return o->kind == OPND_FRAGMENT || o->kind == OPND_MATS ? o->count : MAX(1, q->atom->width);
}

static enum tile_type type_of(const struct printer *w, const struct cuda_piece *q, int operand)
{
  return w->s.k->buffers[q->atom->operand[operand].buf].type;
}

static const char *element(struct printer *w, const struct cuda_piece *q, int operand, int i)
{
  const struct tile_operand *o = &q->atom->operand[operand];
  enum operand_kind kind = wanted(q->atom->row, operand)->kind;
  int64_t at = kind == OPND_FRAGMENT || kind == OPND_MATS ? lay_call(&o->inner, i) : i;
  return cu_element(w, o->buf, ex_add(w->s.p->ex, q->index[operand], EX_C(at)));
}

// The type of $v of an operand: the pair type of its element type, or an integer of the same size if the row takes any type.
static const char *vector_type(const struct printer *w, const struct cuda_piece *q, int operand)
{
  static const char *const by_bytes[] = {[1] = "u8", [2] = "u16", [4] = "u32", [8] = "uint2", [16] = "uint4"};
  const struct instr_operand *o = wanted(q->atom->row, operand);
  enum tile_type t = type_of(w, q, operand);
  if (!o->any_type && tile_types[t].pair && elements(q, operand) == 2) return tile_types[t].pair;
  size_t bytes = o->bytes ? (size_t)o->bytes : (size_t)(tile_types[t].bytes * elements(q, operand));
  return bytes < COUNT(by_bytes) && by_bytes[bytes] ? by_bytes[bytes] : NULL;
}

const char *cu_first(struct printer *w, const struct cuda_piece *q, int operand) { return element(w, q, operand, 0); }

// ---- constants ----

static const char *real(struct printer *w, double x, bool single)
{
  char text[32];
  if (isnan(x)) return single ? "mica_bits<float>(0x7fc00000)" : "mica_bits<double>(0x7ff8000000000000ull)";
  if (isinf(x) && single) return x > 0 ? "mica_bits<float>(0x7f800000)" : "mica_bits<float>(0xff800000)";
  if (isinf(x)) return x > 0 ? "mica_bits<double>(0x7ff0000000000000ull)" : "mica_bits<double>(0xfff0000000000000ull)";
  str_double(text, x);
  return arena_printf(w->s.mem, "%s%s%s", text, strpbrk(text, ".e") ? "" : ".0", single ? "f" : "");
}

const char *cu_init(struct printer *w, const struct cuda_piece *q)
{
  enum tile_type t = type_of(w, q, 0);
  double x = q->atom->value;
  if (t == TT_F64) return real(w, x, false);
  if (t == TT_F32) return real(w, x, true);
  if (num_narrow(&tile_types[t])) return arena_printf(w->s.mem, "mica_to<%s>(%s)", tile_types[t].cuda, real(w, x, true));
  if (x <= -0x1p63) return "(-0x7fffffffffffffffll - 1)"; // this value has no literal
  return arena_printf(w->s.mem, "%lld", (long long)x);
}

// ---- C++ ----

static int broken(struct printer *w, const struct cuda_piece *q, const char *text)
{
  return err_set(w->s.e, ERR_TILE, w->s.k->at, "the text of %s is not understood at '%.16s'", q->atom->row->name, text);
}

static const char *guarded(struct printer *w, const struct cuda_piece *q, int operand, const char *type, const char *text)
{
  if (operand < q->atom->nout || q->inside[operand] == EX_C(1)) return text;
  return arena_printf(w->s.mem, "(%s ? %s : %s{})", cu_value(w, q->inside[operand], L_EITHER), text, type);
}

static const char *cxx_mark(struct printer *w, const struct cuda_piece *q, struct mark m)
{
  const struct tile_atom *a = q->atom;
  if (m.operand >= a->nout + a->nin) return NULL;
  if (m.operand >= 0) {
    int o = m.operand;
    const char *type = tile_types[type_of(w, q, o)].cuda, *first = element(w, q, o, 0), *vector = vector_type(w, q, o);
    if (!m.what) return guarded(w, q, o, type, first);
    if (m.what == 'g') return arena_printf(w->s.mem, "&%s", first);
    if (m.what == 'a') return cu_shared(w, &a->operand[o], q->index[o], true);
    if (m.what == 'v' && vector) return guarded(w, q, o, vector, arena_printf(w->s.mem, "mica_as<%s>(%s)", vector, first));
    return NULL;
  }
  switch (m.what) {
  case 'n': return cu_value(w, a->arg, L_ATOM);
  case 'N': return arena_printf(w->s.mem, "%d", a->row->n);
  case 'x': return cu_init(w, q);
  case 'z': return arena_printf(w->s.mem, "mica_pair(%s)", cu_init(w, q));
  case 's': return arena_printf(w->s.mem, "%d", q->step);
  case 'W': return arena_printf(w->s.mem, "%d", a->lanes);
  case 'B': return cu_value(w, a->barrier, L_ATOM);
  case 'T': return arena_printf(w->s.mem, "%d", a->barrier_threads);
  default: return NULL;
  }
}

static int cxx(struct printer *w, const struct cuda_piece *q, const char *text)
{
  struct str s = {0};
  int status = OK;
  while (*text && status == OK) {
    if (*text != '$') {
      str_raw(&s, text++, 1);
      continue;
    }
    struct mark m = mark_at(text);
    const char *by = cxx_mark(w, q, m);
    if (!by)
      status = broken(w, q, text);
    else
      str_add(&s, "%s", by);
    text += m.n;
  }
  if (status == OK) c_line(&w->s, "%s", str_text(&s));
  str_free(&s);
  return status;
}

// ---- PTX ----

enum { ASM_MARKS = 12, ASM_REGISTERS = 320 };
struct assembly {
  struct {
    char what;
    int operand, first, n; // its first register in the list of outputs or inputs, and their number
  } mark[ASM_MARKS];
  int nmarks;
  struct cu_text_side {
    const char *text[ASM_REGISTERS];
    int n;
  } out, in;
};

static bool is_output(const struct cuda_piece *q, struct mark m) { return m.operand >= 0 && m.operand < q->atom->nout && (!m.what || m.what == 'w'); }

static bool reg(struct printer *w, struct cu_text_side *s, const char *how, char letter, const char *value)
{
  if (s->n == ASM_REGISTERS) return false;
  s->text[s->n++] = arena_printf(w->s.mem, "\"%s%c\"(%s)", how, letter, value);
  return true;
}

// Adds an integer as a 32-bit register. A bool is not allowed as an asm operand, so a comparison is converted to int.
static bool int_reg(struct printer *w, struct cu_text_side *s, ex x)
{
  struct words t = cu_ex(w, x);
  return reg(w, s, "", 'r', t.wide || cu_is_truth(w, x) ? arena_printf(w->s.mem, "int(%s)", t.text) : t.text);
}

// Adds the elements of an operand as registers: two 16-bit elements in a word, two 8-bit elements in half a word, a 64-bit element in two words.
static bool registers(struct printer *w, const struct cuda_piece *q, struct mark m, struct cu_text_side *s)
{
  enum tile_type t = type_of(w, q, m.operand);
  int n = elements(q, m.operand), bytes = tile_types[t].bytes;
  const char *how = is_output(q, m) ? q->atom->row->sum ? "+" : "=" : "";
  bool words = m.what == 'w';
  if (words && n * bytes == 2) return reg(w, s, how, 'h', arena_printf(w->s.mem, "mica_as<u16>(%s)", element(w, q, m.operand, 0)));
  if (words) n = n * bytes / 4;
  for (int i = 0; i < n; i++) {
    int per = words ? MAX(1, 4 / bytes) : bytes == 2 && n > 1 ? 2 : 1;
    int64_t at = words ? (int64_t)i * 4 / bytes : (int64_t)i;
    if (per == 2 && !words && i % 2) continue;
    const char *x = element(w, q, m.operand, (int)at);
    bool word = words || per == 2;
    char letter = word ? 'r' : t == TT_F32 ? 'f' : t == TT_F64 ? 'd' : bytes == 8 ? 'l' : bytes == 2 ? 'h' : 'r';
    if (word || bytes == 2) x = arena_printf(w->s.mem, "mica_as<%s>(%s)", word ? "u32" : "u16", x);
    if (words && bytes == 8 && i % 2) x = arena_printf(w->s.mem, "(&%s)[1]", x); // the upper half
    if (!reg(w, s, how, letter, x)) return false;
  }
  return true;
}

static ex box_coordinate(struct printer *w, const struct cuda_piece *q, const struct tile_operand *o, int d)
{
  ex x = o->coord[d];
  for (int i = 0; i < q->atom->nmodes; i++) x = ex_add(w->s.p->ex, x, ex_mul(w->s.p->ex, o->coord_stride[d][i], q->modes[i]));
  return x;
}

static bool operand_mark(struct printer *w, const struct cuda_piece *q, struct mark m, struct cu_text_side *s)
{
  const struct tile_operand *o = &q->atom->operand[m.operand];
  switch (m.what) {
  case 0:
  case 'w': return registers(w, q, m, s);
  case 'a': {
    enum operand_kind kind = wanted(q->atom->row, m.operand)->kind;
    return reg(w, s, "", 'r', cu_shared(w, o, q->index[m.operand], kind == OPND_VECTOR || kind == OPND_ROW));
  }
  case 'g': return reg(w, s, "", 'l', arena_printf(w->s.mem, "&%s", element(w, q, m.operand, 0)));
  case 'd': return reg(w, s, "", 'l', cu_descriptor(w, o, q->index[m.operand]));
  case 'm': return reg(w, s, "", 'l', arena_printf(w->s.mem, "&%s", w->maps[o->map]));
  case 'c': {
    for (int i = 0; i < w->s.k->maps[o->map].rank; i++)
      if (!int_reg(w, s, box_coordinate(w, q, o, i))) return false;
    return true;
  }
  default: return false;
  }
}

static const char *bytes_inside(struct printer *w, const struct cuda_piece *q)
{
  ex inside = EX_C(1);
  for (int i = 0; i < q->atom->nin; i++) inside = ex_both(w->s.p->ex, inside, q->inside[q->atom->nout + i]);
  int bytes = q->atom->row->bytes;
  return inside == EX_C(1) ? arena_printf(w->s.mem, "%d", bytes) : arena_printf(w->s.mem, "%s ? %d : 0", cu_value(w, inside, L_EITHER), bytes);
}

// A placeholder that is replaced by a number in the text; NULL: it needs registers.
static const char *immediate(struct printer *w, const struct cuda_piece *q, struct mark m)
{
  const struct tile_atom *a = q->atom;
  switch (m.what) {
  case 'n': return ex_is_const(a->arg) ? arena_printf(w->s.mem, "%lld", (long long)ex_value(a->arg)) : NULL;
  case 't': return a->operand[m.operand].desc.trans ? "1" : "0";
  case 'N': return arena_printf(w->s.mem, "%d", a->row->n);
  case 's': return arena_printf(w->s.mem, "%d", q->step);
  case 'W': return arena_printf(w->s.mem, "%d", a->lanes);
  case 'B': return ex_is_const(a->barrier) ? arena_printf(w->s.mem, "%lld", (long long)ex_value(a->barrier)) : NULL;
  case 'T': return arena_printf(w->s.mem, "%d", a->barrier_threads);
  default: return NULL;
  }
}

static bool collect(struct printer *w, const struct cuda_piece *q, struct assembly *x, const char *text)
{
  for (const char *t = text; (t = strchr(t, '$'));) {
    struct mark m = mark_at(t);
    t += m.n;
    if (m.operand >= q->atom->nout + q->atom->nin) return false;
    bool known = immediate(w, q, m) != NULL;
    for (int i = 0; i < x->nmarks; i++) known |= x->mark[i].what == m.what && x->mark[i].operand == m.operand;
    if (known) continue;
    struct cu_text_side *s = is_output(q, m) ? &x->out : &x->in;
    int first = s->n;
    bool fine = m.operand >= 0  ? operand_mark(w, q, m, s)
                : m.what == 'b' ? reg(w, s, "", 'r', bytes_inside(w, q))
                : m.what == 'n' ? int_reg(w, s, q->atom->arg)
                : m.what == 'B' ? int_reg(w, s, q->atom->barrier)
                                : false;
    if (!fine || x->nmarks == ASM_MARKS) return false;
    x->mark[x->nmarks].what = m.what, x->mark[x->nmarks].operand = m.operand;
    x->mark[x->nmarks].first = first, x->mark[x->nmarks++].n = s->n - first;
  }
  return true;
}

static void numbers(const struct assembly *x, const struct cuda_piece *q, struct mark m, struct str *s)
{
  int i = 0;
  while (x->mark[i].what != m.what || x->mark[i].operand != m.operand) i++;
  int first = x->mark[i].first + (is_output(q, m) ? 0 : x->out.n), n = x->mark[i].n;
  bool fragment = m.operand >= 0 && !m.what && wanted(q->atom->row, m.operand)->kind != OPND_VECTOR;
  bool list = n != 1 || m.what == 'c' || fragment; // PTX requires braces even around a fragment of one register
  if (list) str_add(s, "{");
  for (int j = 0; j < n; j++) str_add(s, "%s%%%d", j ? ", " : "", first + j);
  if (list) str_add(s, "}");
}

static void side_text(const struct cu_text_side *side, struct str *s)
{
  str_add(s, " :");
  for (int i = 0; i < side->n; i++) str_add(s, "%s%s", i ? ", " : " ", side->text[i]);
}

// Appends a character of the string literal of an asm statement.
static void literal(char c, struct str *s)
{
  if (c == '%')
    str_add(s, "%%%%");
  else if (c == '"' || c == '\\')
    str_add(s, "\\%c", c);
  else if (c == '\n')
    str_add(s, "\\n");
  else
    str_raw(s, &c, 1);
}

static int ptx(struct printer *w, const struct cuda_piece *q, const char *text, bool effects)
{
  struct assembly *x = NEW(w->s.mem, struct assembly);
  if (!collect(w, q, x, text)) return broken(w, q, text);
  struct str s = {0};
  str_add(&s, effects ? "asm volatile(\"" : "asm(\"");
  for (const char *t = text; *t;) {
    if (*t != '$') {
      literal(*t++, &s);
      continue;
    }
    struct mark m = mark_at(t);
    const char *digits = immediate(w, q, m);
    if (digits)
      str_add(&s, "%s", digits);
    else
      numbers(x, q, m, &s);
    t += m.n;
  }
  str_add(&s, "\"");
  if (x->out.n || x->in.n || effects) side_text(&x->out, &s);
  if (x->in.n || effects) side_text(&x->in, &s);
  str_add(&s, effects ? " : \"memory\");" : ");");
  c_line(&w->s, "%s", str_text(&s));
  str_free(&s);
  return OK;
}

// ---- a piece ----

// A load with .nc promises that the memory is constant while the kernel runs, so the assembler may move it before everything else.
// A kernel with Sync<grid.wait> may start before its predecessor has ended. There the promise does not hold before the wait, so
// .nc is removed.
static const char *promising(struct printer *w, const struct instr *row, const char *text)
{
  static const char promise[] = ".nc";
  const char *at = row->constant && cu_has(w->s.k, SEM_GRID_WAIT) ? strstr(text, promise) : NULL;
  return at ? arena_printf(w->s.mem, "%.*s%s", (int)(at - text), text, at + sizeof promise - 1) : text;
}

static int zeros(struct printer *w, const struct cuda_piece *q)
{
  for (int o = 0; o < q->atom->nout; o++) {
    const char *type = tile_types[type_of(w, q, o)].cuda;
    for (int i = 0, n = elements(q, o); i < n; i++) c_line(&w->s, "%s = %s{};", element(w, q, o, i), type);
  }
  return OK;
}

int cu_piece(struct printer *w, const struct cuda_piece *q)
{
  const struct instr *row = q->atom->row;
  const char *text = row->text;
  bool effects = !strncmp(text, "asm! ", 5), assembly = effects || !strncmp(text, "asm ", 4);
  if (!assembly) return cxx(w, q, text);
  text = promising(w, row, text + (effects ? 5 : 4));
  ex inside = EX_C(1);
  if (!strstr(text, "$b"))
    for (int i = 0; i < q->atom->nin; i++) inside = ex_both(w->s.p->ex, inside, q->inside[q->atom->nout + i]);
  if (inside == EX_C(1)) return ptx(w, q, text, effects);
  c_line(&w->s, "if (%s) {", cu_value(w, inside, L_ANY)), w->s.depth++;
  int status = ptx(w, q, text, effects);
  w->s.depth--, c_line(&w->s, "} else {"), w->s.depth++;
  zeros(w, q);
  w->s.depth--, c_line(&w->s, "}");
  return status;
}
