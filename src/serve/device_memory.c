// Device memory of a model, and launches. The kernel gets all addresses in one struct, kernel_memory of mega_device.cuh.
#include "serve/serve_device.h"
#include "base/num.h"
#include "mega/mega_bodies.h"

#include <math.h>
#include <string.h>

// The fields of kernel_memory after the addresses of tensors, packed weights and tables of rotations.
enum { AT_NODE, AT_WAIT, AT_PUBLISH, AT_WORD, AT_FAULT, AT_STOP, AT_TOKENS, AT_DEADLINE, AT_TRACE, AT_SEAT, AT_TABLE, AT_ORDER, FIELDS };
enum { PHASES = 4 }; // times of a task in a trace (task_phase of mega_device.cuh); the last is its end
enum { WORD_LINE = 128, CHUNK = 1 << 20, DRAWN_HERE = 1 << 22 };

struct serve_block {
  uint64_t *memory; // kernel_memory
  uint64_t *field;  // its fields from AT_NODE on
  size_t bytes;
  int words, pages;
  uint32_t step; // first step of the next launch
  bool *kept;    // by tensor: the kernel reads it row-major, so that copy stays in memory
};

#define ON(s, call, ...) (s)->machine.call((s)->machine.arg, __VA_ARGS__)

static size_t tensor_bytes(struct serve *s, int t) { return (size_t)megacuda_tensor_bytes(&s->mem, s->p, t, MEGACUDA_WARPS * 32); }

// Weights that operators only stream are in memory in packed form only.
static void find_kept(struct serve *s)
{
  const struct mega_plan *p = s->p;
  for (int t = 0; t < p->m->ntensors; t++) s->block->kept[t] = p->m->tensor[t].kind != MEGA_WEIGHTS;
  for (int o = 0; o < p->m->nops; o++)
    for (int a = 0; a < p->m->op[o].spec.naccess; a++)
      if (!p->m->op[o].spec.access[a].stream) s->block->kept[p->m->op[o].arg[p->m->op[o].spec.access[a].arg]] = true;
}

static int room_zeroed(struct serve *s, size_t bytes, uint64_t *out, struct err *e)
{
  TRY(ON(s, room, MAX(bytes, 16), out, e));
  return ON(s, zero, *out, MAX(bytes, 16), e);
}

static int upload(struct serve *s, const void *from, size_t bytes, uint64_t *out, struct err *e)
{
  TRY(ON(s, room, MAX(bytes, 16), out, e));
  return bytes ? ON(s, write, *out, from, bytes, e) : OK;
}

// Table of rotations of operator o: cosine and sine by position and pair.
static int turns(struct serve *s, int o, struct err *e)
{
  const struct mega_op *op = &s->m->op[o];
  uint64_t *to = &s->block->memory[s->m->ntensors + s->m->nops + o];
  if (!(op->spec.attrs >> MEGA_ATTR_theta & 1)) return OK;
  int64_t half = (int64_t)op->attr[MEGA_ATTR_dim] / 2, positions = 0;
  for (int a = 0; a < op->spec.naccess; a++)
    for (int d = 0; d < op->spec.access[a].rank; d++)
      if (op->spec.access[a].dim[d].how == MEGA_PAGE_NOW || op->spec.access[a].dim[d].how == MEGA_PAGE_PAST) {
        const struct mega_tensor *t = &s->m->tensor[op->arg[op->spec.access[a].arg]];
        positions = t->dim[d] * t->dim[4];
      }
  float *x = arena_try(&s->mem, sizeof(float) * (size_t)(2 * half * positions));
  if (!x) return err_set(e, ERR_MEMORY, NOWHERE, "no memory for the rotations of %lld positions", (long long)positions);
  for (int64_t at = 0; at < positions; at++)
    for (int64_t i = 0; i < half; i++) {
      double angle = mega_rotary_angle(op->attr, i, at);
      x[2 * (at * half + i)] = (float)cos(angle), x[2 * (at * half + i) + 1] = (float)sin(angle);
    }
  return upload(s, x, sizeof(float) * (size_t)(2 * half * positions), to, e);
}

static int tables(struct serve *s, struct err *e)
{
  struct device_tables t;
  uint64_t *f = s->block->field;
  device_rows(&s->mem, s->p, -1, &t);
  s->block->words = MAX(t.words, 1);
  TRY(upload(s, t.node, t.node_bytes, &f[AT_NODE], e));
  TRY(upload(s, t.wait, t.wait_bytes, &f[AT_WAIT], e));
  TRY(upload(s, t.publish, t.publish_bytes, &f[AT_PUBLISH], e));
  TRY(room_zeroed(s, (size_t)s->block->words * WORD_LINE, &f[AT_WORD], e));
  return room_zeroed(s, sizeof(struct device_fault) * 2 * (size_t)s->m->workers, &f[AT_FAULT], e);
}

int device_open(struct serve *s, struct err *e)
{
  const struct mega_model *m = s->m;
  struct serve_block *b = s->block = NEW(&s->mem, struct serve_block);
  int n = m->ntensors + 2 * m->nops;
  int64_t slots;
  b->bytes = sizeof *b->memory * (size_t)(n + FIELDS), b->memory = NEWS(&s->mem, uint64_t, n + FIELDS), b->field = b->memory + n;
  b->kept = NEWS(&s->mem, bool, m->ntensors), b->pages = (int)mega_pages_of(m, &slots);
  find_kept(s);
  for (int t = 0; t < m->ntensors; t++)
    if (b->kept[t]) TRY(room_zeroed(s, tensor_bytes(s, t), &b->memory[t], e));
  for (int o = 0; o < m->nops; o++) TRY(turns(s, o, e));
  TRY(tables(s, e));
  TRY(room_zeroed(s, sizeof(uint32_t), &b->field[AT_STOP], e));
  TRY(room_zeroed(s, sizeof(int32_t) * (size_t)(SERVE_STEPS * m->rows), &b->field[AT_TOKENS], e));
  TRY(room_zeroed(s, sizeof(uint64_t) * PHASES * (size_t)(m->workers * s->p->nnodes), &b->field[AT_TRACE], e));
  TRY(room_zeroed(s, sizeof(struct device_seat) * (size_t)m->rows, &b->field[AT_SEAT], e));
  TRY(room_zeroed(s, sizeof(int32_t) * (size_t)(m->rows * MAX(b->pages, 1)), &b->field[AT_TABLE], e));
  const struct mega_op *attend = serve_ordered(s);
  return attend ? room_zeroed(s, sizeof(uint16_t) * (size_t)attend->tiles, &b->field[AT_ORDER], e) : OK;
}

// Frees the memory of device_open and of weights, also if device_open failed.
void device_close(struct serve *s)
{
  for (size_t i = 0; s->block && s->block->memory && i < s->block->bytes / sizeof *s->block->memory; i++)
    if (i != (size_t)(s->block->field - s->block->memory) + AT_DEADLINE && s->block->memory[i]) s->machine.drop(s->machine.arg, s->block->memory[i]);
}

// ---- weights ----

// Packs a row-major weight for each operator that streams it.
static int pack_for(struct serve *s, int tensor, device_address from, struct err *e)
{
  for (int o = 0; o < s->m->nops; o++) {
    int streamed;
    int64_t bytes;
    uint64_t *to = &s->block->memory[s->m->ntensors + o];
    TRY(megacuda_packed(&s->mem, s->p, o, MEGACUDA_WARPS * 32, &streamed, &bytes, e));
    if (streamed != tensor) continue;
    if (!*to) TRY(room_zeroed(s, (size_t)bytes, to, e)); // padding to 16 bytes must be finite
    TRY(ON(s, pack, o, *to, from, e));
  }
  return OK;
}

static int place_of(struct serve *s, int tensor, device_address *to, struct err *e)
{
  *to = s->block->memory[tensor];
  return *to ? OK : ON(s, room, tensor_bytes(s, tensor), to, e);
}

static int placed(struct serve *s, int tensor, device_address at, struct err *e)
{
  int status = pack_for(s, tensor, at, e);
  if (!s->block->kept[tensor]) s->machine.drop(s->machine.arg, at);
  return status;
}

int device_value(struct serve *s, int tensor, const void *data, int dtype, struct err *e)
{
  const struct mega_tensor *x = &s->m->tensor[tensor];
  int64_t n = mega_elements(x), size = mega_bytes(x->type);
  struct arena own = {0};
  device_address to;
  TRY(place_of(s, tensor, &to, e));
  char *room = arena_alloc(&own, (size_t)(CHUNK * size));
  int status = OK;
  for (int64_t from = 0; from < n && status == OK; from += CHUNK) {
    int64_t count = MIN(CHUNK, n - from);
    for (int64_t i = 0; i < count; i++) num_write((enum dtype)x->type, room, i, num_read((enum dtype)dtype, data, from + i));
    status = ON(s, write, to + (uint64_t)(from * size), room, (size_t)(count * size), e);
  }
  arena_close(&own);
  return status == OK ? placed(s, tensor, to, e) : status;
}

int device_random(struct serve *s, int tensor, uint64_t seed, struct err *e)
{
  const struct mega_tensor *x = &s->m->tensor[tensor];
  int64_t n = mega_elements(x), rows;
  if (n <= DRAWN_HERE) {
    struct arena own = {0};
    float *v = arena_alloc(&own, sizeof(float) * (size_t)n);
    mega_value_fill(s->m, tensor, seed, v);
    int status = device_value(s, tensor, v, F32, e);
    return arena_close(&own), status;
  }
  device_address to;
  TRY(place_of(s, tensor, &to, e));
  TRY(ON(s, fill, to, hash_mix(seed, (uint64_t)tensor), mega_value_scale(s->m, tensor, &rows), mega_bytes(x->type), n, e));
  return placed(s, tensor, to, e);
}

// ---- launches ----

int device_plant(struct serve *s, bool planted, struct err *e)
{
  struct device_tables t;
  struct arena own = {0};
  device_rows(&own, s->p, planted ? device_planted(s->p) : -1, &t);
  int status = ON(s, write, s->block->field[AT_WAIT], t.wait, t.wait_bytes, e);
  return arena_close(&own), status;
}

int device_forget(struct serve *s, struct err *e)
{
  for (int t = 0; t < s->m->ntensors; t++)
    if (s->p->held[t].tagged) TRY(ON(s, zero, s->block->memory[t], tensor_bytes(s, t), e));
  TRY(ON(s, zero, s->block->field[AT_WORD], (size_t)s->block->words * WORD_LINE, e));
  TRY(ON(s, zero, s->block->field[AT_FAULT], sizeof(struct device_fault) * 2 * (size_t)s->m->workers, e));
  TRY(ON(s, zero, s->block->field[AT_STOP], sizeof(uint32_t), e));
  return s->block->step = 0, OK;
}

static int write_seats(struct serve *s, struct arena *own, const struct serve_launch *l, struct err *e)
{
  int rows = s->m->rows, pages = s->block->pages, settings = mega_tensor_find(s->m, "settings");
  struct device_seat *seat = NEWS(own, struct device_seat, rows);
  int32_t *table = NEWS(own, int32_t, rows * pages);
  for (int r = 0; r < rows; r++) {
    const struct mega_seat *x = &l->seat[r];
    seat[r] = (struct device_seat){x->live, x->moves, (int32_t)x->position, (int32_t)x->past, x->before};
    for (int i = 0; i < l->npages[r] && x->live; i++) table[r * pages + i] = x->pages[i];
  }
  TRY(ON(s, write, s->block->field[AT_SEAT], seat, sizeof *seat * (size_t)rows, e));
  TRY(ON(s, write, s->block->field[AT_TABLE], table, sizeof *table * (size_t)(rows * pages), e));
  if (l->order) TRY(ON(s, write, s->block->field[AT_ORDER], l->order, sizeof *l->order * (size_t)l->tiles, e));
  if (settings < 0) return OK;
  return ON(s, write, s->block->memory[settings], l->settings, tensor_bytes(s, settings), e);
}

static int read_fault(struct serve *s, struct arena *own, struct err *e)
{
  uint32_t stop = 0;
  struct device_fault *all = NEWS(own, struct device_fault, 2 * s->m->workers);
  TRY(ON(s, read, &stop, s->block->field[AT_STOP], sizeof stop, e));
  if (!stop) return OK;
  TRY(ON(s, read, all, s->block->field[AT_FAULT], sizeof *all * 2 * (size_t)s->m->workers, e));
  TRY(device_forget(s, e));
  if (!device_fault_text(s->p, all, s->record, &s->hung)) snprintf(s->record, sizeof s->record, "the kernel stopped, and left no record");
  return err_set(e, s->hung ? ERR_HUNG : ERR_WRONG, NOWHERE, "%s", s->record);
}

static int read_trace(struct serve *s, struct arena *own, struct err *e)
{
  int n = s->m->workers * s->p->nnodes;
  uint64_t *t = NEWS(own, uint64_t, n * PHASES), zero = UINT64_MAX;
  TRY(ON(s, read, t, s->block->field[AT_TRACE], sizeof *t * PHASES * (size_t)n, e));
  for (int i = 0; i < n; i++) t[i] = t[i * PHASES + PHASES - 1];
  for (int i = 0; i < n; i++)
    if (t[i]) zero = MIN(zero, t[i]);
  for (int i = 0; i < n; i++) s->ended[i] = t[i] ? 1e-9 * (double)(t[i] - zero) + 1e-9 : 0;
  return OK;
}

static int launch(struct serve *s, struct arena *own, const struct serve_launch *l, struct err *e)
{
  struct serve_block *b = s->block;
  int token = serve_token(s), logits = serve_output(s), rows = s->m->rows;
  if (l->seat) TRY(write_seats(s, own, l, e));
  if (token >= 0) TRY(ON(s, write, b->memory[token], l->token, sizeof *l->token * (size_t)rows, e));
  uint64_t trace = b->field[AT_TRACE];
  if (!s->traced) b->field[AT_TRACE] = 0;
  b->field[AT_DEADLINE] = (uint64_t)(s->deadline * 1e9);
  int status = ON(s, launch, b->memory, b->bytes, b->step, (int)s->m->context, l->steps, e);
  b->field[AT_TRACE] = trace, b->step += (uint32_t)l->steps;
  if (status != OK) return status;
  s->seconds = s->machine.seconds(s->machine.arg);
  TRY(read_fault(s, own, e));
  if (l->tokens && token >= 0) TRY(ON(s, read, l->tokens, b->field[AT_TOKENS], sizeof *l->tokens * (size_t)(l->steps * rows), e));
  if (l->logits && logits >= 0) TRY(ON(s, read, l->logits, b->memory[logits], tensor_bytes(s, logits), e));
  return s->traced ? read_trace(s, own, e) : OK;
}

int device_launch(struct serve *s, const struct serve_launch *l, struct err *e)
{
  struct arena own = {0};
  int status = launch(s, &own, l, e);
  return arena_close(&own), status;
}
