// Lowering: assigns an instruction with loops to every spec without a body (match.c), lays out shared memory (shared.c), and checks the kernel's
// declared outputs against the specs.
#include "tile/match.h"

static void define(struct lowering *l, const struct tile_stmt *s)
{
  if (s->view >= 0) return; // value(): read from memory
  for (int i = 0; i < s->nvars; i++)
    if (!ex_is_const(s->vars[i])) PUSH(l->p->mem, l->defs, l->ndefs, l->cap_defs) = (struct def){s->vars[i], s->values[i]};
}

static bool names_buffer(const struct tile_kernel *k, const int *views, int n, int buf)
{
  for (int i = 0; i < n; i++)
    if (k->views[views[i]].buf == buf) return true;
  return false;
}

// Global memory that is written must be an output of the kernel's spec; global memory that is read must be an input or output.
static int declared(struct lowering *l, const struct tile_atom *a, struct loc at)
{
  const struct tile_kernel *k = l->k;
  const struct tile_spec *root = &k->specs[k->stmts[k->body].spec];
  for (int i = 0; i < a->nout + a->nin; i++) {
    int buf = a->operand[i].buf;
    struct tile_buffer *b = &k->buffers[buf];
    bool writes = i < a->nout || (a->row->sem == SEM_ATOM && i == a->nout);
    if (b->mem != MEM_GL) continue;
    b->written |= writes;
    bool out = names_buffer(k, root->out, root->nout, buf), in = names_buffer(k, root->in, root->nin, buf);
    if (!out && (writes || !in))
      return err_set(l->e, ERR_TILE, at, "%%%s is %s here, but is no %s of the kernel's spec", b->name, writes ? "written" : "read",
                     writes ? "output" : "input or output");
  }
  return OK;
}

static int lower_spec(struct lowering *l, const struct tile_stmt *s)
{
  struct tile_spec *spec = &l->k->specs[s->spec];
  if (spec->kind == SPEC_ALLOCATE) return OK; // the declaration has already allocated it
  struct tile_atom *a = NEW(l->p->mem, struct tile_atom);
  if (match_spec(l, spec, s->at, a) || declared(l, a, s->at)) return (int)l->e->status;
  spec->atom = a;
  return OK;
}

static int lower_block(struct lowering *l, int first)
{
  const struct tile_kernel *k = l->k;
  for (int i = first; i >= 0; i = k->stmts[i].next) {
    const struct tile_stmt *s = &k->stmts[i];
    if (s->kind == STMT_LET) define(l, s);
    if (s->kind == STMT_SPEC && !k->specs[s->spec].decomposed && lower_spec(l, s)) return (int)l->e->status;
    if (lower_block(l, s->body) || lower_block(l, s->other)) return (int)l->e->status;
  }
  return OK;
}

// ld.global.nc promises that no thread writes the buffer while the kernel runs.
static int read_only(struct lowering *l)
{
  const struct tile_kernel *k = l->k;
  for (int i = 0; i < k->nstmts; i++) {
    if (k->stmts[i].kind != STMT_SPEC || !k->specs[k->stmts[i].spec].atom) continue;
    const struct tile_atom *a = k->specs[k->stmts[i].spec].atom;
    for (int j = 0; j < a->nout + a->nin; j++)
      if (a->row->constant && k->buffers[a->operand[j].buf].mem == MEM_GL && k->buffers[a->operand[j].buf].written)
        return err_set(l->e, ERR_TILE, k->stmts[i].at, "%s reads memory that nobody writes, and %%%s is written in this kernel", a->row->name,
                       k->buffers[a->operand[j].buf].name);
  }
  return OK;
}

int tile_lower(struct tile_program *p, struct tile_kernel *k, int arch, struct err *e)
{
  struct lowering l = {.p = p, .k = k, .target = target_gpu(arch), .e = e};
  if (!l.target) return err_set(e, ERR_TILE, k->at, "unknown target %d", arch);
  k->lowered = false, k->nmaps = 0, k->maps = NULL;
  if (k->body < 0 || k->stmts[k->body].spec < 0) return err_set(e, ERR_TILE, k->at, "kernel %s has no spec", k->name);
  if (lower_block(&l, k->body) || read_only(&l)) return (int)e->status;
  if (k->cluster > l.target->cluster)
    return err_set(e, ERR_TILE, k->at, "kernel %s has clusters of %d blocks; %s has %d at most", k->name, k->cluster, l.target->name,
                   l.target->cluster);
  k->nmaps = l.nmaps;
  if (shared_place(&l)) return (int)e->status;
  if (ex_overflowed(p->ex)) return err_set(e, ERR_TILE, k->at, "kernel %s: a size or an offset does not fit into 62 bits", k->name);
  k->lowered = true;
  return OK;
}
