// One rank of a world as a function. It takes the rank's parts of inputs and outputs, and an exchange (mica_meet.h) that all ranks map. A collective
// becomes three steps: a kernel that writes the operand to the rank's slot, a wait for all ranks, and a kernel that reads all slots. A sum adds the
// slots in rank order, so all ranks get the same bits.
#include "gen/gen_driver.h"
#include "thread/thread.h"

#include <string.h>

extern const char gen_meet_text[]; // mica_meet.h, embedded by the build

static void print_nest(const struct gen *c, struct nest *f, struct str *body)
{
  nest_finish(f);
  nest_print(body, 1, f, MAX(1, c->t->cores));
}

static void copy(struct gen *c, const struct view *from, const struct view *to, struct str *body)
{
  struct nest f = nest_new(c->mem, &to->shape);
  nest_store(&f, nest_load(&f, from), to, false);
  print_nest(c, &f, body);
}

static void add_function(struct gen *c, const struct node *n, const char *what, const char *parameters, const char *body)
{
  str_add(&c->kernels, "// %s: %s\nstatic void %s_k%d(%s)\n{\n%s}\n\n", node_text(c->mem, c->g, n), what, c->name, c->nkernels++, parameters, body);
}

// Copies the operand to the rank's slot.
static int put(struct gen *c, const struct node *n, const char *type, int turn)
{
  const struct tensor *x = &c->g->tensors[n->in[0]];
  const struct place from = place_of(c, n->in[0], "a0");
  const struct view to = view_dense("r0", -1, x->dtype, &x->shape);
  struct str body = {0};
  if (from.kind == PLACE_CONST) return err_set(c->e, ERR_TARGET, n->at, "%s of a constant is not generated", op_rows[n->op].name);
  copy(c, &from.v, &to, &body);
  line(&c->calls, 1, "%s_k%d(%s, m_slot(exchange, rank, %d, %s_slot));", c->name, c->nkernels, address_of(c, n->in[0]), turn, c->name);
  add_function(c, n, "to the rank's slot", arena_printf(c->mem, "const %s *restrict a0, %s *restrict r0", type, type), str_text(&body));
  str_free(&body);
  return OK;
}

static struct view slot(struct gen *c, int rank, const struct tensor *x, const struct shape *s, const char *offset)
{
  const char *ptr = arena_printf(c->mem, *offset ? "(s%d%s)" : "s%d%s", rank, offset);
  struct view v = view_dense(ptr, -1, x->dtype, &x->shape);
  v.shape = *s;
  return v;
}

static void join(struct gen *c, const struct node *n, const struct tensor *x, const struct view *out, struct str *body)
{
  for (int r = 0; r < c->g->world; r++) {
    const struct view from = slot(c, r, x, &x->shape, ""), to = view_cut(c->mem, out, n->a.dim, r * x->shape.d[n->a.dim], x->shape.d[n->a.dim]);
    copy(c, &from, &to, body);
  }
}

static void add_up(struct gen *c, const struct node *n, const struct tensor *x, const struct view *out, struct str *body)
{
  const bool part = node_has(n, SCATTERS);
  const struct view whole = view_dense("s0", -1, x->dtype, &x->shape);
  const int64_t from = part ? whole.stride[n->a.dim] * out->shape.d[n->a.dim] : 0;
  const char *offset = part ? arena_printf(c->mem, " + rank * %lld", (long long)from) : "";
  struct nest f = nest_new(c->mem, &out->shape);
  int sum = -1;
  for (int r = 0; r < c->g->world; r++) {
    const struct view v = slot(c, r, x, &out->shape, offset);
    const int one = nest_load(&f, &v);
    sum = r ? nest_op(&f, OP_ADD, &n->a, sum, one) : one;
  }
  nest_store(&f, sum, out, false);
  print_nest(c, &f, body);
}

// Computes the result from the slots of all ranks.
static void take(struct gen *c, const struct node *n, const char *type, int turn, const char *out)
{
  const struct tensor *x = &c->g->tensors[n->in[0]];
  const struct view to = view_dense("r0", -1, x->dtype, &c->g->tensors[n->out].shape);
  struct str body = {0}, parameters = {0};
  str_add(&parameters, "const ptrdiff_t rank");
  for (int r = 0; r < c->g->world; r++) str_add(&parameters, ", const %s *restrict s%d", type, r);
  str_add(&parameters, ", %s *restrict r0", type);
  if (node_has(n, JOINS_RANKS))
    join(c, n, x, &to, &body);
  else
    add_up(c, n, x, &to, &body);
  str_add(&c->calls, "  %s_k%d(rank", c->name, c->nkernels);
  for (int r = 0; r < c->g->world; r++) str_add(&c->calls, ", m_slot(exchange, %d, %d, %s_slot)", r, turn, c->name);
  str_add(&c->calls, ", %s);\n", out);
  add_function(c, n, "of the slots of all ranks", str_text(&parameters), str_text(&body));
  str_free(&body), str_free(&parameters);
}

int emit_meeting(struct gen *c, int i, const char *out)
{
  const struct node *n = &c->g->nodes[i];
  const struct tensor *x = &c->g->tensors[n->in[0]];
  const int turn = c->meetings++ % 2;
  c->slot = MAX(c->slot, (dtype_bytes(x->dtype) * shape_size(&x->shape) + 63) / 64 * 64);
  TRY(put(c, n, c_type(x->dtype), turn));
  line(&c->calls, 1, "if ((status = m_meet(exchange, rank))) return status;");
  take(c, n, c_type(x->dtype), turn, out);
  return OK;
}

static void entry(struct gen *c, struct str *s)
{
  const char *full = arena_printf(c->mem, "mica_%s", c->name);
  line(s, 0, "size_t %s_workspace(void)\n{\n  return %lld + (size_t)MICA_THREADS * %lld;\n}\n", full, (long long)c->space.total,
       (long long)c->scratch);
  line(s, 0, "size_t %s_exchange(void)\n{\n  return M_EXCHANGE + (size_t)%d * 2 * %s_slot;\n}\n", full, c->g->world, c->name);
  line(s, 0, "int %s_world(void)\n{\n  return %d;\n}\n", full, c->g->world);
  line(s, 0, "// The rank's parts of inputs and outputs. 0, or an error number of m_meet.");
  line(s, 0, "int %s(int rank, void *const *inputs, void *const *outputs, void *workspace, struct m_exchange *exchange)\n{", full);
  line(s, 1, "int status;");
  entry_body(c, s, &c->calls);
  line(s, 1, "return status = m_meet(exchange, rank);\n}");
}

// Prints the function of one rank. The ranks on this machine share its threads.
static void print_rank(struct gen *c, struct str *s)
{
  space_place(&c->space);
  str_add(s, "\n// ---- one rank of %d ----\n\n%s\n", c->g->world, gen_meet_text);
  line(s, 0, "enum { m_threads = MICA_THREADS > %d ? MICA_THREADS / %d : 1 };", c->g->world, c->g->world);
  line(s, 0, "#undef MICA_THREADS\n#define MICA_THREADS m_threads");
  line(s, 0, "#define %s_slot ((size_t)%lld)", c->name, (long long)c->slot);
  print_blas(c, s);
  str_add(s, "\n%s", str_text(&c->kernels));
  entry(c, s);
}

int gen_c_ranks(const struct graph *g, const char *name, const struct target *t, struct str *source, struct err *e)
{
  struct arena mem = {0};
  struct graph *one;
  const struct graph *formed;
  struct target share = *t;
  share.cores = MAX(1, t->cores / g->world);
  struct gen c = {.mem = &mem, .name = arena_printf(&mem, "%s_rank", name), .t = &share, .space.mem = &mem, .rank = true, .e = e};
  int s = graph_rank(&mem, g, &one, e);
  if (!s) s = thread_canonical(&mem, one, &formed, e);
  if (!s) {
    c.g = formed;
    gen_place(&c);
    s = emit_kernels(&c);
  }
  if (!s) print_rank(&c, source);
  str_free(&c.kernels), str_free(&c.calls);
  arena_close(&mem);
  return s;
}
