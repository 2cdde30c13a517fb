// Every row of the instruction table that can be printed as C, on random numbers. The results must have the same bits as the interpreter's. Each
// row has a few statements with buffers of their own, run by 2 blocks of 64 threads. Many rows share a kernel, since a compiler starts slowly.
// test: timeout 300
#include "rows.h"
#include "thin.h"

#include "held.h"

enum { TOGETHER = 16, INPUTS = 13, THREADS = 128 }; // a spec names at most 16 on a side, and a row reads 3

struct text { // of a kernel
  struct str global, reads, writes, body;
  int n, inputs, arch; // rows; buffers that they read; the architecture they need
};

static void input(struct text *t, const char *name, int id, int elements, const char *type)
{
  str_add(&t->global, "  %%%s%d:[%d].%s.GL\n", name, id, THREADS * elements, type);
  str_add(&t->reads, "%s%%%s%d", t->reads.n ? ", " : "", name, id);
  t->inputs++;
}

static void output(struct text *t, int id, int elements, const char *type)
{
  str_add(&t->global, "  %%y%d:[%d].%s.GL\n", id, THREADS * elements, type);
  str_add(&t->writes, "%s%%y%d", t->writes.n ? ", " : "", id);
}

#define ME "<<<#grid, #me>>>"

static int count(const struct instr_operand *o) { return o->count > 0 ? o->count : 1; }
static const struct num_row *row_of(const struct instr_operand *o)
{
  int t = TT_F16;
  if (!o->any_type) return &tile_types[o->type];
  if (o->bytes == 4 || o->bytes >= 16) return &tile_types[TT_F32];
  while (tile_types[t].bytes > o->bytes && o->bytes) t++; // of one byte, the first such type
  return &tile_types[t];
}
static const char *type_of(const struct instr_operand *o) { return row_of(o)->name; }
static int elements(const struct instr_operand *o) { return o->bytes ? o->bytes / row_of(o)->bytes : count(o); }

static void load(struct text *t, const char *name, int id, int n, const char *type)
{
  input(t, name, id, n, type);
  str_add(&t->body, "    %%r%s%d:[%d].%s.RF\n    %%r%s%d <- Move" ME "(%%%s%d.tile([%d])[@g])\n", name, id, n, type, name, id, name, id, n);
}

static void store(struct text *t, int id, int n, const char *type)
{
  output(t, id, n, type);
  str_add(&t->body, "    %%y%d.tile([%d])[@g] <- Move" ME "(%%ry%d)\n", id, n, id);
}

// An operator chooses by the types; what is only taken when it is named is named.
static const char *word_of(const struct instr *r)
{
  if (r->sem == SEM_INIT) return "2";
  return r->op && !r->chosen ? r->op : r->name;
}
static const char *spec_of(const struct instr *r) { return tile_specs[r->spec].name; }

// ---- pointwise, products, reductions of one thread: in registers, or where `global` in memory ----

static void pointwise(struct text *t, const struct instr *r, int id, bool global)
{
  static const char *const names[] = {"a", "b", "c"};
  int n = count(&r->out[0]), m = r->sem == SEM_REDUCE ? 4 : n;
  const char *type = type_of(&r->out[0]);
  for (int i = 0; i < r->nin; i++)
    if (global)
      input(t, names[i], id, m, type_of(&r->in[i]));
    else
      load(t, names[i], id, m, type_of(&r->in[i]));
  output(t, id, n, type);
  str_add(&t->body, global ? "" : "    %%ry%d:[%d].%s.RF\n", id, n, type);
  const char *form = global ? "%%%s%d.tile([%d])[@g]" : "%%r%s%d";
  char to[64], in[3][64];
  snprintf(to, sizeof to, form, "y", id, n);
  for (int i = 0; i < r->nin; i++) snprintf(in[i], sizeof in[i], form, names[i], id, m);
  if (r->sem == SEM_FMA || (r->sem == SEM_BINARY && r->sum)) str_add(&t->body, "    %s <- Init<1>" ME "()\n", to);
  str_add(&t->body, r->sem == SEM_SHIFT ? "    %s <- %s<%s, @g %% 9>" ME "(" : "    %s <- %s<%s>" ME "(", to, spec_of(r), word_of(r));
  for (int i = 0; i < r->nin; i++) str_add(&t->body, "%s%s", i ? ", " : "", in[i]);
  str_add(&t->body, ")\n");
  if (!global) str_add(&t->body, "    %%y%d.tile([%d])[@g] <- Move" ME "(%%ry%d)\n", id, n, id);
}

// Vectors of constants, in memory.
static void constants(struct text *t, const struct instr *r, int id)
{
  int n = r->out[0].bytes / 2;
  output(t, id, n, "fp16");
  if (r->out[0].mem == MEM_GL) {
    str_add(&t->body, "    %%y%d.tile([%d])[@g] <- Init<2.5>" ME "()\n", id, n);
    return;
  }
  str_add(&t->body, "    %%s%d:[%d].fp16.SH\n    %%s%d.tile([%d])[@i] <- Init<2.5>" ME "()\n", id, 64 * n, id, n);
  str_add(&t->body, "    %%y%d.tile([%d])[@g] <- Move" ME "(%%s%d.tile([%d])[@i])\n", id, n, id, n);
}

// ---- moves: to and from registers, shared and global memory ----

static void moves(struct text *t, const struct instr *r, int id)
{
  int n = elements(&r->out[0]);
  const char *type = type_of(&r->out[0]);
  enum tile_mem to = r->out[0].mem, from = r->in[0].mem;
  input(t, "a", id, n, type), output(t, id, n, type);
  char name[3][64];
  snprintf(name[MEM_GL], 64, "%%a%d.tile([%d])[@g]", id, n);
  snprintf(name[MEM_SH], 64, "%%sa%d.tile([%d])[@i]", id, n);
  snprintf(name[MEM_RF], 64, "%%ra%d", id);
  str_add(&t->body, "    %%sa%d:[%d].%s.SH\n    %%sb%d:[%d].%s.SH\n", id, 64 * n, type, id, 64 * n, type);
  str_add(&t->body, "    %%ra%d:[%d].%s.RF\n    %%rb%d:[%d].%s.RF\n", id, n, type, id, n, type);
  if (from != MEM_GL) str_add(&t->body, "    %s <- Move" ME "(%s)\n", name[from], name[MEM_GL]);
  char target[3][64];
  snprintf(target[MEM_GL], 64, "%%y%d.tile([%d])[@g]", id, n);
  snprintf(target[MEM_SH], 64, "%%sb%d.tile([%d])[@i]", id, n);
  snprintf(target[MEM_RF], 64, "%%rb%d", id);
  str_add(&t->body, "    %s <- Move<%s>" ME "(%s)\n", target[to], r->name, name[from]);
  if (r->sem == SEM_CP_ASYNC) str_add(&t->body, "    Sync<cp.commit>" ME "()\n    Sync<cp.wait, 0>" ME "()\n");
  if (to != MEM_GL) str_add(&t->body, "    %s <- Move" ME "(%s)\n", target[MEM_GL], target[to]);
}

// Every thread adds to one of 4 places, or each to its own.
static void atomics(struct text *t, const struct instr *r, int id)
{
  bool red = r->sem == SEM_RED, shared = (red ? r->out[0] : r->in[0]).mem == MEM_SH;
  const struct instr_operand *o = red ? &r->out[0] : &r->in[0];
  int n = count(o);
  const char *type = type_of(o), *word = strstr(r->name, "add") ? "add" : strstr(r->name, "min") ? "min" : "max";
  load(t, "a", id, n, type);
  output(t, id, n, type);
  char memory[64];
  snprintf(memory, sizeof memory, shared ? "%%s%d.tile([%d])[@i]" : "%%y%d.tile([%d])[@g]", id, n);
  if (shared) str_add(&t->body, "    %%s%d:[%d].%s.SH\n", id, 64 * n, type);
  str_add(&t->body, "    %s <- Init<3>" ME "()\n", memory);
  for (int i = 0; i < 2; i++) // adds the value twice, so that the old one counts
    if (red)
      str_add(&t->body, "    %s <- Move<%s>" ME "(%%ra%d)\n", memory, r->name, id);
    else
      str_add(&t->body, "    %%o%d_%d:[%d].%s.RF\n    %%o%d_%d <- Move<%s>" ME "(%s, %%ra%d)\n", id, i, n, type, id, i, r->name, memory, id);
  (void)word;
  if (!red) str_add(&t->body, "    %%y%d.tile([%d])[@g] <- Move" ME "(%%o%d_1)\n", id, n, id);
  if (red && shared) str_add(&t->body, "    %%y%d.tile([%d])[@g] <- Move" ME "(%s)\n", id, n, memory);
}

// ---- warps ----

static void matrices(struct text *t, const struct instr *r, int id)
{
  int n = r->n;
  bool ld = r->sem == SEM_LDMATRIX;
  const char *shape = r->trans ? "[2, 1]" : "[1, 2]";
  str_add(&t->body, "    %%s%d:[2].[32, 8].fp16.SH\n", id);
  str_add(&t->body, "    %%m%d:[%d, 1].%s.fp16.RF\n", id, n, shape);
  if (ld) {
    load(t, "a", id, 8, "fp16");
    str_add(&t->body, "    %%s%d[@w].tile([1, 8])[@l, 0].reshape(0, [8]) <- Move" ME "(%%ra%d)\n    Sync<barrier><<<#grid, #warp>>>()\n", id, id);
    str_add(&t->body, "    %%m%d <- Move<%s><<<#grid, #warp>>>(%%s%d[@w].tile([1, 8])[@l %% %d, 0])\n", id, r->name, id, 8 * n);
    output(t, id, 2 * n, "fp16");
    str_add(&t->body,
            "    for (j = 0; j < %d; j += 1) unroll {\n      %%y%d.tile([2])[@g * %d + j] <- Move" ME "(%%m%d[j, 0].reshape(0, [2]))\n    }\n", n, id,
            n, id);
    return;
  }
  input(t, "a", id, 2 * n, "fp16");
  str_add(&t->body,
          "    for (j = 0; j < %d; j += 1) unroll {\n      %%m%d[j, 0].reshape(0, [2]) <- Move" ME "(%%a%d.tile([2])[@g * %d + j])\n    }\n", n, id,
          id, n);
  str_add(&t->body, "    %%s%d[@w].tile([1, 8])[@l, 0] <- Init<0>" ME "()\n    Sync<barrier><<<#grid, #warp>>>()\n", id);
  str_add(&t->body,
          "    %%s%d[@w].tile([1, 8])[@l %% %d, 0] <- Move<%s><<<#grid, #warp>>>(%%m%d)\n    Sync<barrier><<<#grid, "
          "#warp>>>()\n",
          id, 8 * n, r->name, id);
  output(t, id, 8, "fp16");
  str_add(&t->body, "    %%y%d.tile([8])[@g] <- Move" ME "(%%s%d[@w].tile([1, 8])[@l, 0].reshape(0, [8]))\n", id, id);
}

static void shape_text(const struct instr_operand *o, char out[96])
{
  *out = 0;
  for (int i = 0; i < o->nlevels; i++) {
    size_t n = strlen(out);
    snprintf(out + n, 96 - n, "%s[%lld, %lld]", i ? "." : "", (long long)o->extent[i][0], (long long)o->extent[i][1]);
  }
}

// Fragments hold what the global buffer has, element by element.
static void fragment(struct text *t, const char *name, int id, const struct instr_operand *o, bool in, const char *type)
{
  char shape[96], index[2][96];
  shape_text(o, shape);
  if (in) str_add(&t->body, "    %%r%s%d:%s.%s.RF\n", name, id, shape, type);
  int all = 0;
  for (int e = 0; e < count(o); e++) {
    int left = e;
    index[0][0] = 0;
    for (int i = o->nlevels - 1; i >= 0; i--) {
      int x = left % (int)o->extent[i][0], y = left / (int)o->extent[i][0] % (int)o->extent[i][1];
      left /= (int)(o->extent[i][0] * o->extent[i][1]);
      snprintf(index[1], 96, "[%d, %d]%s", x, y, index[0]);
      memcpy(index[0], index[1], 96);
    }
    const char *form = in ? "    %%r%s%d%s <- Move" ME "(%%%s%d[@g * %d + %d])\n" : NULL;
    if (in)
      str_add(&t->body, form, name, id, index[0], name, id, count(o), all++);
    else
      str_add(&t->body, "    %%y%d[@g * %d + %d] <- Move" ME "(%%r%s%d%s)\n", id, count(o), all++, name, id, index[0]);
  }
}

static void product(struct text *t, const struct instr *r, int id)
{
  const struct instr_operand *o[3] = {&r->out[0], &r->in[0], &r->in[1]};
  static const char *const names[] = {"c", "a", "b"};
  for (int i = 0; i < 3; i++) {
    input(t, names[i], id, count(o[i]), type_of(o[i]));
    fragment(t, names[i], id, o[i], true, type_of(o[i]));
  }
  const char *group = r->threads == 8 ? "#pair" : "#warp";
  str_add(&t->body, "    %%rc%d <- MatMul<%s><<<#grid, %s>>>(%%ra%d, %%rb%d)\n", id, r->name, group, id, id);
  output(t, id, count(o[0]), type_of(o[0]));
  fragment(t, "c", id, o[0], false, type_of(o[0]));
}

// By a warp, then by 8 lanes of it.
static void lanes(struct text *t, const struct instr *r, int id)
{
  bool shuffle = r->sem == SEM_SHFL;
  const char *type = shuffle ? (r->in[0].bytes == 4 ? "fp32" : "fp16") : type_of(&r->in[0]);
  static const char *const groups[] = {"#warp", "#eight"};
  load(t, "a", id, 1, type);
  str_add(&t->body, "    %%ry%d:[2].%s.RF\n    %%v%d:[1].%s.RF\n    %%ry%d <- Init<1>" ME "()\n", id, type, id, type, id);
  int times = r->threads == 32 ? 1 : 2;
  for (int i = 0; i < times; i++) {
    if (shuffle)
      str_add(&t->body, "    %%v%d <- Shfl<%s, %d><<<#grid, %s>>>(%%ra%d)\n", id, r->op, 3, groups[i], id);
    else
      str_add(&t->body, "    %%v%d <- Reduction<%s><<<#grid, %s>>>(%%ra%d)\n", id, r->op, groups[i], id);
    str_add(&t->body, "    %%ry%d[%d] <- Move" ME "(%%v%d[0])\n", id, i, id);
  }
  store(t, id, 2, type);
}

// ---- kernels of rows ----

static bool row(struct text *t, const struct instr *r, int id, bool global)
{
  switch (r->sem) { // -Wswitch-enum asks for all of them: what is below is refused
  case SEM_MOVE:
    if (r->in[0].peer || r->out[0].peer || global) return false;
    moves(t, r, id);
    return true;
  case SEM_CP_ASYNC:
    if (global) return false;
    moves(t, r, id);
    return true;
  case SEM_SHIFT:
    if (global) return false;
    pointwise(t, r, id, global);
    return true;
  case SEM_FMA:
  case SEM_UNARY:
  case SEM_BINARY:
  case SEM_REDUCE:
    if (global && !r->out[0].any_mem) return false;
    pointwise(t, r, id, global);
    return true;
  case SEM_INDEX: // tests/lower has it
    return false;
  case SEM_INIT:
    if (global) return false;
    if (r->out[0].any_type)
      constants(t, r, id);
    else
      pointwise(t, r, id, global);
    return true;
  case SEM_RED:
  case SEM_ATOM:
    if (global || (r->nout && r->out[0].peer) || r->in[0].peer) return false;
    atomics(t, r, id);
    return true;
  case SEM_LDMATRIX:
  case SEM_STMATRIX:
    if (global) return false;
    matrices(t, r, id);
    return true;
  case SEM_MMA:
    if (global) return false;
    product(t, r, id);
    return true;
  case SEM_SHFL:
  case SEM_REDUCE_WARP:
    if (global) return false;
    lanes(t, r, id);
    return true;
  case SEM_WGMMA:
  case SEM_TMA_LOAD:
  case SEM_TMA_MULTICAST:
  case SEM_TMA_STORE:
  case SEM_TMA_RED:
  case SEM_MBAR_INIT:
  case SEM_MBAR_ARRIVE:
  case SEM_MBAR_LEAVE:
  case SEM_MBAR_EXPECT:
  case SEM_MBAR_WAIT:
  case SEM_CP_MBAR_ARRIVE:
  case SEM_BARRIER:
  case SEM_SYNCWARP:
  case SEM_CLUSTER_ARRIVE:
  case SEM_CLUSTER_ARRIVE_RELAXED:
  case SEM_CLUSTER_WAIT:
  case SEM_CP_COMMIT:
  case SEM_CP_WAIT:
  case SEM_BULK_COMMIT:
  case SEM_BULK_WAIT:
  case SEM_WGMMA_FENCE:
  case SEM_WGMMA_COMMIT:
  case SEM_WGMMA_WAIT:
  case SEM_FENCE_ASYNC:
  case SEM_FENCE_BLOCK:
  case SEM_FENCE_GPU:
  case SEM_FENCE_MBAR_INIT:
  case SEM_SETMAXNREG:
  case SEM_PREFETCH:
  case SEM_GRID_WAIT:
  case SEM_GRID_TRIGGER: return false;
  }
  return false;
}

static const char *whole(struct arena *mem, const struct text *t)
{
  return arena_printf(mem,
                      "order row\nkernel rows {\n  target sm_%d\n%s  #grid:[2].block\n  #t:[64].thread\n"
                      "  %s <- Spec<<<#grid, #t>>>(%s) {\n    @blk = #grid.indices()\n    @i = #t.indices()\n    @g = @blk * 64 + @i\n"
                      "    #me = #t.scalar()\n    #warps:[2].[32].thread = #t.tile([32])\n    @w, @l = #warps.indices()\n"
                      "    #warp:[32].thread = #warps[@w]\n    #eights:[8].[8].thread = #t.tile([8])\n    @q, _ = #eights.indices()\n"
                      "    #eight:[8].thread = #eights[@q]\n    #halves:[2].[4 : 4].[4,2 : 1,16].thread = #t.tile([32]).tile(4,2 : "
                      "1,16)\n"
                      "    @h, @p, (_, _) = #halves.indices()\n    #pair = #halves[@h][@p]\n%s  }\n}\n",
                      t->arch, str_text(&t->global), str_text(&t->writes), str_text(&t->reads), str_text(&t->body));
}

static int flush(struct text *t, const struct instr *const *rows)
{
  struct held h;
  struct arena mem = {0};
  int n = t->n;
  if (!n) return 0;
  const char *text = whole(&mem, t);
  held_text(&h, "rows", text);
  for (int i = 0; i < t->n; i++) {
    bool found = false;
    const struct tile_kernel *k = h.host.k;
    for (int s = 0; s < k->nspecs && !found; s++) found = k->specs[s].atom && k->specs[s].atom->row == rows[i];
    if (!found) print_error("%s was not chosen\n", rows[i]->name);
    assert_true(found);
  }
  held_same(&h);
  str_free(&t->global), str_free(&t->reads), str_free(&t->writes), str_free(&t->body);
  *t = (struct text){.arch = t->arch};
  arena_close(&mem);
  return n;
}

// Under the sanitizers one of three rows that every GPU of the first kind has; rows beyond it are few and all run.
int rows_held(bool global, int arch, int beyond)
{
  int n, chosen = 0;
  const struct instr *rows = instr_rows(&n), *taken[TOGETHER];
  struct text t = {.arch = arch};
  for (int i = 0; i < n; i++) {
    if (rows[i].needs & ~target_gpu(arch)->can || (beyond && !(rows[i].needs & ~target_gpu(beyond)->can))) continue;
    if (i % (beyond ? 1 : thinned(3) * quick_step(2)) || !row(&t, &rows[i], i, global)) continue;
    taken[t.n++] = &rows[i];
    if (t.n == TOGETHER || t.inputs > INPUTS) chosen += flush(&t, taken);
  }
  chosen += flush(&t, taken);
  return chosen;
}
