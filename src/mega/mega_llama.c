// A model of the family of Llama and Qwen3 as layers: embed, and for each layer norm + qkv, rotation with cache and attention, o + residual,
// norm + gate and up, down + residual; then the head and the largest logit.
#include "mega/mega.h"

#include <string.h>

struct mega_making {
  struct arena *mem;
  const struct mega_config *c;
  const struct mega_sizes *s;
  struct mega_model *m;
  struct err *e;
};
enum { PAGE = 64, COLUMNS = 8 }; // positions of a page; columns of a work tile of a product

static int tensor(struct mega_making *k, const char *name, enum mega_kind kind, const char *type, int rank, const int64_t *dim)
{
  struct mega_tensor t = {.name = name, .kind = kind, .type = mega_type_find(type), .rank = rank};
  memcpy(t.dim, dim, sizeof *dim * (size_t)rank);
  return mega_tensor_add(k->m, &t, NOWHERE, k->e);
}
#define TENSOR(name, kind, type, ...) TRY(tensor(k, name, kind, type, (int)COUNT(((int64_t[]){__VA_ARGS__})), (const int64_t[]){__VA_ARGS__}))

static int add_weights(struct mega_making *k)
{
  const struct mega_config *c = k->c;
  const char *t = mega_types[c->type].name;
  int64_t qkv = (int64_t)(c->heads + 2 * c->kv) * c->dim, L = c->layers, h = c->hidden;
  TENSOR("table", MEGA_WEIGHTS, t, c->vocab, h);
  if (!c->tied) TENSOR("head_table", MEGA_WEIGHTS, t, c->vocab, h);
  TENSOR("attn_norm", MEGA_WEIGHTS, t, L, h);
  TENSOR("Wqkv", MEGA_WEIGHTS, t, L, h, qkv);
  if (c->qk_norm) {
    TENSOR("q_norm", MEGA_WEIGHTS, t, L, c->dim);
    TENSOR("k_norm", MEGA_WEIGHTS, t, L, c->dim);
  }
  TENSOR("Wo", MEGA_WEIGHTS, t, L, (int64_t)c->heads * c->dim, h);
  TENSOR("mlp_norm", MEGA_WEIGHTS, t, L, h);
  TENSOR("Wgate_up", MEGA_WEIGHTS, t, L, 2, h, c->inner);
  TENSOR("Wdown", MEGA_WEIGHTS, t, L, c->inner, h);
  TENSOR("final_norm", MEGA_WEIGHTS, t, 1, h);
  return OK;
}

static int64_t parts_of_argmax(const struct mega_making *k)
{
  int64_t width = (k->c->vocab + k->s->workers - 1) / k->s->workers;
  return (k->c->vocab + width - 1) / width;
}

static int others(struct mega_making *k)
{
  const struct mega_config *c = k->c;
  int64_t rows = k->s->rows, pages = (k->s->context + k->s->steps + PAGE - 1) / PAGE;
  int64_t slots = MIN(PAGE, k->s->context + k->s->steps);
  TENSOR("token", MEGA_STATE, "i32", rows);
  TENSOR("cache", MEGA_STATE, mega_types[c->type].name, c->layers, rows * pages, c->kv, 2, slots, c->dim);
  TENSOR("h", MEGA_ACTIVATION, "f32", rows, c->hidden);
  TENSOR("qkv", MEGA_ACTIVATION, "f32", rows, (int64_t)(c->heads + 2 * c->kv) * c->dim);
  if (k->s->parts > 1) {
    TENSOR("attended", MEGA_ACTIVATION, "f32", rows, k->s->parts, (int64_t)c->heads * c->dim);
    TENSOR("divisor", MEGA_ACTIVATION, "f32", rows, k->s->parts, c->heads, 2);
  } else
    TENSOR("attended", MEGA_ACTIVATION, "f32", rows, (int64_t)c->heads * c->dim);
  TENSOR("inner", MEGA_ACTIVATION, "f32", rows, c->inner);
  TENSOR("logits", MEGA_OUTPUT, "f32", rows, c->vocab);
  TENSOR("best", MEGA_ACTIVATION, "f32", rows, parts_of_argmax(k), 2);
  return OK;
}

// ---- operators ----

static void attributes(const struct mega_config *c, double *a)
{
  a[MEGA_ATTR_heads] = c->heads, a[MEGA_ATTR_kv] = c->kv, a[MEGA_ATTR_dim] = c->dim, a[MEGA_ATTR_eps] = c->eps, a[MEGA_ATTR_theta] = c->theta;
  a[MEGA_ATTR_rope_factor] = c->rope_factor, a[MEGA_ATTR_rope_low] = c->rope_low, a[MEGA_ATTR_rope_high] = c->rope_high;
  a[MEGA_ATTR_rope_original] = c->rope_original;
}

// Arguments by name, in the order of the layer's row.
static int add_operator(struct mega_making *k, const char *name, const char *layer, int repeat, int64_t tiles, const char *const *args)
{
  struct mega_op op = {.name = name, .layer = mega_layer_find(layer), .repeat = repeat, .tiles = (int)MIN(tiles, MEGA_MOST_TILES + 1)};
  attributes(k->c, op.attr);
  for (int i = 0; args[i]; i++) op.arg[i] = mega_tensor_find(k->m, args[i]);
  return mega_op_add(k->m, &op, k->e);
}
#define OPERATOR(name, layer, repeat, tiles, ...) TRY(add_operator(k, name, layer, repeat, tiles, (const char *const[]){__VA_ARGS__, NULL}))

static int64_t tiles_of(int64_t columns) { return (columns + COLUMNS - 1) / COLUMNS; }

// Nobody waits for the cache in this step: the first part of the positions has this position's key and value as the projection made them.
static int attention_in_parts(struct mega_making *k)
{
  const struct mega_config *c = k->c;
  int L = c->layers;
  int64_t tiles = (int64_t)k->s->rows * c->kv * k->s->parts;
  if (c->qk_norm) {
    OPERATOR("append", "qknorm_rotary_append", L, 0, "qkv", "k_norm", "cache");
    OPERATOR("attend", "qknorm_rotary_attention_part", L, tiles, "qkv", "q_norm", "k_norm", "cache", "attended", "divisor");
  } else {
    OPERATOR("append", "rotary_append", L, 0, "qkv", "cache");
    OPERATOR("attend", "rotary_attention_part", L, tiles, "qkv", "cache", "attended", "divisor");
  }
  return OK;
}

static int operators(struct mega_making *k)
{
  const struct mega_config *c = k->c;
  int L = c->layers;
  int64_t qkv = (int64_t)(c->heads + 2 * c->kv) * c->dim, hidden = tiles_of(c->hidden);
  OPERATOR("embed", "embed", 0, MIN(hidden, 16), "token", "table", "h");
  OPERATOR("qkv", "rmsnorm_linear", L, tiles_of(qkv), "h", "attn_norm", "Wqkv", "qkv");
  if (k->s->parts > 1)
    TRY(attention_in_parts(k));
  else if (c->qk_norm)
    OPERATOR("attend", "qknorm_rotary_attention", L, 0, "qkv", "q_norm", "k_norm", "cache", "attended");
  else
    OPERATOR("attend", "rotary_attention", L, 0, "qkv", "cache", "attended");
  if (k->s->parts > 1)
    OPERATOR("o", "merge_linear_with_residual", L, hidden, "attended", "divisor", "Wo", "h", "h");
  else
    OPERATOR("o", "linear_with_residual", L, hidden, "attended", "Wo", "h", "h");
  OPERATOR("gate_up", "rmsnorm_gate_up", L, tiles_of(c->inner), "h", "mlp_norm", "Wgate_up", "inner");
  OPERATOR("down", "linear_with_residual", L, hidden, "inner", "Wdown", "h", "h");
  OPERATOR("head", "rmsnorm_head", 0, tiles_of(c->vocab), "h", "final_norm", c->tied ? "table" : "head_table", "logits");
  OPERATOR("largest", "argmax_partial", 0, parts_of_argmax(k), "logits", "best");
  OPERATOR("next", "argmax", 0, 0, "best", "token");
  return OK;
}

int mega_from_config(struct arena *mem, const struct mega_config *c, const struct mega_sizes *given, struct mega_model **out, struct err *e)
{
  struct mega_model *m = *out = NEW(mem, struct mega_model);
  struct mega_sizes s = *given;
  struct mega_making k = {mem, c, &s, m, e};
  s.rows += !s.rows,
      s.workers += s.workers         ? 0
                   : s.usual_workers ? s.usual_workers
                                     : MEGA_WORKERS,
      s.stages += s.stages ? 0 : MEGA_STAGES, s.stage_bytes += s.stage_bytes ? 0 : MEGA_STAGE;
  s.steps = MAX(s.steps, MEGA_STEPS), s.context = s.context < 0 ? MEGA_CONTEXT : s.context;
  *m = (struct mega_model){
      .name = c->name, .rows = s.rows, .workers = s.workers, .stages = s.stages, .stage_bytes = s.stage_bytes, .context = s.context};
  if (s.rows < 1 || s.rows > MEGA_MOST_ROWS) return err_set(e, ERR_OPTION, NOWHERE, "--rows is %d; 1 to %d are supported", s.rows, MEGA_MOST_ROWS);
  if (s.workers < 1 || s.workers > MEGA_MOST_WORKERS)
    return err_set(e, ERR_OPTION, NOWHERE, "--workers is %d; 1 to %d are supported", s.workers, MEGA_MOST_WORKERS);
  if (s.parts < 0 || s.parts > MEGA_MOST_PARTS)
    return err_set(e, ERR_OPTION, NOWHERE, "--attention-parts is %d; 1 to %d are supported", s.parts, MEGA_MOST_PARTS);
  if (!s.parts) TRY(mega_parts_choose(c, &s, &s.parts, e));
  TRY(add_weights(&k));
  TRY(others(&k));
  return operators(&k);
}
