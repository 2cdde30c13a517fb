#include "instr_row.h"
#include "rows.h"

#include <string.h>

static struct lay flat(struct made *m, int64_t n) { return lay_int(&m->p->lay, EX_C(n), EX_C(1)); }

void made_open(struct made *m, struct arena *mem)
{
  *m = (struct made){.mem = mem, .p = tile_program_new(mem, "rows", true)};
  CHECK(build_kernel(&m->b, m->p, "rows", &m->e) == OK);
  m->k = m->b.k;
  struct lay blocks = flat(m, 4), threads = flat(m, 128), gl = flat(m, 1 << 20);
  struct swizzle none = {0};
  int view;
  CHECK(build_group(&m->b, "grid", GROUP_BLOCK, 1, &blocks, &m->block) == OK);
  CHECK(build_group(&m->b, "t", GROUP_THREAD, 1, &threads, &m->thread) == OK);
  for (int t = 0; t < TT_MBAR; t++) CHECK(build_tensor(&m->b, tile_types[t].name, 1, &gl, (enum tile_type)t, MEM_GL, none, &view) == OK);
  struct tile_spec s = {.kind = SPEC_GENERIC, .blocks = m->block, .threads = m->thread};
  CHECK(build_spec(&m->b, &s, true) == OK);
}

void made_close(struct made *m)
{
  CHECK(build_end(&m->b) == OK && build_finish(&m->b) == OK);
  for (int i = 0; i < m->k->nbuffers; i++) {
    struct tile_buffer *b = &m->k->buffers[i];
    b->written = b->mem == MEM_GL;
    if (b->mem != MEM_SH) continue;
    b->offset = m->k->shared_bytes;
    m->k->shared_bytes += 65536;
  }
  m->k->lowered = true;
}

static int tensor(struct made *m, enum tile_type t, enum tile_mem mem, int64_t n, struct swizzle s)
{
  if (mem == MEM_GL) return m->k->buffers[t].view;
  struct lay l = flat(m, n);
  int view;
  CHECK(build_tensor(&m->b, arena_printf(m->mem, "x%d", m->names++), 1, &l, t, mem, s, &view) == OK);
  return view;
}

static struct tile_operand at(struct made *m, int view)
{
  return (struct tile_operand){.view = view, .buf = m->k->views[view].buf, .offset = EX_C(0), .map = -1};
}

static struct tile_atom *atom(struct made *m, const struct instr *row)
{
  struct tile_spec s = {.kind = SPEC_GENERIC, .name = row->name, .blocks = m->block, .threads = m->thread};
  CHECK(build_spec(&m->b, &s, true) == OK && build_end(&m->b) == OK);
  struct tile_atom *a = NEW(m->mem, struct tile_atom);
  *a = (struct tile_atom){.row = row, .op = -1, .width = row->width, .nout = row->nout, .nin = row->nin, .arg = EX_C(1)};
  struct tile_spec *mine = &m->k->specs[m->k->nspecs - 1];
  mine->atom = a, mine->decomposed = false;
  return a;
}

// Between all of a register array and the start of the global buffer of its type.
static void move(struct made *m, int view, bool load)
{
  const struct tile_buffer *b = &m->k->buffers[m->k->views[view].buf];
  int bytes = tile_types[b->type].bytes;
  const char *name = arena_printf(m->mem, "%s.global.%s", load ? "ld" : "st", bytes == 2 ? "u16" : bytes == 4 ? "u32" : "v2.u32");
  struct tile_atom *a = atom(m, instr_find(name));
  a->width = 1, a->nmodes = 1, a->extent[0] = ex_value(b->elements);
  a->operand[!load] = at(m, view), a->operand[load] = at(m, m->k->buffers[b->type].view);
  a->operand[0].stride[0] = a->operand[1].stride[0] = EX_C(1);
}

static enum tile_type type_of(const struct instr_operand *o) { return o->any_type && o->kind != OPND_BARRIER ? TT_F16 : o->type; }

// k contiguous, in 128-byte swizzle.
static void matrix(struct made *m, const struct instr *row, int i, struct tile_operand *o)
{
  struct lay_ctx *c = &m->p->lay;
  struct lay mode[2] = {lay_int(c, EX_C(i ? 16 : row->m), EX_C(i ? 1 : 64)), lay_int(c, EX_C(i ? row->n : 16), EX_C(i ? 64 : 1))};
  o->inner = lay_tuple(c, 2, mode);
  o->desc = (struct tile_desc){.lead = 16, .step = 1024, .swizzle_bytes = 128};
}

static void box(struct made *m, const struct instr *row, struct tile_operand *o)
{
  struct tile_map map = {.buf = o->buf, .rank = row->n};
  for (int d = 0; d < row->n; d++) map.size[d] = map.stride[d] = EX_C(16), map.box[d] = 8, o->coord[d] = EX_C(8 * d);
  o->map = m->k->nmaps;
  int cap = m->k->nmaps;
  PUSH(m->mem, m->k->maps, m->k->nmaps, cap) = map;
}

static void operand(struct made *m, const struct instr *row, int i, struct tile_operand *o)
{
  const struct instr_operand *w = i < row->nout ? &row->out[i] : &row->in[i - row->nout];
  enum tile_type t = type_of(w);
  int64_t n = w->bytes ? w->bytes / tile_types[t].bytes : w->count;
  struct swizzle s = {0};
  if (w->kind == OPND_MATRIX) s = (struct swizzle){3, 3, 3}, n = 64 * 256;
  if (w->kind == OPND_BOX) n = 8 * 8 * 8 * 8 * 8;
  if (w->kind == OPND_BARRIER) t = TT_MBAR, n = 1;
  enum tile_mem mem = w->any_mem ? MEM_RF : w->mem;
  int view = tensor(m, t, mem, MAX(n, 1), s);
  if (w->peer) CHECK(build_peer(&m->b, "", view, m->k->bid, &view) == OK);
  *o = at(m, view);
  if (w->kind == OPND_FRAGMENT || w->kind == OPND_MATS) o->inner = flat(m, n);
  if (w->kind == OPND_MATRIX) matrix(m, row, i - row->nout, o);
  if (w->kind == OPND_BOX && mem == MEM_GL) box(m, row, o);
  if (mem == MEM_RF && (i >= row->nout || row->sum)) move(m, view, true);
}

void made_row(struct made *m, const struct instr *row)
{
  struct tile_operand o[TILE_OPERANDS];
  m->k->cluster = 4;
  for (int i = 0; i < row->nout + row->nin; i++) operand(m, row, i, &o[i]);
  struct tile_atom *a = atom(m, row);
  memcpy(a->operand, o, sizeof o);
  bool vector = row->nout && row->out[0].kind == OPND_VECTOR && row->out[0].bytes;
  if (vector) a->width = MAX(row->out[0].bytes / 2, 1);
  a->lanes = 32, a->nsteps = 5, a->barrier = EX_C(1), a->barrier_threads = 64, a->value = 1.5;
  if (row->sem == SEM_SETMAXNREG) a->arg = EX_C(96);
  for (int i = 0; i < 5; i++) a->step[i] = 16 >> i;
  if (row->nout && m->k->buffers[o[0].buf].mem == MEM_RF) move(m, o[0].view, false);
}

const char *rows_printed(struct arena *mem, const struct instr *const *rows, int n, int arch)
{
  struct made m;
  struct err e = {0};
  struct str s = {0};
  made_open(&m, mem);
  for (int i = 0; i < n; i++) made_row(&m, rows[i]);
  made_close(&m);
  m.k->cluster = MIN(m.k->cluster, target_gpu(arch)->cluster);
  const char *text = NULL;
  if (cuda_print(m.p, m.k, arch, &s, &e))
    err_print(stderr, &e);
  else
    text = arena_strdup(mem, str_text(&s));
  str_free(&s);
  return text;
}

static bool compiles(const struct nvrtc *r, const struct instr *const *rows, int n, int arch)
{
  struct arena mem = {0};
  struct err e = {0};
  struct cubin c = {0};
  const char *text = rows_printed(&mem, rows, n, arch);
  if (text && nvrtc_compile(r, &mem, "rows", text, arch, &c, &e)) err_print(stderr, &e);
  bool good = text && e.status == OK && c.n > 0;
  arena_close(&mem);
  return good;
}

int rows_compile(const struct nvrtc *r, int arch)
{
  enum { TOGETHER = 24 }; // rows of one source: NVRTC starts slowly
  int n, m = 0, tried = 0;
  const struct instr *rows = instr_rows(&n), *together[TOGETHER];
  for (int i = 0; i < n; i++) {
    if (!(rows[i].needs & ~target_gpu(arch)->can)) together[m++] = &rows[i], tried++;
    if (m != TOGETHER && !(m && i == n - 1)) continue;
    if (!compiles(r, together, m, arch)) return -1;
    m = 0;
  }
  return tried;
}

struct nvrtc *rows_compiler(void)
{
  struct nvrtc *r;
  struct err e = {0};
  if (nvrtc_open(&r, &e) == OK) return r;
  fprintf(stderr, "without NVRTC: %s\n", e.text);
  return NULL;
}
