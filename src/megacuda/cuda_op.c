// Prints tensors and operators as C++ structures: constants, and the region of each access as functions of layer and tile. Regions of the proof are
// made from the same accesses.
#include "megacuda/megacuda.h"

#include <math.h>
#include <string.h>

// ---- accesses ----

// Prints the tile's index along an axis.
static void print_index(const struct mega_op *op, int axis, struct str *out)
{
  int below = 1;
  for (int i = axis + 1; i < op->spec.naxes; i++) below *= op->parts[i];
  if (below > 1)
    str_add(out, "tile / %d %% %d", below, op->parts[axis]);
  else
    str_add(out, "tile %% %d", op->parts[axis]);
}

static void print_bound(const struct mega_op *op, const struct mega_tensor *t, const struct mega_dim *x, int d, bool hi, struct str *out)
{
  int64_t offset = 0, extent = t->dim[d];
  str_add(out, "  static DEV int %s%d(int layer, int tile) { return ", hi ? "hi" : "lo", d);
  if (x->how == MEGA_THIS_LAYER)
    str_add(out, "layer%s", hi ? " + 1" : "");
  else if (x->how == MEGA_PART) {
    if (x->section >= 0) extent = mega_section(op, x, &offset);
    int64_t width = (extent + op->parts[x->axis] - 1) / op->parts[x->axis];
    str_add(out, "%lld + min((", (long long)offset);
    print_index(op, x->axis, out);
    str_add(out, "%s) * %lld, %lld)", hi ? " + 1" : "", (long long)width, (long long)extent);
  } else
    str_add(out, "%lld", hi ? (long long)extent : 0ll);
  str_add(out, "; }\n");
}

// Prints the offsets in a row of the tensor of the first element of a tile, and of the end of its elements if they are contiguous.
static void print_first(const struct mega_tensor *t, int rank, struct str *out)
{
  long long stride = 1;
  for (int end = 0; end < 2; end++) {
    str_add(out, "  static DEV int %s(int layer, int tile) { return 0", end ? "end" : "first");
    stride = 1;
    for (int d = rank - 1; d > 0; stride *= (long long)t->dim[d--])
      str_add(out, " + %s%d(layer, tile) * %lld", end && d == rank - 1 ? "hi" : "lo", d, stride);
    str_add(out, "; }\n");
  }
}

struct tile_shape { // shape of a tile's pieces
  int64_t columns, width;
};

static struct tile_shape shape_of(struct arena *mem, const struct mega_plan *p, const struct mega_op *op, int access, int tile, int cut)
{
  struct mega_region r = {0};
  struct mega_box piece;
  struct tile_shape s = {1, 0};
  mega_region(mem, p->m, op, access, 0, tile, 1, &r);
  mega_piece(p->m, op, access, &r.box[0], 0, &piece);
  s.width = piece.hi[cut] - piece.lo[cut];
  for (int d = 0; d < op->spec.access[access].rank; d++)
    if (op->spec.access[access].dim[d].how == MEGA_PART) s.columns = piece.hi[d] - piece.lo[d];
  return s;
}

static int64_t pitch_of(int bytes, int64_t width) { return (width * bytes + 15) / 16 * 16; }

enum { MATRIX_COLUMNS = 32, MATRIX_K = 32 }; // most columns, and the unit of k, of products by tensor cores: mega_matrix.cuh
struct stream {                              // weights streamed by an operator
  int cut, slices, bytes;                    // dimension that pieces divide; products that share the input; bytes of an element
  int tiles;                                 // number of tiles that divide the columns
  int experts, choices;                      // experts of a layer; number of experts whose weights a tile reads one after another
  bool chosen;                               // a router chooses these experts at run time
  int along;                                 // threads along k of a piece
  bool matrix;                               // multiplied by tensor cores
  int64_t k;
  struct tile_shape full, last;
  int64_t tile_bytes, last_bytes;
  bool panel; // a product of many rows: mega_panel.cuh
  // of a product of many rows
  int keeps, groups, slots;        // tiles whose sums a warp keeps; groups of warps that divide the tiles; pieces of the input in memory
  int splits;                      // pieces of the input for each piece of weights
  bool wide;                       // multiplied by four warps together (wgmma)
  int64_t slot_bytes, panel_bytes; // bytes of a piece of the input; bytes of all shared memory for the input
};

static int64_t bytes_of(const struct stream *s, struct tile_shape x)
{
  int64_t n = 0;
  for (int64_t from = 0; from < s->k; from += x.width) n += s->slices * x.columns * pitch_of(s->bytes, MIN(x.width, s->k - from));
  return n;
}

// Number of threads along k of a piece; each reads one or more chunks of sixteen bytes of a column.
static int along_of(const struct stream *s, int threads)
{
  int64_t per = 16 / s->bytes, chunks = (s->full.width + per - 1) / per;
  return chunks > 128 && threads >= 256 ? 256 : chunks > 64 && threads >= 128 ? 128 : chunks > 32 && threads >= 64 ? 64 : 32;
}

enum {
  FRAGMENT = 16,
  PANEL_K = 32,
  PANEL_COLUMNS = 64,
  AHEAD = 512
};                                                 // columns of an operand; k of a panel; most columns; bytes after the last piece
enum { GROUP_UNIT = 8, SECTOR = 128, ATOM = 512 }; // of group sizes; of bytes of a version; of bytes of a stage

// The access of an operator to the gain of its input's norm, or -1.
static int gain_access(const struct mega_plan *p, const struct mega_op *op)
{
  for (int a = 0; a < op->spec.naccess; a++) {
    const struct mega_access *x = &op->spec.access[a];
    if (!x->stream && !x->out && p->m->tensor[op->arg[x->arg]].kind == MEGA_WEIGHTS && x->dim[0].how == MEGA_THIS_LAYER) return a;
  }
  return -1;
}

// Whether a node is a product that reads the whole tensor.
static bool reads_whole(const struct mega_plan *p, int node, int tensor)
{
  const struct mega_op *op = mega_op_of(p, node);
  for (int a = 0; a < op->spec.naccess; a++)
    if (op->arg[op->spec.access[a].arg] == tensor && mega_input_of_rows(p->m, op, a)) return true;
  return false;
}

struct gain_place { // the gain of a norm: its tensor, -1: there is none; and the layer
  int tensor, layer;
};
static struct gain_place gain_of_node(const struct mega_plan *p, int node)
{
  const struct mega_op *op = mega_op_of(p, node);
  int a = gain_access(p, op);
  return a < 0 ? (struct gain_place){-1, 0} : (struct gain_place){op->arg[op->spec.access[a].arg], p->node[node].layer};
}

// The gain of the products that read each write of a tensor; tensor -1: no product reads it. NULL: a write has different gains, or a product has none.
static struct gain_place *gains_of_writes(struct arena *mem, const struct mega_plan *p, int tensor)
{
  const struct mega_held *h = &p->held[tensor];
  struct gain_place *gain = NEWS(mem, struct gain_place, h->nwrites + 1);
  for (int w = 0; w < h->nwrites; w++) gain[w].tensor = -1;
  for (int n = 0, back; n < p->nnodes; n++) {
    if (!reads_whole(p, n, tensor)) continue;
    struct gain_place g = gain_of_node(p, n), *at = &gain[mega_read_write(p, n, tensor, &back)];
    if (g.tensor < 0 || (at->tensor >= 0 && (at->tensor != g.tensor || at->layer != g.layer))) return NULL;
    *at = g;
  }
  return gain;
}

// A tensor that is the gain of a write; -1: there is none.
static int first_gain(const struct gain_place *gain, int writes)
{
  for (int w = 0; w < writes; w++)
    if (gain[w].tensor >= 0) return gain[w].tensor;
  return -1;
}

// Whether the writers of a tensor can also store its values times the gain of the norm that reads them, and the squares of groups of elements.
// Attention cannot, because an order of its tiles is only known at run time.
static bool scalable(struct arena *mem, const struct mega_plan *p, int tensor)
{
  const struct mega_tensor *t = &p->m->tensor[tensor];
  const struct mega_held *h = &p->held[tensor];
  if (t->kind != MEGA_ACTIVATION || t->rank != 2 || h->tagged || !h->nwrites || h->word_group % GROUP_UNIT) return false;
  for (int w = 0; w < h->nwrites; w++)
    if (mega_op_of(p, h->write[w])->spec.attrs >> MEGA_ATTR_theta & 1) return false;
  const struct gain_place *gain = gains_of_writes(mem, p, tensor);
  int first = gain ? first_gain(gain, h->nwrites) : -1;
  for (int w = 0; w < h->nwrites && first >= 0; w++)
    if (gain[w].tensor >= 0 && p->m->tensor[gain[w].tensor].type != p->m->tensor[first].type) return false;
  return first >= 0;
}

// Whether a product copies its input in panels: docs/mega.md has the conditions.
static bool takes_panels(struct arena *mem, const struct mega_plan *p, const struct mega_op *op, const struct stream *s)
{
  bool input = false, whole = s->k % PANEL_K == 0 && s->full.width % PANEL_K == 0 && s->last.width % PANEL_K == 0;
  for (int a = 0; a < op->spec.naccess; a++)
    if (mega_input_of_rows(p->m, op, a)) {
      int tensor = op->arg[op->spec.access[a].arg];
      input |= p->held[tensor].load == MEGA_LOAD_BULK && (gain_access(p, op) < 0 || scalable(mem, p, tensor));
    }
  return input && whole && s->bytes == 2 && !s->chosen && s->slices * s->full.columns <= PANEL_COLUMNS;
}

bool megacuda_wide(int rows) { return rows > MEGACUDA_WIDE_ROWS && rows % 8 == 0; }

int megacuda_panel_pitch(int rows)
{
  int blocks = (rows + 7) / 8;
  return blocks * 8 + (blocks % 2 ? 1 : 9);
}

// Chooses how warps divide a product of many rows, and the pieces of its input.
static void divide_panels(const struct mega_plan *p, const struct mega_op *op, int threads, struct stream *s)
{
  int64_t rows = p->m->rows, blocks = (rows + 7) / 8, lines = (s->slices * s->full.columns + FRAGMENT - 1) / FRAGMENT * FRAGMENT;
  int64_t width = MIN(MAX(s->full.width, s->last.width), s->k), halves = rows <= MEGACUDA_EXACT_ROWS ? 2 : 1, parts = 1;
  int warps = threads / 32, tiles = (op->tiles + p->m->workers - 1) / p->m->workers, registers = (int)(lines / FRAGMENT * blocks * 4);
  int most = MAX(1, MEGACUDA_PANEL_SUMS / registers);
  for (s->groups = 1; s->groups < warps && (tiles + s->groups - 1) / s->groups > most; s->groups *= 2) {
  }
  for (int a = 0; a < op->spec.naccess; a++)
    if (mega_input_of_rows(p->m, op, a) && op->spec.access[a].rank == 3) parts = p->m->tensor[op->arg[op->spec.access[a].arg]].dim[1];
  s->wide = megacuda_wide(p->m->rows) && parts == 1 && s->full.columns == s->last.columns && s->slices * s->full.columns == lines && warps == 8;
  if (s->wide) s->groups = tiles > 1 ? 2 : 1, most = MAX(1, MEGACUDA_PANEL_SUMS / (int)(lines / 2));
  s->keeps = MIN(most, (tiles + s->groups - 1) / s->groups);
  int64_t sums = (s->wide ? 2 : warps) * lines * megacuda_panel_pitch(p->m->rows) * 4;
  for (s->splits = 1;; s->splits *= 2) { // a stage is occupied until all parts of its piece are used
    s->slot_bytes = (width / s->splits * parts * rows * 2 * halves + 127) / 128 * 128;
    bool divides = s->full.width % (PANEL_K * s->splits * 2) == 0 && s->last.width % (PANEL_K * s->splits * 2) == 0 && halves == 1;
    if (2 * s->slot_bytes <= MEGACUDA_TWO_PANELS || s->keeps * s->groups * 2 > p->m->stages || !divides) break;
  }
  s->slots = (int)MAX(2, MIN(MEGACUDA_PANEL_SLOTS, (p->m->input_bytes ? p->m->input_bytes : MEGACUDA_PANELS) / s->slot_bytes));
  s->panel_bytes = MAX(s->slots * s->slot_bytes + AHEAD, sums);
}

static void describe(struct arena *mem, const struct mega_plan *p, const struct mega_op *op, int access, int threads, struct stream *s)
{
  const struct mega_access *a = &op->spec.access[access];
  const struct mega_tensor *t = &p->m->tensor[op->arg[a->arg]];
  struct mega_region r = {0};
  mega_region(mem, p->m, op, access, 0, 0, 1, &r);
  *s = (struct stream){
      .slices = 1, .bytes = mega_bytes(t->type), .choices = r.n, .chosen = a->decider >= 0, .experts = a->decider < 0 ? 1 : (int)t->dim[a->decided]};
  for (int d = 0; d < a->rank; d++) {
    if (a->dim[d].how == MEGA_PART) s->tiles = op->parts[a->dim[d].axis];
    if (a->dim[d].cut) s->cut = d, s->k = t->dim[d];
    if (a->dim[d].how == MEGA_WHOLE && !a->dim[d].cut) s->slices *= (int)t->dim[d];
  }
  s->full = shape_of(mem, p, op, access, 0, s->cut), s->last = shape_of(mem, p, op, access, s->tiles - 1, s->cut);
  s->tile_bytes = bytes_of(s, s->full), s->last_bytes = bytes_of(s, s->last);
  s->along = along_of(s, threads);
  s->matrix = !strcmp(mega_types[t->type].name, "bf16") && s->slices * s->full.columns <= MATRIX_COLUMNS && p->m->rows <= MEGA_TAGGED_ROWS;
  s->matrix &= s->k % MATRIX_K == 0 && s->full.width % MATRIX_K == 0 && s->last.width % MATRIX_K == 0;
  s->panel = takes_panels(mem, p, op, s);
  if (s->panel) s->matrix = true, divide_panels(p, op, threads, s);
}

int64_t megacuda_feed(struct arena *mem, const struct mega_plan *p, int op, int threads, struct mega_feed *f)
{
  const struct mega_op *x = &p->m->op[op];
  struct stream s;
  *f = (struct mega_feed){0};
  for (int a = 0; a < x->spec.naccess; a++) {
    if (!x->spec.access[a].stream || (describe(mem, p, x, a, threads, &s), !s.panel)) continue;
    int64_t width = s.full.width / s.splits;
    *f = (struct mega_feed){s.slots, (int)((s.k + width - 1) / width), s.keeps * s.groups};
    return s.slot_bytes;
  }
  return 0;
}

// Whether the operator's product copies its input in panels.
static bool copies_panels(struct arena *mem, const struct mega_plan *p, const struct mega_op *op, int threads)
{
  struct stream s;
  for (int a = 0; a < op->spec.naccess; a++)
    if (op->spec.access[a].stream && (describe(mem, p, op, a, threads, &s), s.panel)) return true;
  return false;
}

// Whether the tensor has a reader that copies it in panels or, if `panels` is false, a reader that does not.
static bool read_in(bool panels, struct arena *mem, const struct mega_plan *p, int tensor, int threads)
{
  for (int o = 0; o < p->m->nops; o++)
    for (int a = 0; a < p->m->op[o].spec.naccess; a++) {
      const struct mega_op *op = &p->m->op[o];
      const struct mega_access *x = &op->spec.access[a];
      if (x->out || op->arg[x->arg] != tensor) continue;
      if ((mega_input_of_rows(p->m, op, a) && copies_panels(mem, p, op, threads)) == panels) return true;
    }
  return false;
}

// Whether the tensor is stored in panels: [k / 32][row][32] as bf16, followed by the rounding errors. Products of many rows copy it piece by piece.
static bool in_panels(struct arena *mem, const struct mega_plan *p, int tensor, int threads)
{
  return p->held[tensor].load == MEGA_LOAD_BULK && read_in(true, mem, p, tensor, threads);
}

// The same, and also times the gain of a norm.
static bool in_scaled_panels(struct arena *mem, const struct mega_plan *p, int tensor, int threads)
{
  return in_panels(mem, p, tensor, threads) && scalable(mem, p, tensor);
}

// Number of bf16 of a version of a tensor in panels.
static int64_t panels_pitch(struct arena *mem, const struct mega_plan *p, int tensor, int threads)
{
  int64_t all = mega_elements(&p->m->tensor[tensor]), line = SECTOR / 2;
  if (!in_scaled_panels(mem, p, tensor, threads)) return 2 * all;
  return (4 * all + 2 * (all / p->held[tensor].word_group) + line - 1) / line * line;
}

int64_t megacuda_tensor_bytes(struct arena *mem, const struct mega_plan *p, int tensor, int threads)
{
  const struct mega_tensor *t = &p->m->tensor[tensor];
  const struct mega_held *h = &p->held[tensor];
  int64_t all = mega_elements(t);
  if (h->tagged) return all / h->word_group * ((h->word_group + 2) / 3) * h->versions * MEGA_WORD * mega_slots(p->m, t);
  if (in_panels(mem, p, tensor, threads)) return panels_pitch(mem, p, tensor, threads) * 2 * h->versions;
  return all * (t->kind == MEGA_ACTIVATION ? h->versions : 1) * mega_bytes(t->type);
}

bool megacuda_panels(struct arena *mem, const struct mega_plan *p, int threads)
{
  for (int t = 0; t < p->m->ntensors; t++)
    if (in_panels(mem, p, t, threads)) return true;
  return false;
}

// Prints the place of the gain of the norm that reads what an operator writes, by the operator's layer.
static void print_gains(struct arena *mem, const struct mega_plan *p, const struct mega_op *op, int tensor, struct str *out)
{
  const struct mega_held *h = &p->held[tensor];
  int layers = MAX(op->repeat, 1);
  struct gain_place *g = NEWS(mem, struct gain_place, layers), *gain = gains_of_writes(mem, p, tensor);
  for (int w = 0; w < h->nwrites; w++) {
    int layer = p->node[h->write[w]].layer;
    if (mega_op_of(p, h->write[w]) != op) continue;
    g[layer] = gain[w].tensor >= 0 ? gain[w] : (struct gain_place){first_gain(gain, h->nwrites), 0}; // or no norm reads it
  }
  for (int what = 0; what < 2; what++) {
    str_add(out, "  static DEV int gain_%s(int layer) { return ", what ? "layer" : "tensor");
    for (int from = 0, end; from < layers; from = end) {
      for (end = from + 1; end < layers && g[end].tensor == g[from].tensor && g[end].layer - end == g[from].layer - from;) end++;
      if (end < layers) str_add(out, "layer < %d ? ", end);
      if (what)
        str_add(out, "layer + %d", g[from].layer - from);
      else
        str_add(out, "%d", g[from].tensor);
      if (end < layers) str_add(out, " : ");
    }
    str_add(out, "; }\n");
  }
}

int megacuda_tensor(struct arena *mem, const struct mega_plan *p, int tensor, int threads, struct str *out, struct err *e)
{
  const struct mega_tensor *t = &p->m->tensor[tensor];
  const struct mega_held *h = &p->held[tensor];
  int64_t row = 1, all = mega_elements(t), group = h->word_group;
  for (int d = 1; d < t->rank; d++) row *= t->dim[d];
  if (h->tagged && h->word_bytes != 16)
    return err_set(e, ERR_MEGA, NOWHERE, "words of %.40s have %d bytes; CUDA bodies need 16", t->name, h->word_bytes);
  if (mega_types[t->type].bits < 16)
    return err_set(e, ERR_MEGA, NOWHERE, "%.40s is %s, which CUDA bodies do not support", t->name, mega_types[t->type].name);
  bool table = t->kind == MEGA_WEIGHTS;
  str_add(out, "struct t_%s {\n  typedef %s type;\n", t->name, !strcmp(mega_types[t->type].name, "i32") ? "int" : mega_types[t->type].name);
  str_add(out,
          "  static constexpr int ID = %d, COUNT = %lld, ROW = %lld, VERSIONS = %d, WRITES = %d, SLOTS = %d, GROUP = %lld, GROUP_WORDS = %lld, WORDS "
          "= %lld;\n",
          tensor, (long long)t->dim[0], (long long)(table ? t->dim[t->rank - 1] : row), h->versions, h->nwrites, mega_slots(p->m, t),
          (long long)group, (long long)(group + 2) / 3, (long long)(row / group * ((group + 2) / 3)));
  str_add(out, "  static constexpr bool TAGGED = %s;\n  static constexpr long long ELEMENTS = %lldll;\n", h->tagged ? "true" : "false",
          (long long)all);
  if (megacuda_panels(mem, p, threads)) {
    bool panel = in_panels(mem, p, tensor, threads), rest = panel && (p->m->rows <= MEGACUDA_EXACT_ROWS || read_in(false, mem, p, tensor, threads));
    bool scaled = panel && scalable(mem, p, tensor);
    str_add(out, "  static constexpr bool PANEL = %s, REST = %s, SCALED = %s; // REST: followed by the rounding errors\n", panel ? "true" : "false",
            rest ? "true" : "false", scaled ? "true" : "false");
    str_add(out, "  static constexpr long long PITCH = %lldll;\n", (long long)panels_pitch(mem, p, tensor, threads));
    if (scaled)
      str_add(out, "  typedef %s gain_type;\n",
              mega_types[p->m->tensor[first_gain(gains_of_writes(mem, p, tensor), p->held[tensor].nwrites)].type].name);
  }
  str_add(out, "};\n");
  return OK;
}

int megacuda_block(struct arena *mem, const struct mega_plan *p, int warps)
{
  return (warps + MEGACUDA_OTHER_WARPS + megacuda_panels(mem, p, warps * 32)) * 32;
}

// Describes the weights that an operator streams. Pieces are [slices][columns][k]; all tiles but the last have the same shape.
static int stream_of(struct arena *mem, const struct mega_plan *p, const struct mega_op *op, int access, int threads, struct stream *s, struct err *e)
{
  describe(mem, p, op, access, threads, s);
  for (int tile = 1; tile < s->tiles - 1; tile++) {
    struct tile_shape x = shape_of(mem, p, op, access, tile, s->cut);
    if (x.columns != s->full.columns || x.width != s->full.width)
      return err_set(e, ERR_MEGA, op->at, "operator %.40s: work tile %d is narrower than the first, but only the last may be", op->name, tile);
  }
  if (s->choices > 1 && (s->k % MIN(s->k, s->full.width) || s->k % MIN(s->k, s->last.width))) {
    err_set(e, ERR_MEGA, op->at, "operator %.40s: %lld rows of an expert's weights are not a multiple of pieces of %lld", op->name, (long long)s->k,
            (long long)s->full.width);
    return err_hint(e, "use more tiles, which makes pieces longer"), USER;
  }
  return OK;
}

static int print_stream(struct arena *mem, const struct mega_plan *p, const struct mega_op *op, int access, int threads, struct str *out,
                        struct err *e)
{
  struct stream s;
  TRY(stream_of(mem, p, op, access, threads, &s, e));
  bool ragged = s.full.columns != s.last.columns;
  str_add(out,
          "  static constexpr int K = %lld, SLICES = %d, COLUMNS = %lld, WIDTH = %lld, TILES = %d, ALONG = %d;\n"
          "  static constexpr int EXPERTS = %d, CHOICES = %d, INPUT = K * CHOICES; // INPUT: k of all choices of a tile\n"
          "  static constexpr bool CHOSEN = %s; // data select the weights: each row has weights of its own\n"
          "  static constexpr int TILE_ROWS = CHOSEN ? 1 : ROWS;\n"
          "  static constexpr bool RAGGED = %s, MATRIX = %s;\n",
          (long long)s.k, s.slices, (long long)s.full.columns, (long long)s.full.width, s.tiles, s.along, s.experts, s.choices,
          s.chosen ? "true" : "false", ragged ? "true" : "false", s.matrix ? "true" : "false");
  if (ragged) {
    str_add(out, "  static DEV int columns(int tile) { return tile %% TILES == %d ? %lld : %lld; }\n", s.tiles - 1, (long long)s.last.columns,
            (long long)s.full.columns);
    str_add(out, "  static DEV int width(int tile) { return tile %% TILES == %d ? %lld : %lld; }\n", s.tiles - 1, (long long)s.last.width,
            (long long)s.full.width);
  } else
    str_add(out, "  static DEV int columns(int) { return %lld; }\n  static DEV int width(int) { return %lld; }\n", (long long)s.full.columns,
            (long long)s.full.width);
  if (megacuda_panels(mem, p, threads))
    str_add(out,
            "  static constexpr bool PANEL = %s, WIDE = %s;\n  static constexpr int KEEPS = %d, GROUPS = %d, SLOTS = %d, SLOT_BYTES = %lld, SPLITS = "
            "%d;\n",
            s.panel ? "true" : "false", s.wide ? "true" : "false", s.keeps, s.groups, s.slots, (long long)s.slot_bytes, s.splits);
  str_add(out, "  static DEV int pitch(int n) { return (n * %d + 15) / 16 * 16; }\n", s.bytes);
  str_add(out, "  static constexpr long long LAYER_BYTES = %lldll; // of one expert\n", (long long)(s.tile_bytes * (s.tiles - 1) + s.last_bytes));
  str_add(out, "  static DEV long long tile_at(int layer, int tile) { return layer * LAYER_BYTES + tile * %lldll; }\n", (long long)s.tile_bytes);
  // Element (layer, slice, k, column) of the tensor.
  bool head = s.cut > 0 && op->spec.access[access].rank == 2;
  const struct mega_tensor *t = &p->m->tensor[op->arg[op->spec.access[access].arg]];
  long long n = (long long)t->dim[head ? 0 : t->rank - 1];
  if (head)
    str_add(out, "  static DEV long long element(int, int, int k, int column) { return column * %lldll + k; }\n", (long long)s.k);
  else
    str_add(
        out,
        "  static DEV long long element(int layer, int slice, int k, int column) { return ((layer * %lldll + slice) * K + k) * %lldll + column; }\n",
        (long long)s.slices, n);
  return OK;
}

// Prints a tile's row and head, and the range of the `now` cached positions that it reads.
static void print_positions(const struct mega_op *op, const struct mega_access *a, struct str *out)
{
  int axis = a->dim[1].how == MEGA_PAGE_PAST ? a->dim[1].axis : -1;
  str_add(out, "  static DEV int row(int tile) { return ");
  print_index(op, 0, out);
  str_add(out, "; }\n  static DEV int head(int tile) { return ");
  print_index(op, a->dim[2].axis, out);
  str_add(out, "; }\n  static DEV int part(int tile) { return ");
  if (axis >= 0)
    print_index(op, axis, out);
  else
    str_add(out, "0 * tile");
  int parts = axis >= 0 ? op->parts[axis] : 1;
  str_add(out, "; }\n  static DEV int first(int tile, int now) { return min(part(tile) * ((now + %d) / %d), now); }\n", parts - 1, parts);
  str_add(out, "  static DEV int end(int tile, int now) { return min((part(tile) + 1) * ((now + %d) / %d), now); }\n", parts - 1, parts);
}

static int paged(const struct mega_plan *p, const struct mega_op *op, int access, struct str *out, struct err *e)
{
  const struct mega_access *a = &op->spec.access[access];
  const struct mega_tensor *t = &p->m->tensor[op->arg[a->arg]];
  int64_t dim = t->dim[5], bytes = mega_bytes(t->type), lanes = dim * bytes / 16, most = p->m->stage_bytes / (2 * dim * bytes);
  if (dim * bytes % 16 || lanes > 32 || lanes & (lanes - 1))
    return err_set(e, ERR_MEGA, op->at, "operator %.40s: a head has %lld bytes; CUDA bodies support 16, 32, 64, 128, 256 and 512", op->name,
                   (long long)(dim * bytes));
  str_add(out, "  static constexpr int PAGES = %lld, FIRST_PAGE = %d, ROW_PAGES = %lld, HEADS = %lld, SLOTS = %lld, DIM = %lld, WIDTH = %lld;\n",
          (long long)t->dim[1], mega_paged(p->m, op, true), (long long)((t->dim[1] - mega_paged(p->m, op, true)) / p->m->rows), (long long)t->dim[2],
          (long long)t->dim[4], (long long)dim, (long long)MAX(1, most));
  print_positions(op, a, out);
  return OK;
}

static bool is_paged(const struct mega_access *a)
{
  for (int d = 0; d < a->rank; d++)
    if (a->dim[d].how == MEGA_PAGE_NOW || a->dim[d].how == MEGA_PAGE_PAST) return true;
  return false;
}

static int print_access(struct arena *mem, const struct mega_plan *p, const struct mega_op *op, int access, int threads, struct str *out,
                        struct err *e)
{
  const struct mega_access *a = &op->spec.access[access];
  const struct mega_tensor *t = &p->m->tensor[op->arg[a->arg]];
  str_add(out, "  struct a%d {\n  typedef t_%s tensor;\n", access, t->name);
  TRY(megacuda_write(p, (int)(op - p->m->op), access, out, e));
  if (is_paged(a)) {
    TRY(paged(p, op, access, out, e));
  } else {
    for (int d = 0; d < a->rank; d++) print_bound(op, t, &a->dim[d], d, false, out), print_bound(op, t, &a->dim[d], d, true, out);
    print_first(t, a->rank, out);
    if (a->out && in_scaled_panels(mem, p, op->arg[a->arg], threads)) print_gains(mem, p, op, op->arg[a->arg], out);
  }
  if (a->stream && !is_paged(a)) TRY(print_stream(mem, p, op, access, threads, out, e));
  str_add(out, "  };\n");
  return OK;
}

static void print_attrs(const struct mega_op *op, struct str *out)
{
  char number[32];
  for (int a = 0; a < MEGA_ATTR_COUNT; a++) {
    bool whole = a == MEGA_ATTR_heads || a == MEGA_ATTR_kv || a == MEGA_ATTR_dim;
    if (!(op->spec.attrs >> a & 1)) continue;
    str_double(number, op->attr[a]);
    if (whole)
      str_add(out, "  static constexpr int %s = %d;\n", mega_attr_names[a], (int)op->attr[a]);
    else
      str_add(out, "  static constexpr double %s = %s;\n", mega_attr_names[a], number);
  }
}

int megacuda_packed(struct arena *mem, const struct mega_plan *p, int op, int threads, int *tensor, int64_t *bytes, struct err *e)
{
  const struct mega_op *x = &p->m->op[op];
  struct stream s;
  *tensor = -1, *bytes = 0;
  for (int a = 0; a < x->spec.naccess; a++) {
    if (!x->spec.access[a].stream || is_paged(&x->spec.access[a])) continue;
    TRY(stream_of(mem, p, x, a, threads, &s, e));
    *tensor = x->arg[x->spec.access[a].arg], *bytes = (s.tile_bytes * (s.tiles - 1) + s.last_bytes) * s.experts * MAX(x->repeat, 1);
  }
  return OK;
}

// Prints the tensor that the feeder copies: the input.
static int print_feeding(struct arena *mem, const struct mega_plan *p, const struct mega_op *op, int threads, struct str *out)
{
  int input = -1;
  struct stream s = {0};
  for (int a = 0; a < op->spec.naccess; a++) {
    const struct mega_access *x = &op->spec.access[a];
    if (x->stream && !is_paged(x)) describe(mem, p, op, a, threads, &s);
    if (mega_input_of_rows(p->m, op, a)) input = a;
  }
  str_add(out, "  static constexpr bool FEEDS = %s;\n", s.panel ? "true" : "false");
  if (s.panel) str_add(out, "  typedef a%d fed;\n", input);
  return OK;
}

int megacuda_op(struct arena *mem, const struct mega_plan *p, int index, int threads, struct str *out, struct err *e)
{
  const struct mega_op *op = &p->m->op[index];
  int streamed = -1, decider = -1;
  const char *stream = "NOTHING";
  bool fence = false;
  for (int n = 0; n < p->nnodes; n++)
    if (p->node[n].op == index) fence |= p->fence[n];
  str_add(out, "struct o_%s { // %s\n", op->name, op->layer->access);
  for (int a = 0; a < op->spec.naccess; a++) {
    TRY(print_access(mem, p, op, a, threads, out, e));
    if (!op->spec.access[a].stream) continue;
    streamed = a, decider = op->spec.access[a].decider;
    stream = decider >= 0 ? "EXPERTS" : !is_paged(&op->spec.access[a]) ? "WEIGHTS" : mega_paged(p->m, op, true) ? "PAGES" : "CACHE";
  }
  bool norms = false, rotary = op->spec.attrs >> MEGA_ATTR_theta & 1;
  if (rotary) norms = op->spec.attrs >> MEGA_ATTR_eps & 1;
  str_add(
      out,
      "  static constexpr int ID = %d, LAYERS = %d, TILES = %d, STREAM = STREAM_%s;\n  static constexpr bool FENCE = %s, ROTARY = %s, NORMS = %s;\n",
      index, MAX(op->repeat, 1), op->tiles, stream, fence ? "true" : "false", rotary ? "true" : "false", norms ? "true" : "false");
  print_attrs(op, out);
  if (rotary) {
    char number[32];
    str_double(number, 1 / sqrt(op->attr[MEGA_ATTR_dim]));
    str_add(out, "  static constexpr float SCALE = (float)%s;\n", number);
  }
  if (streamed >= 0) str_add(out, "  typedef a%d streamed;\n", streamed);
  if (decider >= 0) str_add(out, "  typedef a%d decider;\n", decider);
  if (megacuda_panels(mem, p, threads)) TRY(print_feeding(mem, p, op, threads, out));
  str_add(out, "};\n");
  return OK;
}

// ---- rows of the producer ----

// The tensor of the norm's gain, and its bytes of a layer; -1: there is none. The producer prefetches it into L2, because all workers read it.
static int gain_of(struct arena *mem, const struct mega_plan *p, const struct mega_op *op, int threads, int64_t *bytes)
{
  int gain = gain_access(p, op), tensor = gain < 0 ? -1 : op->arg[op->spec.access[gain].arg];
  *bytes = 0;
  if (gain < 0 || copies_panels(mem, p, op, threads)) return -1; // the input of panels is already scaled
  const struct mega_tensor *t = &p->m->tensor[tensor];
  int64_t n = mega_elements(t) / t->dim[0] * mega_bytes(t->type);
  if (n % 16) return -1;
  return *bytes = n, tensor;
}

static int64_t piece_bytes(const struct stream *s, struct tile_shape x, bool end)
{
  int64_t width = end && s->k % x.width ? s->k % x.width : MIN(x.width, s->k);
  return s->slices * x.columns * pitch_of(s->bytes, width);
}

int megacuda_weights(struct arena *mem, const struct mega_plan *p, int threads, struct str *out, struct err *e)
{
  str_add(out, "GLOBAL const weights_row WEIGHTS[] = {\n");
  for (int o = 0; o < p->m->nops; o++) {
    const struct mega_op *op = &p->m->op[o];
    int64_t bytes;
    int access = -1, gain = gain_of(mem, p, op, threads, &bytes);
    struct stream s;
    for (int a = 0; a < op->spec.naccess; a++) // other streams have separate loops
      if (op->spec.access[a].stream && !is_paged(&op->spec.access[a]) && op->spec.access[a].decider < 0) access = a;
    if (access < 0) {
      str_add(out, "  {},\n");
      continue;
    }
    TRY(stream_of(mem, p, op, access, threads, &s, e));
    str_add(out, "  {%lld, %lld, %d, %lld, %lld, %lld, %lld, %lld, %lld, %lld, %d, %lld", (long long)(s.tile_bytes * (op->tiles - 1) + s.last_bytes),
            (long long)s.tile_bytes, op->tiles, (long long)s.k, (long long)s.full.width, (long long)piece_bytes(&s, s.full, false),
            (long long)piece_bytes(&s, s.full, true), (long long)s.last.width, (long long)piece_bytes(&s, s.last, false),
            (long long)piece_bytes(&s, s.last, true), gain, (long long)bytes);
    if (megacuda_panels(mem, p, threads))
      str_add(out, ", %d, %s", s.panel ? s.keeps * s.groups : 1, s.full.columns != s.last.columns ? "true" : "false");
    str_add(out, "},\n");
  }
  str_add(out, "};\n");
  return OK;
}

// ---- sizes ----

enum { BEHIND = 8 }; // padding after a row, in floats

static int most_of_access(struct arena *mem, const struct mega_plan *p, const struct mega_op *op, int access, int threads, struct megacuda_most *m,
                          struct err *e)
{
  const struct mega_access *a = &op->spec.access[access];
  const struct mega_tensor *t = &p->m->tensor[op->arg[a->arg]];
  struct stream s;
  if (!a->stream || is_paged(a)) {
    struct mega_region r = {0};
    if (a->room == MEGA_ROOM_NONE) return OK;
    mega_region(mem, p->m, op, access, 0, 0, 1, &r);
    int64_t row = mega_volume(t->rank, &r.box[0]) / (r.box[0].hi[0] - r.box[0].lo[0]) * (a->slots ? mega_slots(p->m, t) : 1);
    if (a->room == MEGA_ROOM_ROW) m->x = MAX(m->x, row + BEHIND);
    if (a->room == MEGA_ROOM_ALL) m->x = MAX(m->x, (row + m->x_rows - 1) / m->x_rows + BEHIND);
    if (a->room == MEGA_ROOM_ONE) m->one = MAX(m->one, row + BEHIND);
    if (a->room == MEGA_ROOM_PAIRS) m->merge = MAX(m->merge, row);
    return OK;
  }
  TRY(stream_of(mem, p, op, access, threads, &s, e));
  struct tile_shape shapes[] = {s.full, s.last};
  for (size_t i = 0; i < COUNT(shapes); i++)
    m->stage_room = MAX(m->stage_room, s.slices * shapes[i].columns * pitch_of(s.bytes, MIN(shapes[i].width, s.k)));
  m->choices = MAX(m->choices, s.choices), m->panel = MAX(m->panel, s.panel_bytes);
  if (s.panel) return OK;
  int64_t *input = s.chosen ? &m->one : &m->x, rows = s.chosen ? 1 : p->m->rows;
  *input = MAX(*input, s.k * s.choices + (s.matrix ? MATRIX_K / 2 : BEHIND));
  m->part = MAX(m->part, rows * MAX(MEGACUDA_SUMS, s.slices * s.full.columns * (s.matrix ? threads : s.along) / 32));
  return OK;
}

// Whether a product keeps all rows of its input in shared memory.
static bool keeps_inputs(struct arena *mem, const struct mega_plan *p, int threads)
{
  struct stream s;
  for (int o = 0; o < p->m->nops; o++)
    for (int a = 0; a < p->m->op[o].spec.naccess; a++) {
      const struct mega_access *x = &p->m->op[o].spec.access[a];
      if (!x->stream || is_paged(x)) continue;
      describe(mem, p, &p->m->op[o], a, threads, &s);
      if (!s.panel && !s.chosen) return true;
    }
  return false;
}

int megacuda_most_of(struct arena *mem, const struct mega_plan *p, int threads, struct megacuda_most *m, struct err *e)
{
  *m = (struct megacuda_most){
      .stage_room = p->m->stage_bytes, .x = 8, .one = 8, .query = 1, .head = 1, .heads = 1, .part = 1, .merge = 2, .choices = 1};
  m->x_rows = keeps_inputs(mem, p, threads) ? p->m->rows : 1;
  for (int o = 0; o < p->m->nops; o++) {
    const struct mega_op *op = &p->m->op[o];
    for (int a = 0; a < op->spec.naccess; a++) TRY(most_of_access(mem, p, op, a, threads, m, e));
    if (!(op->spec.attrs >> MEGA_ATTR_heads & 1)) continue;
    int64_t heads = (int64_t)(op->attr[MEGA_ATTR_heads] / op->attr[MEGA_ATTR_kv]);
    m->head = MAX(m->head, (int64_t)op->attr[MEGA_ATTR_dim]);
    m->heads = MAX(m->heads, heads), m->query = MAX(m->query, heads * (int64_t)op->attr[MEGA_ATTR_dim]);
  }
  m->stage_room = (m->stage_room + ATOM - 1) / ATOM * ATOM, m->x = (m->x + 3) / 4 * 4, m->one = (m->one + 3) / 4 * 4;
  megacuda_count_rows(p, m);
  return OK;
}
