// Compiles a lowered kernel to a list of steps with jumps, and its specs to atoms. Expressions become slots; layouts within
// a fragment or a tile become tables of offsets. Bodies of decomposed specs are inlined.
#include "sim/machine.h"

static int add_step(struct sim *s, struct sim_step x)
{
  PUSH(s->mem, s->steps, s->nsteps, s->step_cap) = x;
  return s->nsteps - 1;
}

static const int *one_slot(struct sim *s, ex x)
{
  int slot = code_slot(s, x);
  return arena_copy(s->mem, &slot, sizeof slot);
}

static int define(struct sim *s, ex var)
{
  int v = (int)ex_node(s->p->ex, var)->c;
  s->var_pos[v] = ++s->position;
  return v;
}

static const int *define_all(struct sim *s, const struct tile_stmt *t)
{
  int *vars = NEWS(s->mem, int, t->nvars + 1);
  for (int i = 0; i < t->nvars; i++) vars[i] = ex_is_const(t->vars[i]) ? -1 : define(s, t->vars[i]);
  return vars;
}

static const int32_t *table(struct sim *s, struct lay l, int n)
{
  int32_t *out = NEWS(s->mem, int32_t, n + 1);
  for (int i = 0; i < n; i++) out[i] = (int32_t)lay_call(&l, i);
  return out;
}

// ---- atoms ----

static void operand_guards(struct sim *s, const struct tile_atom *t, struct sim_operand *op)
{
  op->nguards = op->t->nguards;
  for (int i = 0; i < op->nguards; i++) {
    const struct tile_guard *g = &op->t->guard[i];
    op->guard[i].value = code_slot(s, g->value), op->guard[i].limit = code_slot(s, g->limit);
    for (int m = 0; m < t->nmodes; m++) op->guard[i].stride[m] = code_slot(s, g->stride[m]);
  }
}

static void operand_address(struct sim *s, struct sim_operand *op, int view, int buf)
{
  op->buf = buf, op->buffer = &s->k->buffers[buf];
  op->type = op->buffer->type, op->mem = op->buffer->mem, op->bytes = tile_types[op->type].bytes;
  ex peer = s->k->views[view].peer;
  op->peer = ex_is_const(peer) && ex_value(peer) < 0 ? -1 : code_slot(s, peer);
}

static void operand_compile(struct sim *s, const struct tile_atom *t, int i, struct sim_operand *op)
{
  const struct instr *row = t->row;
  const struct instr_operand *want = i < t->nout ? &row->out[i] : &row->in[i - t->nout];
  op->t = &t->operand[i], op->written = i < t->nout;
  operand_address(s, op, op->t->view, op->t->buf);
  op->offset = code_slot(s, op->t->offset);
  for (int m = 0; m < t->nmodes; m++) op->stride[m] = code_slot(s, op->t->stride[m]);
  operand_guards(s, t, op);
  if (want->kind == OPND_FRAGMENT || want->kind == OPND_MATS) op->ninner = want->count;
  if (want->kind == OPND_MATRIX) op->ninner = (int)(want->extent[0][0] * want->extent[0][1]);
  if (op->ninner) op->inner = table(s, op->t->inner, op->ninner);
  if (want->kind == OPND_BOX && op->mem == MEM_GL)
    for (int d = 0; d < s->k->maps[op->t->map].rank; d++) {
      op->coord[d] = code_slot(s, op->t->coord[d]);
      for (int m = 0; m < t->nmodes; m++) op->coord_stride[d][m] = code_slot(s, op->t->coord_stride[d][m]);
    }
}

static const int32_t *tv_table(struct sim *s, const struct instr_operand *o, int threads)
{
  if (o->kind != OPND_FRAGMENT || !o->tv.n) return NULL;
  return table(s, o->tv, threads * o->count);
}

// The threads of the group relative to its offset, in the order of all levels of its layout.
static void members(struct sim *s, const struct tile_group *g, struct sim_atom *a)
{
  int n = 1, *list = NEWS(s->mem, int, TILE_THREADS);
  for (int level = 0; level < g->nlevels; level++) {
    int64_t size = ex_value(lay_size((struct lay_ctx *)&s->p->lay, g->level[level]));
    int base = n;
    for (int64_t i = 1; i < size; i++)
      for (int j = 0; j < base && n < TILE_THREADS; j++) list[n++] = list[j] + (int)lay_call(&g->level[level], i);
  }
  a->nmembers = n, a->member = list, a->group = code_slot(s, g->offset);
}

static int atom_error(struct sim *s, const struct sim_atom *a, const char *what)
{
  return s->status = err_set(s->e, ERR_TILE, a->at, "%s: %s", tile_specs[a->spec->kind].name, what);
}

static int atom_add(struct sim *s, const struct tile_spec *spec, struct loc at)
{
  PUSH(s->mem, s->atoms, s->natoms, s->atom_cap) = (struct sim_atom){.spec = spec, .t = spec->atom, .at = at, .arg = -1, .barrier = -1};
  struct sim_atom *a = &s->atoms[s->natoms - 1];
  const struct tile_atom *t = a->t;
  a->number = s->natoms - 1;
  if (!t) return atom_error(s, a, "was not lowered");
  a->n = t->nout + t->nin, a->nout = t->nout;
  a->run = sem_find(t->row->sem);
  if (!a->run) return atom_error(s, a, t->row->name);
  for (int i = 0; i < a->n; i++) operand_compile(s, t, i, &a->op[i]);
  int threads = t->row->threads;
  for (int i = 0; i < a->n && threads > 1; i++) a->tv[i] = tv_table(s, i < t->nout ? &t->row->out[i] : &t->row->in[i - t->nout], threads);
  a->arg = code_slot(s, t->arg);
  a->barrier = code_slot(s, t->barrier);
  members(s, &s->k->groups[spec->threads], a);
  return OK;
}

// value(%v): an atom without an instruction, which has the address.
static int value_add(struct sim *s, const struct tile_stmt *t)
{
  static const struct tile_spec reads = {.kind = SPEC_MOVE, .name = "value"};
  struct tile_operand *o = NEW(s->mem, struct tile_operand);
  struct tile_atom *atom = NEW(s->mem, struct tile_atom);
  const struct tile_view *v = &s->k->views[t->view];
  *o = (struct tile_operand){.view = t->view, .buf = v->buf, .offset = v->offset, .map = -1};
  atom->operand[0] = *o, atom->nin = 1;
  PUSH(s->mem, s->atoms, s->natoms, s->atom_cap) = (struct sim_atom){.spec = &reads, .t = atom, .at = t->at, .arg = -1, .barrier = -1, .n = 1};
  s->atoms[s->natoms - 1].number = s->natoms - 1;
  struct sim_operand *op = &s->atoms[s->natoms - 1].op[0];
  op->t = &atom->operand[0];
  operand_address(s, op, t->view, v->buf);
  op->offset = code_slot(s, v->offset);
  return s->natoms - 1;
}

// ---- statements ----

static int block(struct sim *s, int stmt);

static int let(struct sim *s, const struct tile_stmt *t)
{
  struct sim_step x = {.kind = t->view >= 0 ? STEP_VALUE : STEP_LET, .stmt = t, .nvars = t->nvars};
  if (t->view >= 0) {
    x.atom = value_add(s, t);
  } else {
    int *slots = NEWS(s->mem, int, t->nvars + 1);
    for (int i = 0; i < t->nvars; i++) slots[i] = code_slot(s, t->values[i]);
    x.slots = slots;
  }
  x.vars = define_all(s, t);
  add_step(s, x);
  return OK;
}

static int loop(struct sim *s, const struct tile_stmt *t)
{
  struct sim_step start = {.kind = STEP_FOR, .stmt = t, .slots = one_slot(s, t->from)};
  struct sim_step test = {.kind = STEP_TEST, .stmt = t, .slots = one_slot(s, t->to)};
  struct sim_step next = {.kind = STEP_NEXT, .stmt = t, .slots = one_slot(s, t->step)};
  int v = ex_is_const(t->var) ? -1 : define(s, t->var);
  start.vars = test.vars = next.vars = arena_copy(s->mem, &v, sizeof v);
  if (v < 0) return err_set(s->e, ERR_TILE, t->at, "a loop over a constant");
  add_step(s, start);
  int head = add_step(s, test);
  if (block(s, t->body)) return s->status;
  next.jump = head;
  int last = add_step(s, next); // may reallocate s->steps
  s->steps[head].jump = last + 1;
  return OK;
}

static int condition(struct sim *s, const struct tile_stmt *t)
{
  int head = add_step(s, (struct sim_step){.kind = STEP_IF, .stmt = t, .slots = one_slot(s, t->cond)});
  if (block(s, t->body)) return s->status;
  int middle = add_step(s, (struct sim_step){.kind = STEP_ELSE, .stmt = t});
  s->steps[head].jump = middle;
  if (t->other >= 0 && block(s, t->other)) return s->status;
  int end = add_step(s, (struct sim_step){.kind = STEP_ENDIF, .stmt = t});
  s->steps[middle].jump = end;
  return OK;
}

static int allocate(struct sim *s, const struct tile_stmt *t, int view)
{
  add_step(s, (struct sim_step){.kind = STEP_ALLOC, .stmt = t, .atom = s->k->views[view].buf});
  return OK;
}

static int spec(struct sim *s, const struct tile_stmt *t)
{
  const struct tile_spec *x = &s->k->specs[t->spec];
  if (x->decomposed) return block(s, t->body);
  if (x->kind == SPEC_ALLOCATE) return allocate(s, t, x->out[0]);
  if (atom_add(s, x, t->at)) return s->status;
  add_step(s, (struct sim_step){.kind = STEP_ATOM, .stmt = t, .atom = s->natoms - 1});
  return OK;
}

static int statement(struct sim *s, const struct tile_stmt *t)
{
  if (t->kind == STMT_LET) return let(s, t);
  if (t->kind == STMT_FOR) return loop(s, t);
  if (t->kind == STMT_IF) return condition(s, t);
  if (t->kind == STMT_ALLOC) return allocate(s, t, t->view);
  if (t->kind == STMT_SPEC) return spec(s, t);
  return OK; // definitions of views and groups need no step
}

static int block(struct sim *s, int i)
{
  for (; i >= 0; i = s->k->stmts[i].next)
    if (statement(s, &s->k->stmts[i])) return s->status = (int)s->e->status;
  return OK;
}

int flow_compile(struct sim *s)
{
  s->nvars = ex_vars(s->p->ex);
  s->var_pos = NEWS(s->mem, int, s->nvars + 1);
  if (block(s, s->k->body)) return s->status;
  add_step(s, (struct sim_step){.kind = STEP_END});
  if (s->natoms * TILE_OPERANDS > UINT16_MAX) return s->status = err_set(s->e, ERR_LIMIT, s->k->at, "more than 16000 specs without a body");
  s->site_buf = NEWS(s->mem, int, s->natoms *TILE_OPERANDS + 1);
  for (int i = 0; i < s->natoms; i++)
    for (int o = 0; o < s->atoms[i].n; o++) s->site_buf[i * TILE_OPERANDS + o] = s->atoms[i].op[o].buf;
  return OK;
}
