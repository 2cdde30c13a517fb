// program.json, the data for users of the driver. Its launches are those of the device program. It has the machine code, or the reason why not.
#include "../graphs.h"
#include "drive/drive.h"
#include "export/export.h"
#include "export/manifest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct {
  const char *name, *text, *scheme; // of all kernels; NULL: the best
  int products, maps;               // at least so many
} programs[] = {
    {"rows", "program g() {\n X: f16[6, 40]\n R: f32[40]\n return X * R, sum(X, dim=1)\n}\n", NULL, 0, 0},
    {"a product and what follows", "program g() {\n A: f16[16, 32]\n B: f16[32, 24]\n c: f16[24]\n return relu(matmul(A, B) + c)\n}\n", NULL, 1, 0},
    {"products between",
     "program g() {\n Q: f16[2, 4, 16]\n K: f16[2, 16, 24]\n V: f16[2, 24, 8]\n return matmul(softmax(matmul(Q, K), dim=2), V)\n}\n", NULL, 2, 0},
    {"a product with its epilogue", "program g() {\n A: f16[16, 32]\n B: f16[32, 24]\n C: f16[16, 24]\n return matmul(A, B) - C\n}\n", NULL, 1, 0},
    {"a product with a bias", "program g() {\n A: f16[16, 32]\n B: f16[32, 24]\n c: f16[24]\n return matmul(A, B) + c\n}\n", NULL, 1, 0},
    {"tensor maps",
     "graph g {\n A: f16[64, 128]\n B: f16[128, 64]\n O = block(; i=2) {\n a = iter(A, fmap={i:1})\n b = iter(B, fmap={i:0})\n"
     "save(relu(accum(matmul(a, b))))\n }\n return O\n}\n",
     "wgmma groups=1 stages=2", 0, 2},
};

static void made(struct arena *mem, const char *text, const char *scheme, struct device_program *d)
{
  struct err e = {0};
  struct lower_plan p;
  struct target *gpu = NEW(mem, struct target);
  assert_int_equal(target_open("sm_90a", 1, true, gpu, &e), OK);
  struct graph *g = graph_of(mem, text);
  assert_int_equal(graph_expand(mem, g, true, &g, &e), OK);
  if (lower_plan(mem, g, gpu, &(struct lower_opts){.tails = true, .dependent = true}, &p, &e) != OK) fail_msg("%s", e.text);
  struct choice *pick = NEWS(mem, struct choice, p.nunits + 1);
  for (int i = 0; i < p.nunits; i++) {
    if (p.unit[i].nchoices) pick[i] = p.unit[i].choice[0];
    if (scheme) assert_true(scheme_parse(scheme, &pick[i]));
  }
  if (lower_make(mem, &p, pick, d, &e) != OK) fail_msg("%s", e.text);
}

// Machine code that is the name of its kernel; a kernel whose source has the word is refused.
static int named(const void *arg, struct arena *mem, const char *name, const char *source, int arch, struct cubin *out, struct err *e)
{
  (void)arch;
  if (arg && strstr(source, arg)) return err_set(e, ERR_COMPILER, NOWHERE, "%s is refused", name);
  *out = (struct cubin){.bytes = arena_strdup(mem, name), .n = strlen(name) + 1, .ptx = "", .log = ""};
  return OK;
}

static json_int_t whole(const json_t *o, const char *key)
{
  assert_true(json_is_integer(json_object_get(o, key)));
  return json_integer_value(json_object_get(o, key));
}

static json_t *parsed(const struct manifest *m)
{
  json_error_t error;
  json_t *doc = json_loads(m->json.p, 0, &error);
  if (!doc) fail_msg("%s", error.text);
  return doc;
}

// ---- arguments ----

static int64_t tensor_bytes(const json_t *t)
{
  int64_t n = strcmp(json_string_value(json_object_get(t, "dtype")), "f32") ? 2 : 4;
  size_t i;
  json_t *d;
  json_array_foreach(json_object_get(t, "shape"), i, d) n *= json_integer_value(d);
  return n;
}

// All elements that the kernel may touch are in the place.
static void in_range(const json_t *doc, const json_t *a, const struct launch_arg *want)
{
  static const char *const kinds[] = {[PLACE_INPUT] = "input", [PLACE_OUTPUT] = "output", [PLACE_WORK] = "workspace"};
  const char *place = json_string_value(json_object_get(a, "place"));
  int64_t size = whole(doc, "workspace"), from = whole(a, "offset");
  size_t index = (size_t)whole(a, "index");
  assert_string_equal(place, kinds[want->at.kind]);
  if (want->at.kind != PLACE_WORK) {
    const json_t *all = json_object_get(doc, want->at.kind == PLACE_INPUT ? "inputs" : "outputs");
    assert_in_range(index, 0, json_array_size(all) - 1);
    assert_int_equal(index, want->at.index);
    size = tensor_bytes(json_array_get(all, index));
  }
  assert_true(from >= 0 && from + want->elements * tile_types[want->type].bytes <= size);
}

static void map_fits(const json_t *map, const struct launch *l)
{
  const json_t *size = json_object_get(map, "size"), *stride = json_object_get(map, "stride"), *box = json_object_get(map, "box");
  size_t rank = json_array_size(size), arg = (size_t)whole(map, "arg");
  assert_in_range(arg, 0, l->nargs - 1);
  assert_in_range(rank, 1, 5);
  assert_int_equal(json_array_size(stride), rank);
  assert_int_equal(json_array_size(box), rank);
  int64_t last = json_integer_value(json_array_get(size, 0)) * 2;
  for (size_t i = 0; i < rank; i++) {
    int64_t n = json_integer_value(json_array_get(size, i)), b = json_integer_value(json_array_get(box, i)),
            s = json_integer_value(json_array_get(stride, i));
    assert_in_range(b, 1, 256);
    if (i) assert_true(s > 0 && s % 16 == 0), last += (n - 1) * s;
  }
  assert_string_equal(json_string_value(json_object_get(map, "type")), "fp16");
  assert_int_equal(last, l->arg[arg].elements * 2); // the whole buffer
}

// ---- launches ----

static const struct folder_file *cubin_of(const struct manifest *m, const char *file)
{
  for (int i = 0; i < m->n; i++)
    if (!strcmp(m->cubin[i].name, file)) return &m->cubin[i];
  fail_msg("no file %s", file);
  return NULL;
}

static void kernel_fits(const struct manifest *m, const json_t *v, const struct launch *l)
{
  const json_t *file = json_object_get(v, "cubin");
  const char *name = json_string_value(json_object_get(v, "kernel"));
  const json_int_t shared = whole(v, "shared");
  assert_non_null(name);
  assert_in_range(whole(v, "grid"), 1, INT32_MAX);
  assert_in_range(whole(v, "block"), 1, 1024);
  assert_int_equal(shared, l->k->shared_bytes);
  assert_int_equal(whole(v, "grid") % whole(v, "cluster"), 0);
  assert_true(json_is_true(json_object_get(v, "dependent"))); // all kernels wait
  assert_int_equal(json_array_size(json_object_get(v, "maps")), l->k->nmaps);
  if (m->missing)
    assert_true(json_is_null(file));
  else
    assert_string_equal(cubin_of(m, json_string_value(file))->bytes, name); // as the compiler of this test has it
}

static void product_fits(const json_t *v, const struct launch *l)
{
  const json_t *p = json_object_get(v, "product");
  const int64_t extent[] = {l->mul.batch, l->mul.m, l->mul.n, l->mul.k};
  static const char *const keys[] = {"batch", "m", "n", "k"};
  for (int i = 0; i < 4; i++) assert_int_equal(whole(p, keys[i]), extent[i]);
  size_t given = 0;
  for (int o = 0; o < BLAS_OPERANDS; o++) {
    if (!blas_has(&l->mul, o)) continue;
    const size_t i = given++;
    const json_t *stride = json_array_get(json_object_get(p, "stride"), i);
    for (size_t k = 0; k < 3; k++) assert_int_equal(json_integer_value(json_array_get(stride, k)), l->mul.stride[o][k]);
    assert_string_equal(json_string_value(json_array_get(json_object_get(p, "type"), i)), tile_types[l->arg[i].type].name);
  }
  assert_int_equal(json_array_size(json_object_get(p, "stride")), l->nargs);
  assert_string_equal(json_string_value(json_object_get(p, "epilogue")), blas_epilogue_name(l->mul.epilogue));
  assert_true(json_number_value(json_object_get(p, "alpha")) == (double)l->mul.alpha &&
              json_number_value(json_object_get(p, "beta")) == (double)l->mul.beta);
}

static void check(const struct manifest *m, const struct device_program *d, int *products, int *maps)
{
  json_t *doc = parsed(m), *v, *x;
  size_t i, k;
  *products = *maps = 0;
  assert_string_equal(json_string_value(json_object_get(doc, "arch")), "sm_90a");
  assert_int_equal(json_array_size(json_object_get(doc, "launches")), d->nlaunch);
  assert_int_equal(whole(doc, "workspace"), d->workspace);
  assert_true(!m->missing == json_is_null(json_object_get(doc, "missing")));
  json_array_foreach(json_object_get(doc, "launches"), i, v)
  {
    const struct launch *l = &d->launch[i];
    assert_int_equal(json_array_size(json_object_get(v, "args")), l->nargs);
    json_array_foreach(json_object_get(v, "args"), k, x) in_range(doc, x, &l->arg[k]);
    json_array_foreach(json_object_get(v, "maps"), k, x) map_fits(x, l);
    if (l->product)
      product_fits(v, l), ++*products;
    else
      kernel_fits(m, v, l), *maps += l->k->nmaps;
  }
  json_decref(doc);
}

static void says_what_is_launched(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(programs); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct device_program d;
    struct manifest m;
    const struct gpu_compiler by = {.compile = named};
    int products, maps;
    made(&mem, programs[i].text, programs[i].scheme, &d);
    struct gpu_forge *forge = gpu_forge_open(&(struct gpu_forge_opts){.by = &by});
    assert_int_equal(manifest_make(&mem, &d, "g", &(struct manifest_by){.forge = forge}, &m, &e), OK);
    gpu_forge_close(forge);
    assert_null(m.missing);
    check(&m, &d, &products, &maps);
    if (products < programs[i].products || maps < programs[i].maps) fail_msg("%s: %d products, %d tensor maps", programs[i].name, products, maps);
    manifest_free(&m);
    arena_close(&mem);
  }
}

static void says_why_there_is_no_machine_code(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct device_program d;
  struct manifest m;
  struct str readme = {0};
  const struct gpu_compiler by = {.compile = named, .arg = "__global__"};
  int products, maps;
  made(&mem, programs[1].text, NULL, &d);
  struct gpu_forge *forge = gpu_forge_open(&(struct gpu_forge_opts){.by = &by});
  assert_int_equal(manifest_make(&mem, &d, "g", &(struct manifest_by){.forge = forge}, &m, &e), OK);
  gpu_forge_close(forge);
  assert_int_equal(m.n, 0);
  assert_non_null(strstr(m.missing, "is refused"));
  assert_non_null(strstr(m.json.p, "is refused"));
  check(&m, &d, &products, &maps);
  manifest_readme(&m, &readme);
  assert_non_null(strstr(str_text(&readme), "is refused"));
  str_free(&readme);
  manifest_free(&m);
  arena_close(&mem);
}

// A state is input and output; without memory of its own for the output nothing is copied.
static void says_what_is_left_of_a_state(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct device_program d;
  struct manifest m;
  struct exported x;
  made(&mem, "program g() {\n at: i32[2] < 16, distinct\n K: f16[16, 8] state\n y: f16[2, 8]\n K[at] = y\n return sum(K, dim=1)\n}\n", NULL, &d);
  struct gpu_forge *forge = gpu_forge_open(&(struct gpu_forge_opts){.by = &(struct gpu_compiler){.compile = named}});
  assert_int_equal(manifest_make(&mem, &d, "g", &(struct manifest_by){.forge = forge}, &m, &e), OK);
  gpu_forge_close(forge);
  json_t *doc = parsed(&m), *left = json_array_get(json_object_get(doc, "outputs"), 1);
  assert_int_equal(whole(left, "state"), 2);
  assert_null(json_object_get(json_array_get(json_object_get(doc, "outputs"), 0), "state"));
  json_decref(doc);
  assert_int_equal(export_device(&mem, &d, "g", &x, &e), OK);
  assert_non_null(strstr(str_text(&x.source), "if (outputs[1] != inputs[1]) {"));
  assert_non_null(strstr(str_text(&x.source), "cudaMemcpyAsync(outputs[1], inputs[1], 256, "));
  assert_null(strstr(str_text(&x.source), "if (outputs[0]"));
  assert_non_null(strstr(str_text(&x.header), "outputs[1] is the state inputs[1] after the call"));
  export_free(&x), manifest_free(&m), arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(says_what_is_launched), cmocka_unit_test(says_why_there_is_no_machine_code),
                                     cmocka_unit_test(says_what_is_left_of_a_state)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
