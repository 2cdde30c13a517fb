// Programs without products, made by rule: one block graph computes everything. Blocks divide the dimensions that no operator mixes (free_dims.c).
// Within a tile, parts are split and joined as in the program. Kernels of such a graph store no parts: a part of a loaded tensor is loaded from its
// position, and a concatenation is stored part by part. The tile size matters on a CPU; GPU schemes re-tile.
#include "search/space.h"

enum { FUSE_PARTS = 16 }; // parts of a dimension: as many as kernels may have values

struct fusing {
  const struct graph *p;
  struct free_dims free;
  int64_t parts[MAX_GRID]; // parts of the first classes, which are on grid axes in order
  int n;
  struct graph *kernels, *block;
  int *above, *at; // for each tensor of p: the kernel graph's tensor, and the block's; or -1
  struct err *e;
};

// Divides classes until a tile of the largest tensor has at most `most` elements. Outer dimensions are divided first, and all but the last
// completely.
static void cut_classes(struct fusing *f, int64_t most)
{
  int64_t tile = 1;
  for (int t = 0; t < f->p->ntensors; t++)
    if (!graph_scans(f->p, NULL, f->p->tensors[t].node)) tile = MAX(tile, shape_size(&f->p->tensors[t].shape));
  for (f->n = 0; f->n < MIN(f->free.n, MAX_GRID) && tile > most; f->n++) {
    int64_t extent = f->free.extent[f->n], parts = 2;
    while (parts < extent && (extent % parts || tile / parts > most)) parts++;
    f->parts[f->n] = parts, tile /= parts;
  }
}

static int8_t dim_with(const struct fusing *f, int t, int class)
{
  for (int d = 0; d < f->p->tensors[t].shape.n; d++)
    if (f->free.of[t * MAX_DIMS + d] == class) return (int8_t)d;
  return REPLICA;
}

static int fuse_iter(struct fusing *f, int t, int from)
{
  struct attrs a = attrs_default(OP_ITER);
  for (int i = 0; i < f->n; i++) a.imap[i] = dim_with(f, t, i);
  return graph_iter(f->block, f->kernels, from, &a, f->p->nodes[f->p->tensors[t].node].at, &f->at[t], f->e);
}

static int fuse_save(struct fusing *f, const struct node *n)
{
  struct attrs a = attrs_default(OP_SAVE);
  for (int i = 0; i < f->n; i++) a.omap[i] = dim_with(f, n->in[0], i);
  return graph_add(f->block, OP_SAVE, 1, &f->at[n->in[0]], &a, n->at, &(int){0}, f->e);
}

// Elements start .. end - 1 of a value in the block: equal parts of the dimension, joined.
static int fuse_slice(struct fusing *f, const struct node *n)
{
  int64_t extent = f->p->tensors[n->in[0]].shape.d[n->a.dim], unit = slice_unit(&n->a, extent);
  int part[FUSE_PARTS], count = (int)((n->a.end - n->a.start) / unit), status = OK;
  struct attrs a = attrs_default(OP_CHUNK), joined = attrs_default(OP_CONCAT);
  if (extent / unit > FUSE_PARTS) return NO;
  a.dim = joined.dim = n->a.dim, a.parts = extent / unit;
  for (int i = 0; i < count && !status; i++) {
    a.index = n->a.start / unit + i;
    status = graph_add(f->block, OP_CHUNK, 1, &f->at[n->in[0]], &a, n->at, &part[i], f->e);
  }
  f->at[n->out] = part[0];
  return status || count == 1 ? status : graph_add(f->block, OP_CONCAT, count, part, &joined, n->at, &f->at[n->out], f->e);
}

// Splits operands of different extents into equal parts, which kernels join.
static int fuse_concat(struct fusing *f, const struct node *n)
{
  int part[FUSE_PARTS], count = 0, status = OK;
  int64_t unit = 0;
  for (int k = 0; k < n->nin; k++) unit = common_divisor(f->p->tensors[n->in[k]].shape.d[n->a.dim], unit);
  if (f->p->tensors[n->out].shape.d[n->a.dim] / unit > FUSE_PARTS) return NO;
  for (int k = 0; k < n->nin; k++) {
    struct attrs a = attrs_default(OP_CHUNK);
    a.dim = n->a.dim, a.parts = f->p->tensors[n->in[k]].shape.d[n->a.dim] / unit;
    for (; a.index < a.parts && a.parts > 1 && !status; a.index++)
      status = graph_add(f->block, OP_CHUNK, 1, &f->at[n->in[k]], &a, n->at, &part[count++], f->e);
    if (a.parts == 1) part[count++] = f->at[n->in[k]];
  }
  return status ? status : graph_add(f->block, OP_CONCAT, count, part, &n->a, n->at, &f->at[n->out], f->e);
}

static int fuse_op(struct fusing *f, const struct node *n)
{
  if (n->op == OP_SLICE) return fuse_slice(f, n);
  if (n->op == OP_CONCAT) return fuse_concat(f, n);
  struct attrs a = n->a;
  int *in = NEWS(f->kernels->mem, int, n->nin + 1), out = 0;
  for (int k = 0; k < n->nin; k++) in[k] = f->at[n->in[k]];
  for (int d = 0; n->op == OP_RESHAPE && d < a.shape.n; d++) {
    int class = f->free.of[n->out * MAX_DIMS + d];
    if (class >= 0 && class < f->n) a.shape.d[d] /= f->parts[class];
  }
  int status = graph_add(f->block, n->op, n->nin, in, &a, n->at, &out, f->e);
  for (int k = 0; k < n->nout; k++) f->at[n->out + k] = out + k;
  return status;
}

// Whether n is outside of the kernel. Indices are computed before the kernel. Views of inputs and slices of inputs into unequal parts precede it, and
// it reads through them.
static bool stands_before(const struct fusing *f, const struct node *n)
{
  bool views = n->op == OP_RESHAPE || n->op == OP_TRANSPOSE || n->op == OP_SLICE;
  return op_rows[n->op].rule == RULE_INDEX || (views && f->above[n->in[0]] >= 0);
}

static int fuse_iters(struct fusing *f, const struct node *n, int *nin, int *in)
{
  int status = OK;
  for (int k = 0; k < n->nin && !status; k++) {
    int t = n->in[k];
    if (f->above[t] >= 0 && f->at[t] < 0) status = fuse_iter(f, t, in[(*nin)++] = f->above[t]);
  }
  return status;
}

static int fuse_outputs(struct fusing *f, int nin, const int *in)
{
  int out = 0, status = graph_nest(f->kernels, f->block, nin, in, NOWHERE, &out, f->e);
  for (int k = 0, saves = graph_outputs(f->block, NULL); k < saves && !status; k++)
    status = graph_add(f->kernels, OP_OUTPUT, 1, &(int){out + k}, NULL, NOWHERE, &(int){0}, f->e);
  return status;
}

static int fuse_all(struct fusing *f)
{
  int nin = 0, *in = NEWS(f->kernels->mem, int, f->p->ntensors + 1), status = OK;
  for (int i = 0; i < f->p->nnodes && !status; i++) {
    const struct node *n = &f->p->nodes[i];
    const struct tensor *t = n->nout ? &f->p->tensors[n->out] : NULL;
    if (n->op == OP_INPUT) {
      status = graph_input_as(f->kernels, t->name, t->dtype, t, n->at, &f->above[n->out], f->e);
    } else if (n->nout && stands_before(f, n)) {
      status = graph_take(f->kernels, NULL, -1, f->p, n, f->above, f->e);
    } else {
      status = fuse_iters(f, n, &nin, in);
      if (!status) status = n->op == OP_OUTPUT ? fuse_save(f, n) : fuse_op(f, n);
    }
  }
  return status ? status : fuse_outputs(f, nin, in);
}

struct graph *fuse_parts(struct arena *mem, const struct graph *p, int64_t tile)
{
  struct err e = {0};
  struct fusing f = {.p = p, .kernels = graph_new(mem, KERNEL, p->name), .block = graph_new(mem, BLOCK, NULL), .e = &e};
  if (!free_dims_of(mem, p, &f.free)) return NULL;
  cut_classes(&f, tile);
  f.at = NEWS(mem, int, p->ntensors + 1), f.above = NEWS(mem, int, p->ntensors + 1);
  for (int t = 0; t < p->ntensors; t++) f.at[t] = f.above[t] = -1;
  graph_axes(f.block, MAX(1, f.n), f.n ? f.parts : (const int64_t[]){1}, 0, NULL);
  return fuse_all(&f) == OK && graph_check(f.kernels, &e) == OK ? f.kernels : NULL;
}

bool fuse_parts_can(const struct graph *p)
{
  struct arena mem = {0};
  bool can = false;
  struct stem stem;
  const struct graph *g = stem_of(&mem, p, &stem) ? stem.core : p;
  for (int i = 0; i < g->nnodes; i++) can |= node_has(&g->nodes[i], TAKES_PART) || op_rows[g->nodes[i].op].rule == RULE_CONCAT;
  can = can && fuse_parts(&mem, p, FUSE_TILE) != NULL;
  arena_close(&mem);
  return can;
}

// Whether the graph has at least that many blocks, or little work.
bool fuse_rows_can(const struct graph *p, int least)
{
  enum { FEW = 1 << 16 };
  struct arena mem = {0};
  struct free_dims free;
  int64_t tile = 1, blocks = 1;
  bool can = free_dims_of(&mem, p, &free) && fuse_parts(&mem, p, FUSE_TILE);
  for (int i = 0; i < free.n && can; i++) blocks *= free.extent[i];
  for (int t = 0; t < p->ntensors; t++)
    if (!graph_scans(p, NULL, p->tensors[t].node)) tile = MAX(tile, shape_size(&p->tensors[t].shape));
  arena_close(&mem);
  return can && (blocks >= least || tile / blocks <= FEW);
}
