// Makes a program from a plan (lower_plan.c) and a choice for each unit: launches with their schemes and arguments.
#include "lower/lower_emit.h"
#include "plan/letters.h"

struct building {
  struct arena *mem;
  const struct lower_plan *p;
  struct device_program *d;
  struct lower_place *place; // for each tensor of the kernel graph
  struct err *e;
};

static void find_places(struct building *b)
{
  const struct graph *g = b->p->g;
  int ins = 0, outs = 0;
  for (int t = 0; t < g->ntensors; t++) b->place[t].kind = PLACE_WORK;
  for (int i = 0; i < g->nnodes; i++) {
    struct kview v;
    const struct node *n = &g->nodes[i];
    if (n->op == OP_INPUT) b->place[n->out] = (struct lower_place){PLACE_INPUT, ins++, 0};
    if (n->op == OP_OUTPUT && kview_of(g, n->in[0], &v)) b->place[v.root] = (struct lower_place){PLACE_OUTPUT, outs++, 0};
  }
  for (int i = g->nnodes; i-- > 0;) { // an update writes its result over its operand; a state starts as a copy in its output
    int x = node_updated(&g->nodes[i]), root = x < 0 ? -1 : graph_root(g, x);
    if (root >= 0 && b->place[root].kind == PLACE_WORK) b->place[root] = b->place[g->nodes[i].out];
  }
}

static struct launch_arg arg_of(const struct building *b, int t, bool written)
{
  int64_t stride[MAX_DIMS], elements = order_strides(b->p->order ? &b->p->order[t] : NULL, &b->p->g->tensors[t].shape, stride);
  bool kept = node_updated(&b->p->g->nodes[b->p->g->tensors[t].node]) >= 0;
  return (struct launch_arg){b->place[t], t, tile_type_of(b->p->store[t]), elements, written, kept};
}

static const char *how_text(struct arena *mem, const struct choice *c)
{
  struct str how = {0};
  scheme_text(c, &how);
  return str_keep(mem, &how);
}

static void add_product(struct building *b, const struct lower_unit *u, bool tail, struct launch *l)
{
  const struct library_product *x = tail ? &u->ends : &u->mul;
  const struct choice c = product_choice(b->p, x, tail);
  l->product = true, l->how = how_text(b->mem, &c), l->mul = x->p, l->cost = c.cost, l->dependent = false;
  l->arg = NEWS(b->mem, struct launch_arg, BLAS_OPERANDS);
  for (int i = 0; i < BLAS_OPERANDS; i++)
    if (blas_has(&x->p, i)) l->arg[l->nargs++] = arg_of(b, x->tensor[i], i == BLAS_D);
}

static void add_meeting(struct building *b, const struct lower_unit *u, struct launch *l)
{
  const struct choice c = meeting_choice(b->p->gpu, &u->meet.m);
  l->how = how_text(b->mem, &c), l->meet = u->meet.m, l->dependent = false;
  l->arg = NEWS(b->mem, struct launch_arg, COUNT(u->meet.tensor));
  for (size_t i = 0; i < COUNT(u->meet.tensor); i++) l->arg[l->nargs++] = arg_of(b, u->meet.tensor[i], i > 0);
}

// Checks a scheme's kernel against its description: the order, types and sizes of arguments.
static int check_args(const struct building *b, const struct launch *l)
{
  int n = 0;
  for (int i = 0; i < l->k->nbuffers; i++) {
    const struct tile_buffer *x = &l->k->buffers[i];
    if (x->mem != MEM_GL) continue;
    if (n == l->nargs) return err_set(b->e, ERR_TILE, x->at, "%s has more arguments than were said", l->name);
    const struct launch_arg *a = &l->arg[n];
    bool sized = ex_is_const(x->elements) && ex_value(x->elements) <= a->elements; // padded rows may end with a gap
    if (a->tensor >= 0 && (x->type != a->type || !sized))
      return err_set(b->e, ERR_TILE, x->at, "argument %%%s of %s has not the type or size of its tensor", x->name, l->name);
    l->arg[n].written = x->written;
    n++;
  }
  if (n != l->nargs) return err_set(b->e, ERR_TILE, l->k->at, "%s has %d arguments, not %d", l->name, n, l->nargs);
  if (l->k->shared_bytes > b->p->gpu->scratch)
    return err_set(b->e, ERR_LIMIT, l->k->at, "%s needs %lld bytes of shared memory, and a block may have %lld", l->name,
                   (long long)l->k->shared_bytes, (long long)b->p->gpu->scratch);
  return OK;
}

static int add_kernel(struct building *b, const struct lower_unit *u, const struct choice *c, struct launch *l)
{
  struct lower_out out = {0};
  struct lower_job j = lower_unit_job(b->mem, b->p, u, c->tail);
  struct text_marks marks = {.mem = b->mem};
  j.marks = &marks;
  l->how = how_text(b->mem, c);
  int status = scheme_emit(scheme_at(c->scheme), &j, &c->k, &out, b->e);
  l->text = str_keep(b->mem, &out.text);
  if (status) return status;
  about_lines(b->mem, b->p->g, &marks, l);
  l->nargs = out.nargs, l->arg = NEWS(b->mem, struct launch_arg, out.nargs + 1);
  for (int i = 0; i < out.nargs; i++)
    if (out.arg[i] == ARG_COUNTERS)
      l->arg[i] = (struct launch_arg){{PLACE_WORK, 0, 0}, ARG_COUNTERS, TT_I32, (out.counters + 3) / 4, true};
    else if (out.arg[i] == ARG_PARTS)
      l->arg[i] = (struct launch_arg){{PLACE_WORK, 0, 0}, ARG_PARTS, TT_F32, out.parts, true};
    else
      l->arg[i] = arg_of(b, out.arg[i], false);
  status = tile_parse(b->mem, arena_printf(b->mem, "%s.tile", l->name), l->text, &l->p, b->e);
  if (status) return status;
  l->k = l->p->kernels[0];
  status = tile_lower(l->p, l->k, b->p->gpu->arch, b->e);
  return status ? status : check_args(b, l);
}

static int add_launch(struct building *b, const struct lower_unit *u, const struct choice *c)
{
  struct launch *l = &b->d->launch[b->d->nlaunch];
  if (!u->nchoices) {
    err_set(b->e, ERR_TARGET, b->p->g->nodes[u->first].at, "no GPU kernel can be made of %s: %s", u->name, u->why);
    return err_hint(b->e, "`mica lower FILE --dump norm` shows what the kernels are made from"), (int)USER;
  }
  bool tail = c->tail && u->last != u->first;
  *l = (struct launch){.name = u->name,
                       .unit = (int)(u - b->p->unit),
                       .first = u->first,
                       .last = tail ? u->last : u->first,
                       .dependent = b->p->dependent,
                       .cost = c->cost,
                       .algorithm = -1};
  int status = OK;
  if (u->meet.m.ranks)
    add_meeting(b, u, l);
  else if (u->product)
    add_product(b, u, tail, l);
  else
    status = add_kernel(b, u, c, l);
  b->d->nlaunch++, b->d->cost += l->cost;
  return status;
}

int lower_make(struct arena *mem, const struct lower_plan *p, const struct choice *pick, struct device_program *d, struct err *e)
{
  *d = (struct device_program){.g = p->g, .order = p->order, .gpu = p->gpu, .launch = NEWS(mem, struct launch, p->nunits + 1)};
  struct building b = {mem, p, d, NEWS(mem, struct lower_place, p->g->ntensors + 1), e};
  int status = OK;
  find_places(&b);
  for (int i = 0; i < p->nunits && !status; i++)
    if (!lower_inside(p, pick, i)) status = add_launch(&b, &p->unit[i], &pick[i]);
  return status ? status : workspace_plan(mem, d, e);
}
