// Reads config.json of a transformer. Its fields are rows of config.def. One error lists all unknown or missing names.
#include "base/doc.h"
#include "base/num.h"
#include "mega/mega.h"

#include <string.h>

enum { NEEDED, TAKEN, IGNORED };
static const struct mega_field {
  const char *name;
  int use;
} fields[] = {
#define CONFIG_FIELD(name, use) {#name, use},
#include "mega/config.def"
};

static const struct mega_field *field(const char *name)
{
  for (size_t i = 0; i < COUNT(fields); i++)
    if (!strcmp(fields[i].name, name)) return &fields[i];
  return NULL;
}

static int check_names(const json_t *o, struct loc at, struct err *e)
{
  struct str unknown = {0}, missing = {0};
  const char *key;
  json_t *v;
  json_object_foreach((json_t *)o, key, v) if (!field(key)) str_add(&unknown, "%s%.40s", unknown.n ? ", " : "", key);
  for (size_t i = 0; i < COUNT(fields); i++)
    if (fields[i].use == NEEDED && !json_object_get(o, fields[i].name)) str_add(&missing, "%s%s", missing.n ? ", " : "", fields[i].name);
  int status = OK;
  if (missing.n)
    status = err_set(e, ERR_MEGA, at, "the configuration lacks %.500s", str_text(&missing));
  else if (unknown.n)
    status = err_set(e, ERR_MEGA, at, "the configuration has fields whose meaning is unknown: %.500s", str_text(&unknown)),
    err_hint(e, "remove fields that do not change the results of a step");
  str_free(&unknown), str_free(&missing);
  return status;
}

// Reads a positive integer. `otherwise` is the value of a field that is missing or null; 0 means that the field is required.
static int read_integer(const json_t *o, const char *name, int otherwise, int *out, struct loc at, struct err *e)
{
  const json_t *v = json_object_get(o, name);
  *out = otherwise;
  if (!v || json_is_null(v)) return otherwise ? OK : err_set(e, ERR_MEGA, at, "the configuration lacks %s", name);
  json_int_t x = json_is_integer(v) ? json_integer_value(v) : 0;
  if (x < 1 || x > MEGA_MOST_NUMBER) return err_set(e, ERR_MEGA, at, "%s is not an integer from 1 to %d", name, MEGA_MOST_NUMBER);
  return *out = (int)x, OK;
}

// Reads a number above 0. `otherwise` is the value of a missing field.
static int read_number(const json_t *o, const char *name, double otherwise, double *out, struct loc at, struct err *e)
{
  const json_t *v = json_object_get(o, name);
  *out = v && json_is_number(v) ? json_number_value(v) : otherwise;
  if (v && (!json_is_number(v) || !(*out > 0))) return err_set(e, ERR_MEGA, at, "%s is not a number above 0", name);
  return OK;
}

static bool is_true(const json_t *o, const char *name) { return json_is_true(json_object_get(o, name)); }

static const struct family {
  const char *type; // the value of model_type
  bool qk_norm, experts;
} families[] = {{"llama", false, false}, {"qwen3", true, false}, {"qwen3_moe", true, true}};

static const struct family *family_of(const json_t *o)
{
  const char *type = json_string_value(json_object_get(o, "model_type"));
  for (size_t i = 0; i < COUNT(families); i++)
    if (type && !strcmp(families[i].type, type)) return &families[i];
  return NULL;
}

static int unknown_family(const char *type, struct loc at, struct err *e)
{
  struct str known = {0};
  for (size_t i = 0; i < COUNT(families); i++) str_add(&known, "%s%s", i ? ", " : "", families[i].type);
  err_set(e, ERR_MEGA, at, "model_type is %.40s; supported are %s", type ? type : "missing", str_text(&known));
  return str_free(&known), (int)e->status;
}

// Rejects settings of models that are not supported.
static int check_supported(const json_t *o, struct loc at, struct err *e)
{
  static const char *const off[] = {"attention_bias", "mlp_bias", "use_sliding_window"};
  const char *act = json_string_value(json_object_get(o, "hidden_act")), *type = json_string_value(json_object_get(o, "model_type"));
  for (size_t i = 0; i < COUNT(off); i++)
    if (is_true(o, off[i])) return err_set(e, ERR_MEGA, at, "%s is set, but no layer supports it", off[i]);
  if (act && strcmp(act, "silu")) return err_set(e, ERR_MEGA, at, "hidden_act is %.40s, but the layers only support silu", act);
  return family_of(o) ? OK : unknown_family(type, at, e);
}

static int read_rope(const json_t *o, struct mega_config *c, struct loc at, struct err *e)
{
  const json_t *s = json_object_get(o, "rope_scaling");
  if (!s || json_is_null(s)) return OK;
  const char *type = json_string_value(json_object_get(s, "rope_type"));
  if (!type || strcmp(type, "llama3"))
    return err_set(e, ERR_MEGA, at, "rope_scaling is %.40s; llama3 is supported", type ? type : "without a rope_type");
  TRY(read_number(s, "factor", 1, &c->rope_factor, at, e));
  TRY(read_number(s, "low_freq_factor", 1, &c->rope_low, at, e));
  TRY(read_number(s, "high_freq_factor", 4, &c->rope_high, at, e));
  TRY(read_number(s, "original_max_position_embeddings", 8192, &c->rope_original, at, e));
  return c->rope_high > c->rope_low ? OK : err_set(e, ERR_MEGA, at, "rope_scaling: high_freq_factor is not above low_freq_factor");
}

static int read_type(const json_t *o, struct mega_config *c, struct loc at, struct err *e)
{
  const json_t *v = json_object_get(o, "torch_dtype");
  const char *field = v ? "torch_dtype" : "dtype", *name = json_string_value(json_object_get(o, field));
  c->type = BF16;
  for (int t = 0; name && t < DTYPES; t++)
    if (!strcmp(num_rows[t].array, name) && !num_whole((enum dtype)t)) return c->type = t, OK;
  return name ? err_set(e, ERR_MEGA, at, "%s is %.40s, which is not a type of weights", field, name) : OK;
}

// All layers must have experts, and the weights of the chosen ones must be normalized.
static int read_experts(const json_t *o, struct mega_config *c, struct loc at, struct err *e)
{
  const json_t *dense = json_object_get(o, "mlp_only_layers");
  int step;
  TRY(read_integer(o, "num_experts", 0, &c->experts, at, e));
  TRY(read_integer(o, "num_experts_per_tok", 0, &c->choices, at, e));
  TRY(read_integer(o, "moe_intermediate_size", 0, &c->inner, at, e));
  TRY(read_integer(o, "decoder_sparse_step", 1, &step, at, e));
  if (!is_true(o, "norm_topk_prob"))
    return err_set(e, ERR_MEGA, at, "norm_topk_prob is not set, but only normalized weights of chosen experts are supported");
  if (step != 1) return err_set(e, ERR_MEGA, at, "decoder_sparse_step is %d; only 1 is supported: all layers have experts", step);
  if (dense && !json_is_null(dense) && (!json_is_array(dense) || json_array_size(dense)))
    return err_set(e, ERR_MEGA, at, "mlp_only_layers names layers without experts; only models with experts in all layers are supported");
  if (c->choices > c->experts) return err_set(e, ERR_MEGA, at, "num_experts_per_tok is %d, but num_experts is %d", c->choices, c->experts);
  return OK;
}

static int read_fields(const json_t *o, struct mega_config *c, struct loc at, struct err *e)
{
  TRY(read_integer(o, "hidden_size", 0, &c->hidden, at, e));
  TRY(read_integer(o, "intermediate_size", 0, &c->inner, at, e));
  TRY(read_integer(o, "num_hidden_layers", 0, &c->layers, at, e));
  TRY(read_integer(o, "num_attention_heads", 0, &c->heads, at, e));
  TRY(read_integer(o, "vocab_size", 0, &c->vocab, at, e));
  TRY(read_integer(o, "num_key_value_heads", c->heads, &c->kv, at, e));
  TRY(read_integer(o, "head_dim", MAX(1, c->hidden / c->heads), &c->dim, at, e));
  TRY(read_number(o, "rms_norm_eps", 1e-6, &c->eps, at, e));
  TRY(read_number(o, "rope_theta", 10000, &c->theta, at, e));
  if (c->heads % c->kv) return err_set(e, ERR_MEGA, at, "%d attention heads are not a multiple of %d key-value heads", c->heads, c->kv);
  if (c->dim % 2) return err_set(e, ERR_MEGA, at, "head_dim is %d, but a rotary embedding needs an even number", c->dim);
  if (c->layers > MEGA_MOST_LAYERS) return err_set(e, ERR_LIMIT, at, "%d layers; at most %d are supported", c->layers, MEGA_MOST_LAYERS);
  c->tied = is_true(o, "tie_word_embeddings");
  const struct family *f = family_of(o);
  const json_t *n = json_object_get(o, "num_experts");
  c->qk_norm = f->qk_norm;
  if (f->experts)
    TRY(read_experts(o, c, at, e));
  else if (n && !json_is_null(n))
    return err_set(e, ERR_MEGA, at, "num_experts is set, but a %s has no experts", f->type);
  TRY(read_rope(o, c, at, e));
  return read_type(o, c, at, e);
}

int mega_config_read(struct arena *mem, const char *text, size_t n, const char *file, struct mega_config *out, struct err *e)
{
  json_error_t why;
  json_t *o = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
  struct loc at = {file, 0, 0};
  *out = (struct mega_config){.name = "model"};
  (void)mem;
  if (!o) return err_set(e, ERR_JSON, (struct loc){file, why.line, why.column}, "%.200s", why.text);
  int status = json_is_object(o) ? check_names(o, at, e) : err_set(e, ERR_MEGA, at, "a configuration is a JSON object");
  if (status == OK) status = check_supported(o, at, e);
  if (status == OK) status = read_fields(o, out, at, e);
  doc_done(o);
  return status;
}
