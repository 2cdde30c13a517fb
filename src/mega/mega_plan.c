// Plans: the nodes of a step, the writes of each tensor, the tiles of each worker; then events and versions.
#include "mega/mega.h"

#include <string.h>

// ---- nodes ----

// Adjacent operators with layers form a loop over layers.
int mega_nodes_make(const struct mega_model *m, struct mega_node *to)
{
  int n = 0;
  for (int first = 0, last; first < m->nops; first = last) {
    int repeat = MAX(m->op[first].repeat, 1);
    for (last = first + 1; m->op[first].repeat && last < m->nops && m->op[last].repeat; last++) {
    }
    for (int l = 0; l < repeat; l++)
      for (int o = first; o < last; o++, n++)
        if (to) to[n] = (struct mega_node){o, l};
  }
  return n;
}

static bool op_writes(const struct mega_op *op, int tensor)
{
  for (int a = 0; a < op->spec.nargs; a++)
    if (op->spec.writes[a] && op->arg[a] == tensor) return true;
  return false;
}

static void find_writes(struct arena *mem, struct mega_plan *p, int tensor)
{
  struct mega_held *h = &p->held[tensor];
  int cap = 0;
  for (int n = 0; n < p->nnodes; n++)
    if (op_writes(mega_op_of(p, n), tensor)) PUSH(mem, h->write, h->nwrites, cap) = n;
}

// ---- schedule ----

// Equal shares of tiles. The workers that get one tile more start after those of the previous node, so no worker always has more work.
static void make_schedule(struct arena *mem, struct mega_plan *p)
{
  int workers = p->m->workers, start = 0;
  p->lo = NEWS(mem, uint16_t, p->nnodes * workers), p->hi = NEWS(mem, uint16_t, p->nnodes * workers);
  for (int n = 0; n < p->nnodes; n++) {
    int tiles = mega_op_of(p, n)->tiles, at = 0, more = tiles % workers;
    for (int w = 0; w < workers; w++) {
      size_t i = (size_t)n * (size_t)workers + (size_t)w;
      int turn = (w - start + workers) % workers;
      p->lo[i] = (uint16_t)at;
      at += tiles / workers + (turn < more);
      p->hi[i] = (uint16_t)at;
    }
    start = (start + more) % workers;
  }
}

// ---- storage of tensors ----

static int64_t gcd(int64_t a, int64_t b)
{
  while (b) {
    int64_t rest = a % b;
    a = b, b = rest;
  }
  return a;
}

// Elements of the last dimension after which a new word may begin: the greatest common divisor of the bounds of all tiles.
static int64_t group_of(struct arena *mem, const struct mega_plan *p, int tensor)
{
  const struct mega_model *m = p->m;
  int last = m->tensor[tensor].rank - 1;
  int64_t group = m->tensor[tensor].dim[last];
  struct mega_region r = {0};
  for (int o = 0; o < m->nops; o++)
    for (int a = 0; a < m->op[o].spec.naccess; a++) {
      if (m->op[o].arg[m->op[o].spec.access[a].arg] != tensor || m->op[o].spec.access[a].stream) continue;
      for (int t = 0; t < m->op[o].tiles; t++) {
        r.n = 0;
        mega_region(mem, m, &m->op[o], a, 0, t, 0, &r);
        group = gcd(group, r.box[0].lo[last]), group = gcd(group, r.box[0].hi[last]);
      }
    }
  return group;
}

bool mega_few_values(int rows, int64_t values) { return rows <= MEGA_TAGGED_ROWS && values <= (rows == 1 ? MEGA_TAGGED_ROW : MEGA_TAGGED_VALUES); }

bool mega_input_of_rows(const struct mega_model *m, const struct mega_op *op, int access)
{
  const struct mega_access *x = &op->spec.access[access];
  bool whole = x->rank == 2 || x->rank == 3, streams = false;
  for (int d = 0; d < x->rank; d++) whole &= x->dim[d].how == MEGA_WHOLE;
  for (int a = 0; a < op->spec.naccess; a++) streams |= op->spec.access[a].stream && m->tensor[op->arg[op->spec.access[a].arg]].kind == MEGA_WEIGHTS;
  return m->rows > 1 && streams && whole && !x->stream && !x->out;
}

static enum mega_load load_of(const struct mega_plan *p, int tensor)
{
  const struct mega_tensor *t = &p->m->tensor[tensor];
  if (p->held[tensor].tagged) return MEGA_LOAD_WORDS;
  if (!mega_kinds[t->kind].flag) return MEGA_LOAD_CONST;
  for (int o = 0; o < p->m->nops; o++)
    for (int a = 0; a < p->m->op[o].spec.naccess; a++)
      if (t->kind == MEGA_ACTIVATION && p->m->op[o].arg[p->m->op[o].spec.access[a].arg] == tensor && mega_input_of_rows(p->m, &p->m->op[o], a))
        return MEGA_LOAD_BULK;
  return MEGA_LOAD_PLAIN;
}

// The number of work tiles that write to a box of the tensor.
static int writers_of(struct arena *mem, const struct mega_model *m, int tensor, const struct mega_box *b)
{
  struct mega_region r = {0};
  int n = 0;
  for (int o = 0; o < m->nops; o++)
    for (int a = 0; a < m->op[o].spec.naccess; a++) {
      if (!m->op[o].spec.access[a].out || m->op[o].arg[m->op[o].spec.access[a].arg] != tensor) continue;
      for (int t = 0; t < m->op[o].tiles; t++) {
        r.n = 0;
        mega_region(mem, m, &m->op[o], a, 0, t, 0, &r);
        n += mega_meet(m->tensor[tensor].rank, &r.box[0], b);
      }
    }
  return n;
}

// Whether each work tile that reads the tensor reads few values, which few tiles wrote.
static bool read_in_boxes(struct arena *mem, const struct mega_model *m, int tensor)
{
  struct mega_region r = {0};
  bool any = false;
  for (int o = 0; o < m->nops; o++)
    for (int a = 0; a < m->op[o].spec.naccess; a++) {
      if (m->op[o].spec.access[a].out || m->op[o].arg[m->op[o].spec.access[a].arg] != tensor) continue;
      for (int t = 0; t < m->op[o].tiles; t++) {
        r.n = 0, any = true;
        mega_region(mem, m, &m->op[o], a, 0, t, 0, &r);
        if (mega_volume(m->tensor[tensor].rank, &r.box[0]) > MEGA_TAGGED_VALUES) return false;
        if (writers_of(mem, m, tensor, &r.box[0]) > MEGA_TAGGED_TILES) return false;
      }
    }
  return any;
}

static void set_storage(struct arena *mem, struct mega_plan *p, int tensor)
{
  const struct mega_tensor *t = &p->m->tensor[tensor];
  struct mega_held *h = &p->held[tensor];
  bool few = mega_bytes(t->type) == 4 && mega_few_values(p->m->rows, mega_elements(t));
  if (!few && t->kind == MEGA_ACTIVATION && mega_bytes(t->type) == 4 && p->m->rows <= MEGA_TAGGED_ROWS) few = read_in_boxes(mem, p->m, tensor);
  h->tagged = t->kind == MEGA_ACTIVATION && (few || mega_slots(p->m, t) > 1);
  h->word_bytes = h->tagged ? MEGA_WORD : 0;
  h->word_group = h->nwrites ? group_of(mem, p, tensor) : t->dim[t->rank - 1];
  h->versions = t->kind == MEGA_ACTIVATION ? (t->versions ? t->versions : MEGA_MOST_VERSIONS) : 1;
  h->load = load_of(p, tensor);
}

// A read before any write of the step reads the previous step's value. Only state may be read so.
static int check_reads(const struct mega_plan *p, struct err *e)
{
  for (int n = 0; n < p->nnodes; n++) {
    const struct mega_op *op = mega_op_of(p, n);
    for (int a = 0; a < op->spec.naccess; a++) {
      const struct mega_access *x = &op->spec.access[a];
      const struct mega_tensor *t = &p->m->tensor[op->arg[x->arg]];
      int back;
      bool written = mega_kinds[t->kind].flag;
      if (x->out || !written || t->kind == MEGA_STATE) continue;
      int w = mega_read_write(p, n, op->arg[x->arg], &back);
      if (w >= 0 && !back) continue;
      err_set(e, ERR_MEGA, op->at, "operator %.40s reads %.40s before any operator writes it", op->name, t->name);
      return err_hint(e, "a tensor of kind %s is read only after a write in the same step; state lives from step to step", mega_kinds[t->kind].name),
             USER;
    }
  }
  return OK;
}

// Chooses the nodes with a proxy fence after their waits. A task that reads state through the pipeline also waits for state of this step, which the
// next step's pipeline copies. A product also needs the fence if its feeder copies an input that threads wrote.
static void place_fences(struct mega_plan *p)
{
  for (int n = 0; n < p->nnodes; n++) {
    const struct mega_op *op = mega_op_of(p, n);
    for (int a = 0; a < op->spec.naccess; a++) {
      int tensor = op->arg[op->spec.access[a].arg];
      p->fence[n] |= op->spec.access[a].stream && p->m->tensor[tensor].kind == MEGA_STATE;
      p->fence[n] |= p->held[tensor].load == MEGA_LOAD_BULK && mega_input_of_rows(p->m, op, a);
    }
  }
}

int mega_plan_make(struct arena *mem, const struct mega_model *m, struct mega_plan **out, struct err *e)
{
  struct mega_plan *p = *out = NEW(mem, struct mega_plan);
  TRY(mega_model_check(m, e));
  p->m = m, p->whole_words = true;
  mega_world_make(m->world, &p->world);
  p->nnodes = mega_nodes_make(m, NULL);
  p->node = NEWS(mem, struct mega_node, p->nnodes);
  mega_nodes_make(m, p->node);
  p->pipe = NEWS(mem, int, p->nnodes);
  p->fence = NEWS(mem, bool, p->nnodes);
  for (int n = 0; n < p->nnodes; n++) p->pipe[n] = n;
  for (int t = 0; t < m->ntensors; t++) find_writes(mem, p, t), set_storage(mem, p, t);
  TRY(check_reads(p, e));
  make_schedule(mem, p);
  place_fences(p);
  mega_events_derive(mem, p);
  TRY(mega_versions_choose(mem, p, e));
  return mega_after_check(p, e);
}
