// The driver: prints one function for each kernel, in graph order; gen_file.c prints the entry points. Tensors between kernels share one workspace,
// and tensors whose lifetimes do not overlap share bytes; the scratch of the threads follows. Reshapes are aliases of the same memory. A split, or a
// transpose that only products or block graphs read, is not executed: its readers read the source with other offsets and strides.
#include "gen/gen_driver.h"

#include <string.h>

static const struct node *producer(const struct gen *c, int t) { return &c->g->nodes[c->g->tensors[t].node]; }

static bool swaps_last(const struct node *n, int dims)
{
  for (int i = 0; i < n->a.perm.n; i++)
    if (n->a.perm.d[i] != (i < dims - 2 ? i : 2 * dims - 3 - i)) return false;
  return true;
}

// Whether all readers read the parts in place. Parts are then not returned and not reshaped, since a reshape needs rows without gaps.
static bool part_folds(const struct gen *c, const struct node *n)
{
  for (int i = 0; i < c->g->nnodes; i++) {
    const struct node *r = &c->g->nodes[i];
    for (int k = 0; k < r->nin; k++)
      if (r->in[k] >= n->out && r->in[k] < n->out + n->nout && (r->op == OP_OUTPUT || op_rows[r->op].rule == RULE_VIEW)) return false;
  }
  return true;
}

// Whether all readers can use other strides instead of the transpose.
static bool folds_away(const struct gen *c, const struct node *n)
{
  if (node_has(n, TAKES_PART)) return part_folds(c, n);
  if (n->op != OP_TRANSPOSE) return false;
  for (int i = 0; i < c->g->nnodes; i++) {
    const struct node *r = &c->g->nodes[i];
    for (int k = 0; k < r->nin; k++) {
      if (r->in[k] != n->out) continue;
      if (node_has(r, TAKES_PART) && part_folds(c, r)) continue;
      if (r->op != OP_BLOCK && (r->op != OP_MATMUL || !swaps_last(n, c->g->tensors[n->out].shape.n))) return false;
    }
  }
  return true;
}

// Whether n is a view or a part of a constant: one number everywhere, so nothing is computed or stored. The roots of its operands are known.
static bool is_number(const struct gen *c, const struct node *n)
{
  enum rule rule = op_rows[n->op].rule;
  return (rule == RULE_VIEW || rule == RULE_SPLIT) && producer(c, c->home[n->in[0]].root)->op == OP_CONST;
}

static bool is_kernel(const struct gen *c, const struct node *n)
{
  if (graph_scans(c->g, NULL, (int)(n - c->g->nodes))) return false; // part of a scan, whose product reads it
  return !is_number(c, n) && n->op != OP_INPUT && n->op != OP_CONST && n->op != OP_RESHAPE && n->op != OP_OUTPUT && !folds_away(c, n);
}

// Whether n is a later update of a state. All versions but the input share one memory.
static bool later_version(const struct gen *c, const struct node *n)
{
  if (!node_has(n, WRITES_SLICES) || graph_state(c->g, n->in[0]) < 0) return false;
  return node_has(producer(c, c->home[n->in[0]].root), WRITES_SLICES);
}

// ---- memory ----

static void find_roots(struct gen *c)
{
  for (int t = 0; t < c->g->ntensors; t++) {
    const struct node *n = producer(c, t);
    c->home[t].root = t, c->home[t].buf = -1;
    if (n->op == OP_RESHAPE || folds_away(c, n) || is_number(c, n) || later_version(c, n)) c->home[t].root = c->home[n->in[0]].root;
  }
}

static void name_ends(struct gen *c)
{
  int in = 0, out = 0;
  for (int i = 0; i < c->g->nnodes; i++) {
    const struct node *n = &c->g->nodes[i];
    if (n->op == OP_INPUT) c->home[n->out].ptr = name_of(c->mem, "in", in++, c->g->tensors[n->out].name);
    if (n->op != OP_OUTPUT) continue;
    struct home *h = &c->home[c->home[n->in[0]].root];
    const char *ptr = name_of(c->mem, "out", out++, c->g->tensors[n->in[0]].name);
    bool moved = folds_away(c, producer(c, n->in[0]));
    if (!h->ptr && !moved && producer(c, c->home[n->in[0]].root)->op != OP_CONST) h->ptr = ptr;
  }
}

// Times are indices of nodes. A tensor lives from its producer to the last node that reads its memory.
static void place_tensors(struct gen *c)
{
  for (int i = 0; i < c->g->nnodes; i++) {
    const struct node *n = &c->g->nodes[i];
    for (int k = 0; k < n->nout; k++) {
      struct home *h = &c->home[n->out + k];
      if (h->root != n->out + k || h->ptr || n->op == OP_CONST) continue;
      if (h->frozen)
        frozen_place(c, n->out + k);
      else
        h->buf = space_add(&c->space, dtype_bytes(c->g->tensors[n->out + k].dtype) * shape_size(&c->g->tensors[n->out + k].shape), i);
    }
    for (int k = 0; k < n->nin; k++) space_touch(&c->space, c->home[c->home[n->in[k]].root].buf, i);
  }
}

// Tensor t in a kernel's function. `ptr` is the parameter that points to its memory.
struct place place_of(const struct gen *c, int t, const char *ptr)
{
  const struct tensor *x = &c->g->tensors[t];
  const struct node *n = producer(c, t);
  if (n->op == OP_CONST) return (struct place){PLACE_CONST, false, n->a.scalar};
  if (is_number(c, n)) return place_of(c, c->home[t].root, ptr);
  if (node_has(n, TAKES_PART) && folds_away(c, n)) {
    struct place p = place_of(c, n->in[0], ptr);
    int64_t index = node_part(n, t - n->out), extent = x->shape.d[n->a.dim];
    p.v = view_cut(c->mem, &p.v, n->a.dim, n->op == OP_SLICE ? n->a.start : index * extent, extent);
    return p;
  }
  if (folds_away(c, n)) {
    struct place p = place_of(c, n->in[0], ptr);
    p.v = view_permuted(&p.v, &n->a.perm);
    return p;
  }
  return (struct place){PLACE_VIEW, false, 0, view_dense(ptr, -1, x->dtype, &x->shape)};
}

void gen_place(struct gen *c)
{
  c->home = NEWS(c->mem, struct home, c->g->ntensors + 1);
  find_roots(c);
  name_ends(c);
  frozen_find(c);
  place_tensors(c);
}

// ---- one kernel ----

// Text of a tensor's address in the entry function. Buffers of the workspace are named by their index.
const char *address_of(const struct gen *c, int t)
{
  const struct home *h = &c->home[c->home[t].root];
  return h->ptr ? h->ptr : arena_printf(c->mem, "b%d", h->buf);
}

static void parameters(struct gen *c, const struct kernel *k, const char *const *out, struct str *params, struct str *args)
{
  const char *sep = "", *restricted = node_has(k->n, WRITES_SLICES) ? "" : "restrict "; // an update may alias its operand
  for (int i = 0; i < k->n->nin; i++) {
    if (k->in[i].kind == PLACE_CONST || (k->packing.n && k->n->op != OP_BLOCK && i == 1)) continue;
    str_add(params, "%sconst %s *%sa%d", sep, c_type(k->in[i].v.dtype), restricted, i);
    str_add(args, "%s%s", sep, address_of(c, k->n->in[i])), sep = ", ";
  }
  for (int i = 0; i < MAX(k->n->nout, k->n->op == OP_OUTPUT); i++) {
    str_add(params, "%s%s *%sr%d", sep, c_type(k->out[i].dtype), restricted, i);
    str_add(args, "%s%s", sep, out[i]), sep = ", ";
  }
  for (int i = 0; i < k->ntemps; i++) str_add(params, ", float *restrict w%d", i), str_add(args, ", b%d", k->temps[i]);
  for (int i = 0; i < k->packing.n; i++) {
    const struct packed_operand *x = &k->packing.operands[i];
    const int t = k->n->in[x->input];
    const struct place whole = place_of(c, t, address_of(c, t)); // in the entry function
    const int64_t offset = frozen_pack(c, x, &whole.v);
    str_add(params, ", const float *restrict packed%d", i), str_add(args, ", (const float *)(const void *)(kept + %lld)", (long long)offset);
  }
  if (k->scratch) str_add(params, ", float *memory"), str_add(args, ", scratch");
}

// Marks results that this program does not read again and that would evict other data from the last-level cache.
static void leave_caches(const struct gen *c, struct kernel *k)
{
  for (int i = 0; i < k->n->nout; i++) {
    int t = k->n->out + i;
    bool read = false;
    for (int j = 0; j < c->g->nnodes; j++)
      for (int a = 0; a < c->g->nodes[j].nin && c->g->nodes[j].op != OP_OUTPUT; a++) read |= c->g->nodes[j].in[a] == t;
    int64_t bytes = shape_size(&k->out[i].shape) * dtype_bytes(k->out[i].dtype), l3 = c->t->l3 ? c->t->l3 : 32 << 20;
    if (read || bytes < l3 / 4) continue;
    if (c->t->fetches)
      k->out[i].fetches = true;
    else
      k->out[i].past = arena_printf(c->mem, "past%d", i);
  }
}

static int emit_kernel(struct gen *c, int i, const char *const *out)
{
  const struct node *n = &c->g->nodes[i];
  struct kernel k = {.mem = c->mem, .g = c->g, .n = n, .space = &c->space, .now = i, .threads = MAX(1, c->t->cores)};
  struct str body = {0}, params = {0}, args = {0};
  k.in = NEWS(c->mem, struct place, n->nin + 1), k.out = NEWS(c->mem, struct view, n->nout + 1);
  const bool once = n->nout && c->home[n->out].frozen;
  bool *frozen = NEWS(c->mem, bool, n->nin + 1);
  for (int j = 0; j < n->nin; j++) frozen[j] = !once && c->home[n->in[j]].frozen;
  k.packing = (struct packing){.frozen = frozen, .pairs = c->t->pair_flops > c->t->flops};
  for (int j = 0; j < n->nin; j++) k.in[j] = place_of(c, n->in[j], arena_printf(c->mem, "a%d", j));
  for (int j = 0; j < n->nout; j++) k.out[j] = place_of(c, n->out + j, arena_printf(c->mem, "r%d", j)).v;
  if (n->op == OP_BLOCK) leave_caches(c, &k);
  if (n->op == OP_OUTPUT) k.out[0] = view_dense("r0", -1, c->g->tensors[n->in[0]].dtype, &c->g->tensors[n->in[0]].shape);
  if (n->op == OP_OUTPUT && k.in->kind == PLACE_CONST) { // a constant that is an output
    struct node *fill = arena_copy(c->mem, n, sizeof *n);
    fill->op = OP_CONST, fill->a.scalar = k.in->c, fill->nin = 0, fill->nout = 1;
    k.n = fill;
  }
  bool takes_numbers = n->op == OP_BLOCK || op_rows[n->op].rule == RULE_MAP || k.n != n;
  for (int j = 0; j < k.n->nin; j++)
    if (k.in[j].kind == PLACE_CONST && !takes_numbers)
      return err_set(c->e, ERR_TARGET, n->at, "%s of a constant is not generated", op_rows[n->op].name);
  int s = n->op == OP_BLOCK ? kernel_print(&k, &body, c->e) : library_print(&k, &body, c->e);
  if (!s) {
    parameters(c, &k, out, &params, &args);
    str_add(&c->kernels, "// %s\nstatic void %s_k%d(%s)\n{\n%s}\n\n", node_text(c->mem, c->g, n), c->name, c->nkernels, str_text(&params),
            str_text(&body));
    line(once ? &c->freezing : &c->calls, 1, "%s_k%d(%s);", c->name, c->nkernels, str_text(&args));
    if (c->timed && !once) line(&c->calls, 1, "now = m_now(), mica_%s_seconds[%d] = now - then, then = now;", c->name, c->nkernels);
    c->nkernels++;
  }
  c->scratch = MAX(c->scratch, k.scratch), c->blas |= k.blas;
  str_free(&body), str_free(&params), str_free(&args);
  return s;
}

int emit_kernels(struct gen *c)
{
  int outs = 0, s = OK;
  for (int i = 0; i < c->g->nnodes && !s; i++) {
    const struct node *n = &c->g->nodes[i];
    const char **out = NEWS(c->mem, const char *, n->nout + 1);
    for (int k = 0; k < n->nout; k++) out[k] = address_of(c, n->out + k);
    if (n->op == OP_OUTPUT) {
      out[0] = name_of(c->mem, "out", outs++, c->g->tensors[n->in[0]].name);
      if (strcmp(out[0], address_of(c, n->in[0]))) s = emit_kernel(c, i, out);
    } else if (is_kernel(c, n)) {
      s = c->rank && node_meets(n) ? emit_meeting(c, i, out[0]) : emit_kernel(c, i, out);
    }
  }
  return s;
}
