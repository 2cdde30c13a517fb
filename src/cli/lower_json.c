// mica lower --json: the whole plan of a program for a GPU, every pass of every kernel.
#include "cli/cli.h"
#include "base/doc.h"
#include "plan/layout.h"
#include "plan/passes.h"

static json_t *integer(int64_t x) { return json_integer((json_int_t)x); }
static const char *op_name(const struct norm *n, int node) { return op_rows[n->block->nodes[node].op].name; }

static json_t *letters(uint32_t set)
{
  char text[MAX_LETTERS + 1] = "";
  int n = 0;
  for (int i = 0; i < MAX_LETTERS; i++)
    if (set >> i & 1) text[n++] = (char)('a' + i);
  return text[n] = 0, json_string(text);
}

static json_t *tensor_name(const struct graph *g, int t)
{
  char text[24];
  snprintf(text, sizeof text, "t%d", t);
  return json_string(g->tensors[t].name ? g->tensors[t].name : text);
}

// ---- passes of a kernel ----

static json_t *chains(const struct norm *n, const struct chains *c)
{
  static const char *const source_names[] = {[SOURCE_CONSTANT] = "number",     [SOURCE_DEVICE] = "device", [SOURCE_TILE] = "tile",
                                             [SOURCE_REGISTERS] = "registers", [SOURCE_FOLD] = "folded",   [SOURCE_SHARED] = "shared"};
  json_t *all = json_array();
  for (int i = 0; i < c->nchains; i++) {
    json_t *one = json_array();
    for (int k = 0; k < n->block->nnodes; k++) {
      const struct node *x = &n->block->nodes[k];
      json_t *in = json_array(), *hand = json_array();
      for (int j = 0; j < x->nin && c->of[k] == i; j++) {
        json_array_append_new(in, integer(n->t[x->in[j]].root));
        json_array_append_new(hand, json_string(source_names[c->source[k][MIN(j, 1)]]));
      }
      if (c->of[k] == i)
        json_array_append_new(one, json_pack("{s:s, s:i, s:O, s:O, s:b, s:b}", "op", op_name(n, k), "tensor", x->out, "in", in, "hand", hand, "side",
                                             c->side[k], "folded", c->folded[k]));
      json_decref(in), json_decref(hand);
    }
    json_array_append_new(all, one);
  }
  return all;
}

static json_t *products(const struct norm *n, const struct chains *c)
{
  json_t *all = json_array();
  for (int i = 0; i < c->nproducts; i++) {
    const struct chain_product *x = &c->product[i];
    json_array_append_new(all, json_pack("{s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:o}", "tensor", x->out, "a", x->a, "b", x->b, "rows", letters(x->rows),
                                         "columns", letters(x->cols), "sum", letters(x->sum), "batch", letters(x->batch), "adds_to",
                                         x->into < 0 ? json_null() : integer(n->block->nodes[x->into].out)));
  }
  return json_pack("{s:b, s:o}", "oriented", c->oriented, "list", all);
}

static json_t *schedule(const struct norm *n, const struct schedule *s)
{
  static const char *const sections[] = {[SECTION_BEFORE] = "before", [SECTION_LOOP] = "loop", [SECTION_AFTER] = "after"};
  json_t *order = json_array(), *barriers = json_array();
  for (int i = 0; i < s->n; i++) {
    int x = s->order[i];
    json_array_append_new(order, json_pack("{s:s, s:i, s:s, s:i, s:o}", "op", op_name(n, x), "tensor", n->block->nodes[x].out, "section",
                                           sections[s->section[x]], "depth", s->depth[x], "bytes", integer(s->at[i])));
  }
  for (int i = 0; i < 3; i++) json_array_append_new(barriers, integer(s->barriers[i]));
  return json_pack("{s:o, s:o, s:o}", "order", order, "barriers", barriers, "bytes", integer(s->held));
}

static json_t *copy(const struct norm *n, const struct plan_access *a, const struct copy_meta *m, bool save, const enum dtype *store)
{
  int bytes = dtype_bytes(store[a->tensor]), chunk = MIN(m->chunk, 16 / bytes);
  return json_pack("{s:s, s:i, s:o, s:i, s:o, s:b, s:b}", "kind", save ? "save" : "iter", "tile", a->tile, "tensor",
                   tensor_name(n->kernels, a->tensor), "chunk_bytes", chunk * bytes, "along", m->along < 0 ? json_null() : letters(1u << m->along),
                   "shared", m->shared, "ring", m->ring);
}

static json_t *meta(const struct norm *n, const struct meta *m, const enum dtype *store)
{
  json_t *copies = json_array(), *accumulators = json_array();
  for (int i = 0; i < n->niter; i++) json_array_append_new(copies, copy(n, &n->iter[i], &m->iter[i], false, store));
  for (int i = 0; i < n->nsave; i++) json_array_append_new(copies, copy(n, &n->save[i], &m->save[i], true, store));
  for (int i = 0; i < n->block->nnodes; i++)
    if (m->accumulator[i] != ACCUMULATOR_NONE)
      json_array_append_new(accumulators, json_pack("{s:s, s:i, s:b}", "op", op_name(n, i), "tensor", n->block->nodes[i].out, "products_add",
                                                    m->accumulator[i] == ACCUMULATOR_PRODUCT));
  return json_pack("{s:o, s:o}", "copies", copies, "accumulators", accumulators);
}

static json_t *threads(const struct norm *n, const struct chains *c)
{
  struct warp_layout w[WARP_LAYOUTS];
  json_t *all = json_array();
  int count = c->nproducts && c->oriented ? plan_threads(n, c, w) : 0;
  for (int i = 0; i < count; i++)
    json_array_append_new(all, json_pack("{s:i, s:i, s:b, s:o, s:o}", "rows", w[i].rows, "columns", w[i].cols, "sums", w[i].sums, "products",
                                         integer(w[i].calls), "bytes", integer(w[i].volume)));
  return all;
}

static json_t *kernel(const struct norm *n, const enum dtype *store)
{
  const struct passes *p = n->passes;
  struct str text = {0};
  norm_text(n, &text);
  json_t *v =
      json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "norm", str_text(&text), "chains", chains(n, &p->chains), "products", products(n, &p->chains),
                "schedule", schedule(n, &p->schedule), "meta", meta(n, &p->meta, store), "threads", threads(n, &p->chains));
  return str_free(&text), v;
}

// ---- the whole ----

static json_t *choices(const struct lower_unit *u)
{
  json_t *all = json_array();
  for (int i = 0; i < u->nchoices; i++) {
    struct str how = {0};
    scheme_text(&u->choice[i], &how);
    json_array_append_new(all, json_pack("{s:s, s:f, s:s?}", "how", str_text(&how), "model_us", 1e6 * u->choice[i].cost, "apart",
                                         u->product ? NULL : scheme_at(u->choice[i].scheme)->apart));
    str_free(&how);
  }
  return all;
}

// Extents, and the library's epilogue if the next kernel can be part of it.
static json_t *library_product(const struct lower_unit *u)
{
  const struct blas_product *m = &u->mul.p, *ends = u->last != u->first ? &u->ends.p : NULL;
  json_t *v = json_pack("{s:o, s:o, s:o, s:o}", "batch", integer(m->batch), "m", integer(m->m), "n", integer(m->n), "k", integer(m->k));
  if (ends)
    json_object_set_new(
        v, "ends",
        json_pack("{s:s, s:f, s:f}", "epilogue", blas_epilogue_name(ends->epilogue), "alpha", (double)ends->alpha, "beta", (double)ends->beta));
  return v;
}

static json_t *unit(const struct lower_plan *p, const struct lower_unit *u)
{
  json_t *v = json_pack("{s:s, s:s, s:o}", "name", u->name, "not", u->why ? u->why : "", "choices", choices(u));
  if (u->product)
    json_object_set_new(v, "product", library_product(u));
  else if (u->n.passes)
    json_object_set_new(v, "passes", kernel(&u->n, p->store));
  return v;
}

static json_t *layout(const struct graph *g, int t, const struct tensor_layout *l)
{
  json_t *shape = json_array(), *stride = json_array();
  for (int i = 0; i < g->tensors[t].shape.n; i++) {
    json_array_append_new(shape, integer(g->tensors[t].shape.d[i]));
    json_array_append_new(stride, integer(l->stride[i]));
  }
  return json_pack("{s:o, s:o, s:i, s:o, s:o}", "tensor", tensor_name(g, t), "shape", shape, "innermost", l->inner, "strides", stride, "elements",
                   integer(l->elements));
}

// As planned, and as laid out in device memory.
static json_t *layouts(const struct lower_plan *p, const struct layouts *l)
{
  json_t *device = json_array(), *tiles = json_array();
  const struct graph *g = l->kernels;
  for (int t = 0; t < g->ntensors; t++) {
    int64_t stride[MAX_DIMS], elements = order_strides(p->order ? &p->order[t] : NULL, &g->tensors[t].shape, stride);
    json_t *v = layout(g, t, &l->device[t]), *taken = json_array();
    for (int d = 0; d < g->tensors[t].shape.n; d++) json_array_append_new(taken, integer(stride[d]));
    json_object_set_new(v, "taken", json_pack("{s:o, s:o}", "strides", taken, "elements", integer(elements)));
    json_array_append_new(device, v);
  }
  for (int i = 0; i < g->nnodes; i++) {
    const struct graph *b = g->nodes[i].sub;
    json_t *own = json_array();
    for (int t = 0; b && t < b->ntensors; t++) {
      const struct tensor_layout *x = &l->tile[i][t];
      json_t *v = layout(b, t, x);
      json_object_set_new(v, "swizzled",
                          x->swizzled < 0 ? json_null()
                                          : json_pack("{s:i, s:i, s:i, s:o}", "dimension", x->swizzled, "bits", x->swizzle.bits, "from",
                                                      x->swizzle.from, "shift", integer(x->swizzle.shift)));
      json_array_append_new(own, v);
    }
    if (b) json_array_append_new(tiles, json_incref(own));
    json_decref(own);
  }
  return json_pack("{s:s, s:o, s:o}", "between", p->ordered, "device", device, "tiles", tiles);
}

static json_t *memory(const struct device_program *d)
{
  static const char *const kinds[] = {[PLACE_INPUT] = "input", [PLACE_OUTPUT] = "output", [PLACE_WORK] = "workspace"};
  json_t *launches = json_array();
  for (int i = 0; i < d->nlaunch; i++) {
    const struct launch *l = &d->launch[i];
    json_t *args = json_array();
    for (int k = 0; k < l->nargs; k++) {
      const struct launch_arg *a = &l->arg[k];
      json_array_append_new(args, json_pack("{s:o, s:s, s:i, s:o, s:o, s:b}", "tensor", a->tensor < 0 ? json_null() : tensor_name(d->g, a->tensor),
                                            "place", kinds[a->at.kind], "index", a->at.index, "offset", integer(a->at.offset), "bytes",
                                            integer(a->elements * tile_types[a->type].bytes), "written", a->written));
    }
    json_array_append_new(launches, json_pack("{s:s, s:s, s:o}", "name", l->name, "how", l->how, "args", args));
  }
  return json_pack("{s:o, s:o, s:o}", "workspace", integer(d->workspace), "zeroed", integer(d->zeroed), "launches", launches);
}

int cli_lower_json(struct cli *c, const struct lower_plan *p, const struct choice *pick)
{
  struct device_program d;
  struct layouts l;
  TRY(lower_make(&c->mem, p, pick, &d, &c->err));
  TRY(plan_layouts(&c->mem, p->g, false, &l, &c->err));
  json_t *units = json_array();
  for (int i = 0; i < p->nunits; i++)
    if (cli_lower_chosen(c, p, i)) json_array_append_new(units, unit(p, &p->unit[i]));
  json_t *v = json_pack("{s:s, s:i, s:f, s:o, s:o, s:o}", "program", p->g->name ? p->g->name : "", "arch", p->gpu->arch, "model_us", 1e6 * d.cost,
                        "kernels", units, "layouts", layouts(p, &l), "memory", memory(&d));
  int status = output_json(c, v);
  return json_decref(v), status;
}
