// Models: tensors and operators, with checks of their shapes. Errors name the operator, the argument and both extents.
#include "mega/mega_bodies.h"

#include <string.h>

const struct mega_type mega_types[] = {
#define DTYPE(id, name, exponent, mantissa, ...) {name, 1 + exponent + mantissa},
#define WIDE(id, name, exponent, mantissa, ...) {name, 1 + exponent + mantissa},
#define WORD(id, name, bits, ...) {name, bits},
#include "base/dtype.def"
};

int mega_type_find(const char *name)
{
  for (size_t i = 0; i < COUNT(mega_types); i++)
    if (!strcmp(mega_types[i].name, name)) return (int)i;
  return -1;
}

int64_t mega_elements(const struct mega_tensor *t)
{
  int64_t n = 1;
  for (int d = 0; d < t->rank; d++) n *= t->dim[d];
  return n;
}

int mega_tensor_find(const struct mega_model *m, const char *name)
{
  for (int i = 0; i < m->ntensors; i++)
    if (!strcmp(m->tensor[i].name, name)) return i;
  return -1;
}

int mega_op_find(const struct mega_model *m, const char *name)
{
  for (int i = 0; i < m->nops; i++)
    if (!strcmp(m->op[i].name, name)) return i;
  return -1;
}

int mega_tensor_add(struct mega_model *m, const struct mega_tensor *t, struct loc at, struct err *e)
{
  double elements = 1;
  for (int d = 0; d < t->rank; d++) {
    elements *= (double)t->dim[d];
    if (t->dim[d] < 1 || elements > 0x1p40) return err_set(e, ERR_EXTENT, at, "tensor %.40s: dimension %d is %lld", t->name, d, (long long)t->dim[d]);
  }
  if (mega_tensor_find(m, t->name) >= 0) return err_set(e, ERR_DUPLICATE, at, "tensor %.40s is already declared", t->name);
  if (m->ntensors == MEGA_MOST_TENSORS) return err_set(e, ERR_LIMIT, at, "a model has at most %d tensors", MEGA_MOST_TENSORS);
  if (t->kind == MEGA_ACTIVATION && elements * m->rows > 0x1p28)
    return err_set(e, ERR_LIMIT, at, "activation %.40s has more than 2^28 elements", t->name);
  if (t->shared && (t->kind != MEGA_ACTIVATION || mega_types[t->type].bits != 32))
    return err_set(e, ERR_MEGA, at, "tensor %.40s is shared; only 32-bit activations can be", t->name);
  int64_t parts = 0;
  for (int i = 0; i < t->shard.n; i++) parts += t->shard.size[i];
  if (t->shard.n && (t->shard.dim >= t->rank || parts != t->dim[t->shard.dim]))
    return err_set(e, ERR_SHAPE, at, "tensor %.40s: the sections that ranks split do not add up to dimension %d", t->name, t->shard.dim);
  m->tensor[m->ntensors++] = *t;
  return OK;
}

// ---- operators ----

int64_t mega_section(const struct mega_op *op, const struct mega_dim *d, int64_t *offset)
{
  *offset = 0;
  for (int i = 0; i < d->section; i++) *offset += op->size[d->sections[i]];
  return op->size[d->sections[d->section]];
}

static int wrong_extent(const struct mega_op *op, const struct mega_tensor *t, int d, const char *what, int64_t want, struct err *e)
{
  return err_set(e, ERR_SHAPE, op->at, "operator %.40s: dimension %d of %.40s is %lld, but %s of %s is %lld", op->name, d, t->name,
                 (long long)t->dim[d], what, op->layer->name, (long long)want);
}

// Sets an unknown extent to that of the tensor, or compares a known one.
static int bind(struct mega_op *op, const struct mega_tensor *t, int d, int symbol, struct err *e)
{
  if (!op->size[symbol]) op->size[symbol] = t->dim[d];
  return op->size[symbol] == t->dim[d] ? OK : wrong_extent(op, t, d, op->spec.symbol[symbol], op->size[symbol], e);
}

static int bind_sections(struct mega_op *op, const struct mega_tensor *t, int d, const struct mega_dim *x, struct err *e)
{
  int64_t sum = 0;
  for (int i = 0; i < x->nsections; i++) sum += op->size[x->sections[i]];
  return sum == t->dim[d] ? OK : wrong_extent(op, t, d, "the sum of the sections", sum, e);
}

static int bind_access(const struct mega_model *m, struct mega_op *op, const struct mega_access *a, struct err *e)
{
  const struct mega_tensor *t = &m->tensor[op->arg[a->arg]];
  if (t->rank != a->rank)
    return err_set(e, ERR_SHAPE, op->at, "operator %.40s: %.40s has %d dimensions, but %s takes %d", op->name, t->name, t->rank, op->layer->name,
                   a->rank);
  for (int d = 0; d < a->rank; d++) {
    const struct mega_dim *x = &a->dim[d];
    if (x->how == MEGA_THIS_LAYER && t->dim[d] != MAX(op->repeat, 1)) return wrong_extent(op, t, d, "the number of layers", MAX(op->repeat, 1), e);
    if (x->extent && t->dim[d] != x->extent) return wrong_extent(op, t, d, "the extent", x->extent, e);
    if (x->symbol >= 0) TRY(bind(op, t, d, x->symbol, e));
    if (x->nsections) TRY(bind_sections(op, t, d, x, e));
  }
  return OK;
}

static int kinds_fit(const struct mega_model *m, const struct mega_op *op, const struct mega_access *a, struct err *e)
{
  const struct mega_tensor *t = &m->tensor[op->arg[a->arg]];
  if (a->out && !mega_kinds[t->kind].flag)
    return err_set(e, ERR_MEGA, op->at, "operator %.40s writes %.40s, which is %s", op->name, t->name, mega_kinds[t->kind].name);
  if (a->stream && t->kind != MEGA_WEIGHTS && t->kind != MEGA_STATE)
    return err_set(e, ERR_MEGA, op->at, "operator %.40s reads %.40s through the pipeline, which only copies weights and state", op->name, t->name);
  if (!a->out && !a->slots && t->shared) {
    err_set(e, ERR_MEGA, op->at, "operator %.40s reads %.40s, which is shared, but %s takes no slots", op->name, t->name, op->layer->name);
    return err_hint(e, "add_slots adds the slots of all ranks, and argmax compares them"), USER;
  }
  bool any = false;
  for (int d = 0; d < a->rank; d++) any |= a->dim[d].how == MEGA_ANY;
  if (a->decider >= 0 && m->tensor[op->arg[op->spec.access[a->decider].arg]].kind != MEGA_ACTIVATION)
    return err_set(e, ERR_MEGA, op->at, "operator %.40s: %.40s selects what the pipeline copies, so it must be an activation", op->name,
                   m->tensor[op->arg[op->spec.access[a->decider].arg]].name);
  if (any && t->kind != MEGA_WEIGHTS)
    return err_set(e, ERR_MEGA, op->at, "operator %.40s: data select what it reads of %.40s, so that must be weights", op->name, t->name);
  return OK;
}

// Checks attributes that task bodies divide by. An operator may name a tensor that it writes twice only if it is an activation: a read of an
// activation is of another version, but a read of state would race with the write.
static int check_arguments(const struct mega_model *m, const struct mega_op *op, struct err *e)
{
  double heads = op->attr[MEGA_ATTR_heads], kv = op->attr[MEGA_ATTR_kv], dim = op->attr[MEGA_ATTR_dim];
  for (int a = 0; a < op->spec.nargs; a++)
    for (int b = 0; b < op->spec.nargs; b++)
      if (op->arg[a] == op->arg[b] && op->spec.writes[a] && a != b && m->tensor[op->arg[a]].kind != MEGA_ACTIVATION)
        return err_set(e, ERR_MEGA, op->at, "operator %.40s writes %.40s, which it names twice", op->name, m->tensor[op->arg[a]].name);
  if (!(op->spec.attrs >> MEGA_ATTR_heads & 1)) return OK;
  bool whole = heads >= 1 && kv >= 1 && dim >= 2 && heads < 0x1p16 && dim < 0x1p16 && heads == (int)heads && kv == (int)kv && dim == (int)dim;
  if (whole && (int)heads % (int)kv == 0 && (int)dim % 2 == 0 && heads / kv <= MEGA_MOST_GROUP) return OK;
  err_set(e, ERR_MEGA, op->at, "operator %.40s has heads = %g, kv = %g, dim = %g", op->name, heads, kv, dim);
  return err_hint(e, "heads must be a multiple of kv, at most %d times kv, and dim must be even", MEGA_MOST_GROUP), USER;
}

// Sets the number of parts of each axis. At most one axis is free. It gets the requested number of tiles divided by the parts of the others.
static int split_tiles(struct mega_op *op, struct err *e)
{
  int64_t fixed = 1;
  int free_axis = -1;
  for (int i = 0; i < op->spec.naxes; i++) {
    if (op->spec.axis[i].symbol >= 0)
      fixed *= op->parts[i] = (int)op->size[op->spec.axis[i].symbol];
    else
      free_axis = i;
  }
  if (!op->tiles) op->tiles = (int)MIN(fixed, MEGA_MOST_TILES + 1);
  if (op->tiles % fixed || (free_axis < 0 && op->tiles != fixed))
    return err_set(e, ERR_MEGA, op->at, "operator %.40s has %d tiles, but its grid has %lld", op->name, op->tiles, (long long)fixed);
  if (free_axis >= 0) op->parts[free_axis] = (int)(op->tiles / fixed);
  if (op->tiles > MEGA_MOST_TILES)
    return err_set(e, ERR_LIMIT, op->at, "operator %.40s has %d tiles, but the schedule holds at most %d", op->name, op->tiles, MEGA_MOST_TILES);
  return OK;
}

// Parts of a dimension are equal, except the last one along a free axis. No part is empty.
static int parts_fit(const struct mega_model *m, const struct mega_op *op, const struct mega_access *a, struct err *e)
{
  const struct mega_tensor *t = &m->tensor[op->arg[a->arg]];
  for (int d = 0; d < a->rank; d++) {
    const struct mega_dim *x = &a->dim[d];
    if (x->how != MEGA_PART) continue;
    int64_t offset, extent = x->section >= 0 ? mega_section(op, x, &offset) : t->dim[d], parts = op->parts[x->axis];
    bool fixed = op->spec.axis[x->axis].symbol >= 0, same = x->symbol >= 0 && !strcmp(op->spec.symbol[x->symbol], op->spec.axis[x->axis].name);
    int64_t width = (extent + parts - 1) / parts, used = (extent + width - 1) / width;
    if ((fixed && extent % parts) || (same && extent != parts))
      return err_set(e, ERR_SHAPE, op->at, "operator %.40s: dimension %d of %.40s is %lld, which does not have %lld equal parts", op->name, d,
                     t->name, (long long)extent, (long long)parts);
    if (used == parts) continue;
    err_set(e, ERR_MEGA, op->at, "operator %.40s: %lld tiles divide dimension %d of %.40s, which is %lld, so some tiles are empty", op->name,
            (long long)parts, d, t->name, (long long)extent);
    return err_hint(e, "use %lld tiles", (long long)used), USER;
  }
  return OK;
}

// A slice of one element along the dimension that pieces divide must fit a stage.
static int stage_fits(const struct mega_model *m, const struct mega_op *op, const struct mega_access *a, struct err *e)
{
  const struct mega_tensor *t = &m->tensor[op->arg[a->arg]];
  int64_t bytes = mega_bytes(t->type);
  for (int d = 0; d < a->rank; d++) {
    const struct mega_dim *x = &a->dim[d];
    bool one = x->how == MEGA_THIS_LAYER || x->how == MEGA_PAGE_PAST || x->how == MEGA_ANY || x->cut;
    int64_t parts = x->how == MEGA_PART ? op->parts[x->axis] : 1;
    if (!one) bytes *= (t->dim[d] + parts - 1) / parts;
  }
  if (bytes <= m->stage_bytes) return OK;
  err_set(e, ERR_MEGA, op->at, "operator %.40s: the smallest piece of %.40s has %lld bytes, but a stage has %d", op->name, t->name, (long long)bytes,
          m->stage_bytes);
  return err_hint(e, "use more tiles or larger stages"), USER;
}

// Each choice is another expert, and its number must be exact in fp32.
static int choices_fit(const struct mega_op *op, struct err *e)
{
  int64_t choices = 0, experts = 0;
  for (int i = 0; i < op->spec.nsymbols; i++) {
    if (!strcmp(op->spec.symbol[i], "choices")) choices = op->size[i];
    if (!strcmp(op->spec.symbol[i], "experts")) experts = op->size[i];
  }
  if (choices > experts)
    return err_set(e, ERR_SHAPE, op->at, "operator %.40s chooses %lld of %lld experts", op->name, (long long)choices, (long long)experts);
  return experts < MEGA_MOST_NUMBER ? OK : err_set(e, ERR_LIMIT, op->at, "operator %.40s has %lld experts", op->name, (long long)experts);
}

int mega_op_add(struct mega_model *m, const struct mega_op *given, struct err *e)
{
  struct mega_op op = *given;
  char why[160];
  CHECK(mega_spec_read(op.layer, &op.spec, why) == OK);
  if (m->nops == MEGA_MOST_OPS) return err_set(e, ERR_LIMIT, op.at, "a model has at most %d operators", MEGA_MOST_OPS);
  if (mega_op_find(m, op.name) >= 0) return err_set(e, ERR_DUPLICATE, op.at, "operator %.40s is already declared", op.name);
  if (op.repeat > MEGA_MOST_LAYERS) return err_set(e, ERR_LIMIT, op.at, "operator %.40s: at most %d layers", op.name, MEGA_MOST_LAYERS);
  TRY(check_arguments(m, &op, e));
  for (int i = 0; i < op.spec.nsizes; i++) {
    const struct mega_size *z = &op.spec.size[i];
    op.size[z->symbol] = (int64_t)op.attr[z->a] * (int64_t)op.attr[z->b];
  }
  for (int i = 0; i < MEGA_SYMBOLS && i < op.spec.nsymbols; i++)
    for (int a = 0; a < MEGA_ATTR_COUNT; a++)
      if (!strcmp(op.spec.symbol[i], mega_attr_names[a])) op.size[i] = (int64_t)op.attr[a];
  for (int i = 0; i < op.spec.naccess; i++) TRY(bind_access(m, &op, &op.spec.access[i], e));
  TRY(choices_fit(&op, e));
  TRY(split_tiles(&op, e));
  for (int i = 0; i < op.spec.naccess; i++) {
    TRY(kinds_fit(m, &op, &op.spec.access[i], e));
    TRY(parts_fit(m, &op, &op.spec.access[i], e));
    if (op.spec.access[i].stream) TRY(stage_fits(m, &op, &op.spec.access[i], e));
  }
  m->op[m->nops++] = op;
  return OK;
}

// ---- all operators together ----

// Checks a cache that requests share. Its first page is for rows without a request. The plan is derived with equal shares of the other pages.
static int table_fits(const struct mega_model *m, const struct mega_tensor *t, int64_t pages, int64_t slots, struct err *e)
{
  int64_t share = (pages - 1) / m->rows;
  if (slots < m->rows)
    return err_set(e, ERR_SHAPE, NOWHERE, "a page of %.40s has %lld positions; rows without a request need %d", t->name, (long long)slots, m->rows);
  if (share < 1) {
    err_set(e, ERR_SHAPE, NOWHERE, "%.40s has %lld pages, but %d rows need one each besides the first page", t->name, (long long)pages, m->rows);
    return err_hint(e, "use at least %d pages", m->rows + 1), USER;
  }
  if (m->context + 2 <= share * slots) return OK;
  return err_set(e, ERR_SHAPE, NOWHERE,
                 "%.40s has %lld positions for each of %d rows; a context of %lld and two more steps, which are proved, do not fit", t->name,
                 (long long)(share * slots), m->rows, (long long)m->context);
}

// Checks that the cache has whole pages for each row, and room for the positions of two steps.
static int cache_fits(const struct mega_model *m, const struct mega_op *op, const struct mega_access *a, struct err *e)
{
  const struct mega_tensor *t = &m->tensor[op->arg[a->arg]];
  for (int d = 0; d < a->rank; d++) {
    if (a->dim[d].how != MEGA_PAGE_NOW) continue;
    int64_t slots = 1;
    for (int s = 0; s < a->rank; s++)
      if (a->dim[s].how == MEGA_SLOT_NOW) slots = t->dim[s];
    if (a->dim[d].table) return table_fits(m, t, t->dim[d], slots, e);
    if (t->dim[d] % m->rows)
      return err_set(e, ERR_SHAPE, op->at, "%.40s has %lld pages, which %d rows do not divide", t->name, (long long)t->dim[d], m->rows);
    int64_t room = t->dim[d] / m->rows * slots;
    if (m->context + 2 > room)
      return err_set(e, ERR_SHAPE, op->at, "%.40s has %lld positions for a row; a context of %lld and two more steps, which are proved, do not fit",
                     t->name, (long long)room, (long long)m->context);
  }
  return OK;
}

int mega_model_check(const struct mega_model *m, struct err *e)
{
  if (m->world < 1 || m->world > MEGA_MOST_WORLD)
    return err_set(e, ERR_OPTION, NOWHERE, "the world is %d; 1 to %d are supported", m->world, MEGA_MOST_WORLD);
  if (!m->nops) return err_set(e, ERR_MEGA, NOWHERE, "model %.40s has no operators", m->name);
  for (int i = 0, run = 0; i < m->nops; i++) {
    const struct mega_op *op = &m->op[i];
    bool same_group = i && m->op[i - 1].repeat && op->repeat;
    if (same_group && m->op[i - 1].repeat != op->repeat)
      return err_set(e, ERR_MEGA, op->at, "operator %.40s runs %d times, but the one before it %d times", op->name, op->repeat, m->op[i - 1].repeat);
    run += op->repeat && !same_group;
    if (run > 1) return err_set(e, ERR_MEGA, op->at, "operator %.40s begins a second group of layers; one is supported", op->name);
    for (int a = 0; a < op->spec.naccess; a++) TRY(cache_fits(m, op, &op->spec.access[a], e));
  }
  return OK;
}
