// Builds a model of the families Llama, Qwen3 and Qwen3 with experts. Its operators are embed, and for each layer: norm + qkv, rotation with cache
// and attention, o + residual, norm + gate and up, down + residual. With experts, the last two products are those of the experts that a router
// chooses. The head and the choice of the largest logit follow. In a world, each rank has a part of the heads, of the inner size and of the
// vocabulary. o and down compute partial sums, which add_slots adds to the residual.
#include "mega/mega.h"

#include <string.h>

struct mega_making {
  struct arena *mem;
  const struct mega_config *c;
  const struct mega_sizes *s;
  struct mega_model *m;
  struct err *e;
  int world, heads, kv, inner, vocab; // the last four: of one rank
};
enum { PAGE = 64 };          // positions of a page of the cache
enum { COLUMNS = 8 };        // of a wide work tile of a product with few rows
enum { MANY_COLUMNS = 32 };  // of a product with many rows
enum { NARROW_ROWS = 32 };   // with more rows, narrow tiles are used only if a worker gets at most one, and tiles may be half wider
enum { UNIT_OF_ROWS = 8 };   // of which the rows are a multiple where tiles are half wider
enum { EMBED_COLUMNS = 16 }; // of which a tile of embed with many rows has a multiple
enum { SETTINGS = 6 };       // numbers that control how a row's token is chosen
enum { MOST_SAMPLED = 32 };  // most work tiles that sample from the head's logits
enum { EMBED_TILES = 16 };   // most work tiles of embed for few rows

static int tensor(struct mega_making *k, const char *name, enum mega_kind kind, const char *type, int rank, const int64_t *dim)
{
  struct mega_tensor t = {.name = name, .kind = kind, .type = mega_type_find(type), .rank = rank};
  memcpy(t.dim, dim, sizeof *dim * (size_t)rank);
  return mega_tensor_add(k->m, &t, NOWHERE, k->e);
}
#define TENSOR(name, kind, type, ...) TRY(tensor(k, name, kind, type, (int)COUNT(((int64_t[]){__VA_ARGS__})), (const int64_t[]){__VA_ARGS__}))

// Makes the last tensor a rank's part along a dimension: of each of n adjacent sections, or of the whole.
static void split(struct mega_making *k, int dim, int n, const int64_t *sections)
{
  struct mega_tensor *t = &k->m->tensor[k->m->ntensors - 1];
  if (k->world == 1) return;
  t->shard = (struct mega_shard){.n = n, .dim = dim, .size = {t->dim[dim]}};
  for (int i = 0; i < n && sections; i++) t->shard.size[i] = sections[i];
}

static int64_t qkv_of(const struct mega_making *k) { return (int64_t)(k->heads + 2 * k->kv) * k->c->dim; }

static void split_qkv(struct mega_making *k, int dim)
{
  int64_t d = k->c->dim, sections[MEGA_SECTIONS] = {k->heads * d, k->kv * d, k->kv * d};
  split(k, dim, MEGA_SECTIONS, sections);
}

static int add_weights(struct mega_making *k)
{
  const struct mega_config *c = k->c;
  const char *t = mega_types[c->type].name;
  int64_t L = c->layers, h = c->hidden;
  TENSOR("table", MEGA_WEIGHTS, t, c->vocab, h);
  if (!c->tied) {
    TENSOR("head_table", MEGA_WEIGHTS, t, k->vocab, h);
    split(k, 0, 1, NULL);
  }
  TENSOR("attn_norm", MEGA_WEIGHTS, t, L, h);
  TENSOR("Wqkv", MEGA_WEIGHTS, t, L, h, qkv_of(k));
  split_qkv(k, 2);
  if (c->qk_norm) {
    TENSOR("q_norm", MEGA_WEIGHTS, t, L, c->dim);
    TENSOR("k_norm", MEGA_WEIGHTS, t, L, c->dim);
  }
  TENSOR("Wo", MEGA_WEIGHTS, t, L, (int64_t)k->heads * c->dim, h);
  split(k, 1, 1, NULL);
  TENSOR("mlp_norm", MEGA_WEIGHTS, t, L, h);
  if (c->experts) {
    TENSOR("Wrouter", MEGA_WEIGHTS, t, L, h, c->experts);
    TENSOR("Wgate_up", MEGA_WEIGHTS, t, L, c->experts, 2, h, k->inner);
    TENSOR("Wdown", MEGA_WEIGHTS, t, L, c->experts, k->inner, h);
  } else {
    TENSOR("Wgate_up", MEGA_WEIGHTS, t, L, 2, h, k->inner);
    split(k, 3, 1, NULL);
    TENSOR("Wdown", MEGA_WEIGHTS, t, L, k->inner, h);
    split(k, 1, 1, NULL);
  }
  TENSOR("final_norm", MEGA_WEIGHTS, t, 1, h);
  return OK;
}

// The number of parts of equal width, at most `most`, none of them empty.
static int64_t parts_of(int64_t columns, int most, int64_t unit)
{
  int64_t width = (columns + most - 1) / most;
  width = (width + unit - 1) / unit * unit;
  return (columns + width - 1) / width;
}

static int64_t parts_of_argmax(const struct mega_making *k)
{
  return parts_of(k->vocab, k->s->pages ? MIN(k->s->workers, MOST_SAMPLED) : k->s->workers, 1);
}

// Adds the tokens, the cache, activations, logits and the settings of sampling.
static int add_others(struct mega_making *k)
{
  const struct mega_config *c = k->c;
  int64_t rows = k->s->rows, pages = (k->s->context + k->s->steps + PAGE - 1) / PAGE;
  int64_t slots = k->s->pages ? PAGE : MIN(PAGE, k->s->context + k->s->steps);
  TENSOR("token", MEGA_STATE, "i32", rows);
  TENSOR("cache", MEGA_STATE, mega_types[c->type].name, c->layers, k->s->pages ? k->s->pages : rows * pages, k->kv, 2, slots, c->dim);
  split(k, 2, 1, NULL);
  TENSOR("h", MEGA_ACTIVATION, "f32", rows, c->hidden);
  TENSOR("qkv", MEGA_ACTIVATION, "f32", rows, qkv_of(k));
  bool merged = k->s->parts > 1 && k->s->merge != MEGA_MERGE_PRODUCT;
  if (k->s->parts > 1) {
    TENSOR(merged ? "partial" : "attended", MEGA_ACTIVATION, "f32", rows, k->s->parts, (int64_t)k->heads * c->dim);
    TENSOR("divisor", MEGA_ACTIVATION, "f32", rows, k->s->parts, k->heads, 2);
  }
  if (k->s->parts == 1 || merged) TENSOR("attended", MEGA_ACTIVATION, "f32", rows, (int64_t)k->heads * c->dim);
  if (c->experts) {
    TENSOR("scores", MEGA_ACTIVATION, "f32", rows, c->experts);
    TENSOR("chosen", MEGA_ACTIVATION, "f32", rows, c->choices, 2);
    TENSOR("inner", MEGA_ACTIVATION, "f32", rows, c->choices, k->inner);
  } else
    TENSOR("inner", MEGA_ACTIVATION, "f32", rows, k->inner);
  TENSOR("logits", MEGA_OUTPUT, "f32", rows, k->vocab);
  split(k, 1, 1, NULL);
  if (k->s->pages) {
    TENSOR("settings", MEGA_INPUT, "f32", rows, SETTINGS);
    TENSOR("best", MEGA_ACTIVATION, "f32", rows, parts_of_argmax(k), MEGA_TOP, 2);
  } else
    TENSOR("best", MEGA_ACTIVATION, "f32", rows, parts_of_argmax(k), 2);
  return OK;
}

// Adds the partial sums of o and of down, and the part of a tied table for a rank's head. They follow the tensors that a single device has.
static int add_shared(struct mega_making *k)
{
  const struct mega_config *c = k->c;
  if (k->world == 1) return OK;
  k->m->tensor[mega_tensor_find(k->m, "best")].shared = true;
  TENSOR("o_parts", MEGA_ACTIVATION, "f32", k->s->rows, c->hidden);
  k->m->tensor[k->m->ntensors - 1].shared = true;
  TENSOR("down_parts", MEGA_ACTIVATION, "f32", k->s->rows, c->hidden);
  k->m->tensor[k->m->ntensors - 1].shared = true;
  if (!c->tied) return OK;
  TENSOR("head_table", MEGA_WEIGHTS, mega_types[c->type].name, k->vocab, c->hidden);
  split(k, 0, 1, NULL);
  k->m->tensor[k->m->ntensors - 1].like = mega_tensor_find(k->m, "table") + 1;
  return OK;
}

// ---- operators ----

static void attributes(const struct mega_making *k, double *a)
{
  const struct mega_config *c = k->c;
  a[MEGA_ATTR_heads] = k->heads, a[MEGA_ATTR_kv] = k->kv, a[MEGA_ATTR_dim] = c->dim, a[MEGA_ATTR_eps] = c->eps, a[MEGA_ATTR_theta] = c->theta;
  a[MEGA_ATTR_rope_factor] = c->rope_factor, a[MEGA_ATTR_rope_low] = c->rope_low, a[MEGA_ATTR_rope_high] = c->rope_high;
  a[MEGA_ATTR_rope_original] = c->rope_original;
}

// Adds an operator. Arguments are names in the order of the layer's row.
static int add_operator(struct mega_making *k, const char *name, const char *layer, int repeat, int64_t tiles, const char *const *args)
{
  struct mega_op op = {.name = name, .layer = mega_layer_find(layer), .repeat = repeat, .tiles = (int)MIN(tiles, MEGA_MOST_TILES + 1)};
  attributes(k, op.attr);
  for (int i = 0; args[i]; i++) op.arg[i] = mega_tensor_find(k->m, args[i]);
  return mega_op_add(k->m, &op, k->e);
}
#define OPERATOR(name, layer, repeat, tiles, ...) TRY(add_operator(k, name, layer, repeat, tiles, (const char *const[]){__VA_ARGS__, NULL}))

// Whether the input of products has too many rows to stay in a block's shared memory. Then each row is a column of one operand, and the weights fill
// the other operand.
static bool many_rows(const struct mega_making *k)
{
  return k->s->rows > 1 && mega_types[k->c->type].bits == 16 && !mega_few_values(k->s->rows, k->s->rows * (int64_t)k->c->hidden);
}

// The number of columns in the largest share of a worker.
static int64_t most_columns(const struct mega_making *k, int64_t tiles, int64_t each) { return (tiles + k->s->workers - 1) / k->s->workers * each; }

// The number of work tiles of `times` products with these columns. A wide tile has `each` columns. A narrow tile has half as many, and a wider one half
// as many again. They are used if that makes the largest share of a worker at least 5% smaller.
static int64_t tiles_of_width(const struct mega_making *k, int64_t columns, int64_t times, int64_t each)
{
  int64_t wide = (columns + each - 1) / each * times, narrow = (columns + each / 2 - 1) / (each / 2) * times, more = each + each / 2;
  int64_t most = most_columns(k, wide, each) * 95;
  if (each > COLUMNS && k->s->rows > NARROW_ROWS && narrow > k->s->workers) { // a narrow tile needs as much of the input as a wide one
    bool fits = columns % more == 0 && k->s->rows % UNIT_OF_ROWS == 0;
    return fits && most_columns(k, columns / more * times, more) * 100 <= most ? columns / more * times : wide;
  }
  return most_columns(k, narrow, each / 2) * 100 <= most ? narrow : wide;
}
static int64_t tiles_of(const struct mega_making *k, int64_t columns, int64_t times) { return tiles_of_width(k, columns, times, COLUMNS); }

// The number of work tiles of a product with all rows. `slices` columns of the weights make one column of the output.
static int64_t tiles_of_rows(const struct mega_making *k, int64_t columns, int slices)
{
  return tiles_of_width(k, columns, 1, many_rows(k) ? MANY_COLUMNS / slices : COLUMNS);
}

// With many rows, the tiles of embed are equally wide, and a product can read the sums of squares of a few columns.
static int64_t tiles_of_embed(const struct mega_making *k)
{
  int64_t tiles = MIN(tiles_of_rows(k, k->c->hidden, 1), many_rows(k) ? k->s->workers : EMBED_TILES);
  while (many_rows(k) && tiles > 1 && k->c->hidden % (tiles * EMBED_COLUMNS)) tiles--;
  return tiles;
}

// Attention over the cache. If it has parts, nothing waits for cache writes of this step: the first part computes this position's key and value from
// the projection, and a separate operator appends them: before attention, or after the parts are merged, where the next product waits for them.
static int attention(struct mega_making *k)
{
  int L = k->c->layers;
  bool parts = k->s->parts > 1, norm = k->c->qk_norm, merged = parts && k->s->merge != MEGA_MERGE_PRODUCT;
  static const char *const kinds[2][2] = {{"rotary", "qknorm_rotary"}, {"served", "qknorm_served"}}; // [requests share the cache][norms of heads]
  const char *kind = kinds[k->s->pages > 0][norm], *layer = arena_printf(k->mem, "%s_attention%s", kind, parts ? "_part" : "");
  const char *append[] = {"qkv", norm ? "k_norm" : "cache", norm ? "cache" : NULL, NULL}, *attend[8] = {"qkv"};
  int n = 1;
  if (norm) attend[n++] = "q_norm", attend[n++] = "k_norm";
  attend[n++] = "cache", attend[n++] = merged ? "partial" : "attended";
  if (parts) attend[n++] = "divisor";
  if (parts && !merged) TRY(add_operator(k, "append", arena_printf(k->mem, "%s_append", kind), L, 0, append));
  TRY(add_operator(k, "attend", layer, L, parts ? (int64_t)k->s->rows * k->kv * k->s->parts : 0, attend));
  if (!merged) return OK;
  OPERATOR("merge", "merge_parts", L, 0, "partial", "divisor", "attended");
  return add_operator(k, "append", arena_printf(k->mem, "%s_append", kind), L, 0, append);
}

// Products with a rank's rows of the weights. In a world, the ranks' partial sums are added before the residual.
static int attention_out(struct mega_making *k)
{
  int L = k->c->layers;
  int64_t tiles = tiles_of_rows(k, k->c->hidden, 1);
  bool parts = k->s->parts > 1 && k->s->merge == MEGA_MERGE_PRODUCT;
  if (k->world > 1 && parts)
    OPERATOR("o", "merge_linear", L, tiles, "attended", "divisor", "Wo", "o_parts");
  else if (k->world > 1)
    OPERATOR("o", "linear", L, tiles, "attended", "Wo", "o_parts");
  else if (parts)
    OPERATOR("o", "merge_linear_with_residual", L, tiles, "attended", "divisor", "Wo", "h", "h");
  else
    OPERATOR("o", "linear_with_residual", L, tiles, "attended", "Wo", "h", "h");
  if (k->world > 1) OPERATOR("o_sum", "add_slots", L, parts_of(k->c->hidden, k->s->workers, COLUMNS), "o_parts", "h", "h");
  return OK;
}

static int mlp_out(struct mega_making *k)
{
  int L = k->c->layers;
  int64_t tiles = tiles_of_rows(k, k->c->hidden, 1);
  if (k->world == 1) {
    OPERATOR("down", "linear_with_residual", L, tiles, "inner", "Wdown", "h", "h");
    return OK;
  }
  OPERATOR("down", "linear", L, tiles, "inner", "Wdown", "down_parts");
  OPERATOR("down_sum", "add_slots", L, parts_of(k->c->hidden, k->s->workers, COLUMNS), "down_parts", "h", "h");
  return OK;
}

// A work tile of gate_up has columns of one choice of a row. A work tile of down has columns of all choices of a row.
static int mlp_of_experts(struct mega_making *k)
{
  const struct mega_config *c = k->c;
  int L = c->layers;
  int64_t rows = k->s->rows;
  OPERATOR("router", "rmsnorm_linear", L, tiles_of_rows(k, c->experts, 1), "h", "mlp_norm", "Wrouter", "scores");
  OPERATOR("choose", "choose_experts", L, 0, "scores", "chosen");
  OPERATOR("gate_up", "rmsnorm_experts_gate_up", L, tiles_of(k, k->inner, rows * c->choices), "h", "mlp_norm", "chosen", "Wgate_up", "inner");
  OPERATOR("down", "experts_with_residual", L, tiles_of(k, c->hidden, rows), "inner", "chosen", "Wdown", "h", "h");
  return OK;
}

static int mlp(struct mega_making *k)
{
  if (k->c->experts) return mlp_of_experts(k);
  OPERATOR("gate_up", "rmsnorm_gate_up", k->c->layers, tiles_of_rows(k, k->inner, 2), "h", "mlp_norm", "Wgate_up", "inner");
  return mlp_out(k);
}

static int operators(struct mega_making *k)
{
  const struct mega_config *c = k->c;
  int L = c->layers;
  OPERATOR("embed", "embed", 0, tiles_of_embed(k), "token", "table", "h");
  OPERATOR("qkv", "rmsnorm_linear", L, tiles_of_rows(k, qkv_of(k), 1), "h", "attn_norm", "Wqkv", "qkv");
  TRY(attention(k));
  TRY(attention_out(k));
  TRY(mlp(k));
  OPERATOR("head", "rmsnorm_head", 0, tiles_of_rows(k, k->vocab, 1), "h", "final_norm", c->tied && k->world == 1 ? "table" : "head_table", "logits");
  if (k->s->pages) {
    OPERATOR("choices", "sample_partial", 0, parts_of_argmax(k), "logits", "settings", "best");
    OPERATOR("next", "sample", 0, 0, "best", "settings", "token");
    return OK;
  }
  OPERATOR("largest", "argmax_partial", 0, parts_of_argmax(k), "logits", "best");
  OPERATOR("next", "argmax", 0, 0, "best", "token");
  return OK;
}

// Divides heads, inner size and vocabulary into equal parts for the ranks. The error names all sizes that are no multiple of the world.
static int divide(struct mega_making *k)
{
  struct {
    const char *name;
    int of, *to;
  } parts[] = {{"num_key_value_heads", k->c->kv, &k->kv},
               {"num_attention_heads", k->c->heads, &k->heads},
               {"intermediate_size", k->c->inner, &k->inner},
               {"vocab_size", k->c->vocab, &k->vocab}};
  struct str bad = {0};
  int status = OK;
  for (size_t i = 0; i < COUNT(parts); i++) {
    *parts[i].to = parts[i].of / k->world;
    if (parts[i].of % k->world) str_add(&bad, "%s%s, which is %d", bad.n ? "; " : "", parts[i].name, parts[i].of);
  }
  if (bad.n) {
    status = err_set(k->e, ERR_MEGA, NOWHERE, "a world of %d does not divide %.300s", k->world, str_text(&bad));
    err_hint(k->e, "each rank must have the same number of heads, inner columns and rows of the head");
  }
  str_free(&bad);
  return status;
}

// The position for which a plan for requests is derived. If a row's share has two pages, the second step begins a page.
static int64_t served_context(const struct mega_sizes *s) { return (s->pages - 1) / s->rows > 1 ? PAGE - 1 : PAGE - 2; }

// The position for which the number of parts of attention is chosen: half of a row's share of the cache.
static int64_t usual_position(const struct mega_sizes *s) { return (s->pages - 1) / s->rows * PAGE / 2; }

int mega_from_config(struct arena *mem, const struct mega_config *c, const struct mega_sizes *given, struct mega_model **out, struct err *e)
{
  struct mega_model *m = *out = NEW(mem, struct mega_model);
  struct mega_sizes s = *given;
  struct mega_making k = {.mem = mem, .c = c, .s = &s, .m = m, .e = e, .world = MAX(given->world, 1)};
  if (!s.rows) s.rows = 1;
  if (!s.workers) s.workers = s.usual_workers ? s.usual_workers : MEGA_WORKERS;
  if (!s.stages) s.stages = MEGA_STAGES;
  if (!s.stage_bytes) s.stage_bytes = MEGA_STAGE;
  if (s.context < 0) s.context = s.pages ? served_context(&s) : MEGA_CONTEXT;
  s.steps = MAX(s.steps, MEGA_STEPS);
  *m = (struct mega_model){.name = c->name,
                           .rows = s.rows,
                           .workers = s.workers,
                           .stages = s.stages,
                           .stage_bytes = s.stage_bytes,
                           .input_bytes = s.input_bytes,
                           .context = s.context,
                           .world = k.world};
  if (s.rows < 1 || s.rows > MEGA_MOST_ROWS) return err_set(e, ERR_OPTION, NOWHERE, "--rows is %d; 1 to %d are supported", s.rows, MEGA_MOST_ROWS);
  if (s.pages < 0 || s.pages > 1 << 20) return err_set(e, ERR_OPTION, NOWHERE, "--pages is %d; 1 to %d are supported", s.pages, 1 << 20);
  if (s.context > MEGA_MOST_CONTEXT)
    return err_set(e, ERR_OPTION, NOWHERE, "--context is %lld; 0 to %d are supported", (long long)s.context, MEGA_MOST_CONTEXT);
  if (s.workers < 1 || s.workers > MEGA_MOST_WORKERS)
    return err_set(e, ERR_OPTION, NOWHERE, "--workers is %d; 1 to %d are supported", s.workers, MEGA_MOST_WORKERS);
  if (s.parts < 0 || s.parts > MEGA_MOST_PARTS)
    return err_set(e, ERR_OPTION, NOWHERE, "--attention-parts is %d; 1 to %d are supported", s.parts, MEGA_MOST_PARTS);
  if (k.world > MEGA_MOST_WORLD) return err_set(e, ERR_OPTION, NOWHERE, "--world is %d; 1 to %d are supported", k.world, MEGA_MOST_WORLD);
  if (k.world > 1 && s.pages) {
    err_set(e, ERR_OPTION, NOWHERE, "--pages needs one GPU, but --world is %d", k.world);
    return err_hint(e, "only one GPU can serve requests that share a cache"), USER;
  }
  if (k.world > 1 && c->experts) {
    err_set(e, ERR_OPTION, NOWHERE, "--world is %d, but the model has experts", k.world);
    return err_hint(e, "experts are only supported on one GPU"), USER;
  }
  TRY(divide(&k));
  if (!s.parts || (s.parts > 1 && s.merge == MEGA_MERGE_ANY)) {
    struct mega_sizes usual = s;
    if (s.pages) usual.pages = 0, usual.context = usual_position(&s);
    TRY(mega_parts_choose(c, &usual, e));
    s.parts = usual.parts, s.merge = usual.merge;
  }
  TRY(add_weights(&k));
  TRY(add_others(&k));
  TRY(add_shared(&k));
  return operators(&k);
}
