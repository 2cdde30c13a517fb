// Programs that run: of a report, of a saved folder, from many threads; what a folder may hold and must not; and on a driver that has no
// GPU behind it, the launches of program.json in the caller's stream.
#include "core/context.h"
#include "core/package.h"
#include "folder.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 8, N = 64 };
static const char soft[] = "program soft() {\n  X: f32[8, 64]\n  E = exp(X)\n  return E / sum(E, dim=1)\n}\n";

static const char *in_folder(const char *name)
{
  static char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static struct mica_report *optimized(struct mica_context *m)
{
  struct mica_program *p;
  struct mica_report *r;
  struct mica_options o = mica_options_default();
  static char db[512];
  snprintf(db, sizeof db, "%s/mica.db", folder);
  o.db = db, o.seconds = 0.05, o.measure = 1, o.threads = 1;
  if (mica_load_text(m, soft, "soft.mica", 0, NULL, &p) || mica_optimize(m, p, &o, &r)) fail_msg("%s", mica_error(m));
  return r;
}

static void softmax(struct mica_module *x, int seed)
{
  float in[ROWS * N], out[ROWS * N];
  const void *from[] = {in};
  void *to[] = {out};
  for (int i = 0; i < ROWS * N; i++) in[i] = (float)((i * 37 + seed * 11) % 101) / 50 - 1, out[i] = NAN;
  assert_int_equal(mica_module_call(x, from, to, NULL, NULL), MICA_OK);
  for (int r = 0; r < ROWS; r++) {
    double sum = 0;
    for (int i = 0; i < N; i++) sum += exp((double)in[r * N + i]);
    for (int i = 0; i < N; i++) assert_true(fabs((double)out[r * N + i] - exp((double)in[r * N + i]) / sum) < 1e-5);
  }
}

static void is_soft(struct mica_module *x)
{
  assert_string_equal(mica_module_name(x), "soft");
  assert_string_equal(mica_module_target(x), "cpu");
  assert_int_equal(mica_module_inputs(x), 1);
  assert_int_equal(mica_module_outputs(x), 1);
  struct mica_tensor t = mica_module_input(x, 0);
  assert_string_equal(t.name, "X");
  assert_true(t.dtype == MICA_F32 && t.ndim == 2 && t.shape[0] == ROWS && t.shape[1] == N);
  assert_int_equal(mica_module_output(x, 0).shape[1], N);
  assert_int_equal(mica_module_input(x, 1).ndim, 0);
  assert_int_equal(mica_module_workspace(x), 0);
  assert_int_equal(mica_module_prepare(x, NULL, NULL), MICA_OK);
}

// ---- files of a folder ----

static void read_as(struct arena *mem, const char *name, char **text, size_t *n)
{
  struct err e = {0};
  assert_int_equal(file_read(mem, in_folder(name), text, n, &e), OK);
}

static void write_as(const char *name, const void *text, size_t n)
{
  struct err e = {0};
  assert_int_equal(file_write(in_folder(name), text, n, &e), OK);
}

// The file with the first `was` in it replaced.
static void replaced(const char *name, const char *was, const char *now)
{
  struct arena mem = {0};
  struct str s = {0};
  size_t n;
  char *text = NULL;
  read_as(&mem, name, &text, &n);
  const char *at = strstr(text, was);
  if (!at) fail_msg("no %s in %s", was, text);
  str_raw(&s, text, (size_t)(at - text));
  str_add(&s, "%s%s", now, at + strlen(was));
  write_as(name, s.p, s.n);
  str_free(&s);
  arena_close(&mem);
}

// ---- the CPU ----

static void of_a_report_and_of_a_folder(void **state)
{
  (void)state;
  struct mica_context *m = mica_open(), *other = mica_open();
  struct mica_report *r = optimized(m);
  struct mica_module *x, *y;
  if (mica_module_of(m, r, &x)) fail_msg("%s", mica_error(m));
  is_soft(x);
  softmax(x, 1);
  if (mica_report_save(m, r, in_folder("soft"))) fail_msg("%s", mica_error(m));
  if (mica_module_load(other, in_folder("soft"), &y)) fail_msg("%s", mica_error(other));
  mica_close(m); // with x in it
  is_soft(y);
  softmax(y, 2);
  mica_module_close(y);
  assert_int_equal(mica_module_load(other, in_folder("soft"), &y), MICA_OK);
  assert_int_equal(mica_module_load(other, in_folder("soft"), &x), MICA_OK);
  mica_module_close(y);
  softmax(x, 3);
  mica_close(other);
}

// What does not fit is compiled again, and without a compiler that is the error.
static void compiled_where_it_has_to_be(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct mica_context *m = mica_open();
  struct mica_module *x;
  size_t n, length;
  char *so = NULL, *json = NULL, processor[64];
  read_as(&mem, "soft/kernel.so", &so, &n);
  read_as(&mem, "soft/program.json", &json, &length);
  setenv("CC", "/nowhere/cc", 1);
  assert_int_equal(mica_module_load(m, in_folder("soft"), &x), MICA_OK); // no compiler is needed
  mica_module_close(x);
  target_processor(processor);
  replaced("soft/program.json", processor, "x86-64 0000000000000000");
  assert_int_equal(mica_module_load(m, in_folder("soft"), &x), MICA_ENVIRONMENT);
  assert_non_null(strstr(mica_error(m), "/nowhere/cc"));
  unsetenv("CC");
  if (mica_module_load(m, in_folder("soft"), &x)) fail_msg("%s", mica_error(m));
  softmax(x, 4);
  mica_module_close(x);
  write_as("soft/program.json", json, length);
  write_as("soft/kernel.so", so, n / 2); // half of it
  if (mica_module_load(m, in_folder("soft"), &x)) fail_msg("%s", mica_error(m));
  softmax(x, 5);
  mica_module_close(x);
  write_as("soft/kernel.so", so, n);
  arena_close(&mem);
  mica_close(m);
}

static void addresses_are_checked(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_module *x;
  static float in[ROWS * N], out[ROWS * N];
  assert_int_equal(mica_module_load(m, in_folder("soft"), &x), MICA_OK);
  assert_string_equal(mica_error(m), "");
  assert_int_equal(mica_module_call(x, (const void *[]){NULL}, (void *[]){out}, NULL, NULL), MICA_USER);
  assert_non_null(strstr(mica_error(m), "input 0, `X`, has no address"));
  assert_int_equal(mica_module_call(x, (const void *[]){in}, (void *[]){(char *)out + 2}, NULL, NULL), MICA_USER);
  assert_non_null(strstr(mica_error(m), "no multiple of 4"));
  mica_module_close(x);
  assert_string_equal(mica_error(m), ""); // what it said went with it
  mica_close(m);
}

// ---- threads ----

struct runner {
  struct mica_module *x;
  int seed;
};

static void *runs(void *arg)
{
  const struct runner *r = arg;
  for (int i = 0; i < 20; i++) {
    softmax(r->x, r->seed + i);
    if (mica_module_call(r->x, (const void *[]){NULL}, (void *[]){NULL}, NULL, NULL) != MICA_USER) return arg;
  }
  return NULL;
}

static void many_threads(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct runner r[4];
  pthread_t thread[COUNT(r)];
  void *failed;
  assert_int_equal(mica_module_load(m, in_folder("soft"), &r[0].x), MICA_OK);
  for (size_t i = 0; i < COUNT(r); i++) {
    r[i].x = r[0].x, r[i].seed = (int)i;
    assert_int_equal(pthread_create(&thread[i], NULL, runs, &r[i]), 0);
  }
  for (size_t i = 0; i < COUNT(r); i++) assert_int_equal(pthread_join(thread[i], &failed), 0), assert_null(failed);
  assert_non_null(strstr(mica_error(m), "has no address"));
  mica_close(m);
}

// ---- folders that are wrong ----

static const struct {
  const char *was, *now, *says;
} wrong[] = {
    {"\"program\"", "\"prog\"", "`program`"},
    {"\"arch\": \"cpu\"", "\"arch\": \"sm_13\"", "sm_13"},
    {"\"arch\": \"cpu\"", "\"arch\": 3", "`arch`"},
    {"\"arch\": \"cpu\"", "\"arch\": \"sm_90a\"", "`workspace`"},
    {"\"dtype\": \"f32\"", "\"dtype\": \"f64\"", "`dtype`"},
    {"\"inputs\": [", "\"inputs\": {}, \"x\": [", "`inputs`"},
    {"\"inputs\": [", "\"inputs\": [3, ", "entry 1 of `inputs`"},
    {"[8, 64]", "[8, 0]", "`shape`"},
    {"[8, 64]", "[8, -64]", "`shape`"},
    {"[8, 64]", "[1099511627776, 64]", "`shape`"},
    {"[8, 64]", "[1, 1, 1, 1, 1, 1, 1, 1, 1]", "`shape`"},
    {"[8, 64]", "[8, \"64\"]", "`shape`"},
    {"\"source\": \"kernel.c\"", "\"source\": \"../kernel.c\"", "`source`"},
    {"\"source\": \"kernel.c\"", "\"source\": \".\"", "`source`"},
    {"\"object\": \"kernel.so\"", "\"object\": \"/tmp/kernel.so\"", "`object`"},
    {"\"function\": \"soft\"", "\"function\": \"so ft\"", "`function`"},
    {"\"function\": \"soft\"", "\"function\": \"\"", "`function`"},
    {"\"object_hash\": \"", "\"object_hash\": \"xyz", "`object_hash`"},
    {"{", "", "program.json"},
    {"{", "{{", "program.json"},
};

static void wrong_folders(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct mica_context *m = mica_open();
  struct mica_module *x = (struct mica_module *)m;
  size_t n;
  char *json = NULL;
  read_as(&mem, "soft/program.json", &json, &n);
  assert_int_equal(mica_module_load(m, in_folder("nothing"), &x), MICA_ENVIRONMENT);
  assert_null(x);
  for (size_t i = 0; i < COUNT(wrong); i++) {
    replaced("soft/program.json", wrong[i].was, wrong[i].now);
    int status = mica_module_load(m, in_folder("soft"), &x);
    if (status != MICA_USER || !strstr(mica_error(m), wrong[i].says)) fail_msg("%s for %s: %d, %s", wrong[i].now, wrong[i].was, status, mica_error(m));
    write_as("soft/program.json", json, n);
  }
  for (size_t cut = 0; cut < n - 2; cut += 7) { // the end is missing
    write_as("soft/program.json", json, cut);
    assert_int_equal(mica_module_load(m, in_folder("soft"), &x), MICA_USER);
  }
  write_as("soft/program.json", json, n);
  arena_close(&mem);
  mica_close(m);
}

// ---- on a driver without a GPU (tests/cuda/fake.h): a launch copies its first buffer to its second ----

static const char device[] =
    "{\"program\": \"twice\", \"arch\": \"sm_90a\", \"compiler\": \"none\", \"missing\": null,\n"
    " \"inputs\": [{\"name\": \"X\", \"dtype\": \"f32\", \"shape\": [32]}], \"outputs\": [{\"name\": null, \"dtype\": \"f32\", \"shape\": [32]}],\n"
    " \"workspace\": 256, \"zeroed\": 16, \"launches\": [\n"
    "  {\"name\": \"a\", \"how\": \"rows\", \"cubin\": \"a.cubin\", \"kernel\": \"a\", \"grid\": 2, \"block\": 64, \"shared\": 1024, \"cluster\": 2, \"dependent\": false,\n"
    "   \"args\": [{\"place\": \"input\", \"index\": 0, \"offset\": 0}, {\"place\": \"workspace\", \"index\": 0, \"offset\": 128}],\n"
    "   \"maps\": [{\"arg\": 0, \"type\": \"fp32\", \"size\": [32], \"stride\": [0], \"box\": [32], \"swizzle\": 0}]},\n"
    "  {\"name\": \"b\", \"how\": \"rows\", \"cubin\": \"a.cubin\", \"kernel\": \"b\", \"grid\": 1, \"block\": 64, \"shared\": 0, \"cluster\": 1, \"dependent\": true,\n"
    "   \"args\": [{\"place\": \"workspace\", \"index\": 0, \"offset\": 128}, {\"place\": \"output\", \"index\": 0, \"offset\": 0}], \"maps\": []}]}\n";

static const struct {
  const char *was, *now, *says;
} wrong_launches[] = {
    {"\"workspace\": 256", "\"workspace\": -1", "`workspace`"},
    {"\"zeroed\": 16", "\"zeroed\": 257", "`zeroed`"},
    {"\"launches\": [", "\"launches\": 3, \"x\": [", "`launches`"},
    {"\"grid\": 2", "\"grid\": 0", "`grid` of launch 1"},
    {"\"grid\": 2", "\"grid\": 3", "a multiple of `cluster`"},
    {"\"block\": 64", "\"block\": 2048", "`block`"},
    {"\"shared\": 1024", "\"shared\": 10000000", "`shared`"},
    {"\"cluster\": 2", "\"cluster\": 64", "`cluster`"},
    {"\"place\": \"input\"", "\"place\": \"inputs\"", "`place`"},
    {"\"place\": \"input\", \"index\": 0", "\"place\": \"input\", \"index\": 1", "`index`"},
    {"\"offset\": 128", "\"offset\": 256", "`offset`"},
    {"\"offset\": 128", "\"offset\": -8", "`offset`"},
    {"\"arg\": 0", "\"arg\": 2", "`arg`"},
    {"\"type\": \"fp32\"", "\"type\": \"fp8\"", "`type`"},
    {"\"size\": [32]", "\"size\": []", "`size`"},
    {"\"size\": [32]", "\"size\": [32, 32, 32, 32, 32, 32]", "`size`"},
    {"\"stride\": [0]", "\"stride\": [0, 0]", "`stride`"},
    {"\"box\": [32]", "\"box\": [257]", "`box`"},
    {"\"cubin\": \"a.cubin\"", "\"cubin\": \"../a.cubin\"", "`cubin`"},
    {"\"cubin\": \"a.cubin\"", "\"cubin\": null", "`cubin`"},
    {"\"missing\": null", "\"missing\": \"no NVRTC\"", "no NVRTC"},
    {"{\"name\": \"a\"", "{\"product\": 3, \"name\": \"a\"", "`batch`"},
};

static void device_folder(void)
{
  struct err e = {0};
  assert_int_equal(file_mkdirs(in_folder("gpu"), &e), OK);
  write_as("gpu/program.json", device, sizeof device - 1);
  write_as("gpu/a.cubin", "code", 4);
}

static void wrong_launches_are_told(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_module *x;
  device_folder();
  for (size_t i = 0; i < COUNT(wrong_launches); i++) {
    replaced("gpu/program.json", wrong_launches[i].was, wrong_launches[i].now);
    int status = mica_module_load(m, in_folder("gpu"), &x);
    if (status == MICA_OK || !strstr(mica_error(m), wrong_launches[i].says)) fail_msg("%s: %d, %s", wrong_launches[i].now, status, mica_error(m));
    write_as("gpu/program.json", device, sizeof device - 1);
  }
  assert_int_equal(mica_module_load(m, in_folder("gpu"), &x), MICA_OK);
  assert_string_equal(mica_module_target(x), "sm_90a");
  assert_int_equal(mica_module_workspace(x), 256);
  mica_close(m);
}

// Bytes of it changed anywhere: taken or refused, and nothing else.
static void any_bytes(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_module *x;
  struct rng r = {7};
  static const char bytes[] = "0123456789-,:{}[]\"x.e \x80";
  char text[sizeof device];
  int taken = 0, refused = 0;
  for (int i = 0; i < 2000; i++) {
    memcpy(text, device, sizeof device);
    for (uint64_t k = rng_below(&r, 3) + 1; k--;) text[rng_below(&r, sizeof device - 1)] = bytes[rng_below(&r, sizeof bytes - 1)];
    write_as("gpu/program.json", text, sizeof device - 1);
    int status = mica_module_load(m, in_folder("gpu"), &x);
    if (status == MICA_OK) taken++, mica_module_close(x);
    else refused++, assert_true(*mica_error(m) && !x);
  }
  assert_true(taken > 10 && refused > 500);
  write_as("gpu/program.json", device, sizeof device - 1);
  mica_close(m);
}

// A library is found by its name, because it is loaded already.
static void *fake(const char *source, const char *soname)
{
  struct str s = {0};
  const char *cc = getenv("CC");
  str_add(&s, "%s -std=gnu17 -shared -fPIC -Wl,-soname,%s -Isrc -Iinclude -Itests/cuda %s -o '%s'", cc ? cc : "cc", soname, source, in_folder(soname));
  assert_int_equal(system(s.p), 0);
  str_free(&s);
  void *so = dlopen(in_folder(soname), RTLD_NOW | RTLD_LOCAL);
  assert_non_null(so);
  return so;
}

struct launches { // as struct fake begins
  int allocated, released, launches;
};

static void in_the_callers_stream(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_module *x;
  _Alignas(256) static char in[128], out[128], work[256];
  void *so = fake("tests/cuda/fake.c", "libcuda.so.1");
  const struct launches *seen = dlsym(so, "fake");
  assert_non_null(seen);
  setenv("FAKE_BYTES", "128", 1);
  if (mica_module_load(m, in_folder("gpu"), &x)) fail_msg("%s", mica_error(m));
  memset(in, 'i', sizeof in), memset(out, 0, sizeof out), memset(work, 'w', sizeof work);
  if (mica_module_prepare(x, work, NULL)) fail_msg("%s", mica_error(m));
  assert_true(work[0] == 0 && work[15] == 0 && work[16] == 'w'); // as much as `zeroed` says
  if (mica_module_call(x, (const void *[]){in}, (void *[]){out}, work, NULL)) fail_msg("%s", mica_error(m));
  assert_int_equal(seen->launches, 2);
  assert_memory_equal(out, in, sizeof in); // by way of the workspace
  assert_memory_equal(work + 128, in, sizeof in);
  assert_int_equal(seen->allocated, 0); // none but the caller's memory
  in[0] = 'j', work[130] = 0;
  if (mica_module_call(x, (const void *[]){in}, (void *[]){out}, NULL, NULL)) fail_msg("%s", mica_error(m));
  assert_true(out[0] == 'j' && work[130] == 0 && seen->allocated == 1); // a workspace of the module's own
  assert_int_equal(mica_module_call(x, (const void *[]){in + 8}, (void *[]){out}, NULL, NULL), MICA_USER);
  assert_non_null(strstr(mica_error(m), "no multiple of 16"));
  mica_module_close(x);
  assert_int_equal(seen->released, 1);
  setenv("FAKE_ARCH", "100", 1);
  assert_int_equal(mica_module_load(m, in_folder("gpu"), &x), MICA_OK);
  assert_int_equal(mica_module_call(x, (const void *[]){in}, (void *[]){out}, NULL, NULL), MICA_USER);
  assert_non_null(strstr(mica_error(m), "machine code for sm_90a, which a fake, of compute capability 10.0, does not run"));
  mica_close(m);
  unsetenv("FAKE_ARCH"), unsetenv("FAKE_BYTES");
}

// A product of the vendor's library with what it does at its end: Y = relu(X W + c), by rows.
static const char product[] =
    "{\"program\": \"linear\", \"arch\": \"sm_90a\", \"compiler\": \"none\", \"missing\": null,\n"
    " \"inputs\": [{\"name\": \"X\", \"dtype\": \"f32\", \"shape\": [2, 4]}, {\"name\": \"W\", \"dtype\": \"f32\", \"shape\": [4, 3]},"
    " {\"name\": \"c\", \"dtype\": \"f32\", \"shape\": [3]}], \"outputs\": [{\"name\": null, \"dtype\": \"f32\", \"shape\": [2, 3]}],\n"
    " \"workspace\": 100, \"zeroed\": 0, \"launches\": [{\"name\": \"p\", \"how\": \"cublaslt\", \"product\": {\"batch\": 1, \"m\": 2, \"n\": 3, \"k\": 4,\n"
    "  \"stride\": [[0, 4, 1], [0, 3, 1], [0, 3, 1], [0, 0, 1]], \"type\": [\"fp32\", \"fp32\", \"fp32\", \"fp32\"], \"epilogue\": \"relu_bias\", \"alpha\": 1.0,"
    " \"beta\": 0.0, \"algorithm\": 2},\n"
    "  \"args\": [{\"place\": \"input\", \"index\": 0, \"offset\": 0}, {\"place\": \"input\", \"index\": 1, \"offset\": 0},"
    " {\"place\": \"output\", \"index\": 0, \"offset\": 0}, {\"place\": \"input\", \"index\": 2, \"offset\": 0}]}]}\n";

static const struct {
  const char *was, *now, *says;
} wrong_products[] = {
    {"\"m\": 2", "\"m\": 0", "`m` of launch 1"},
    {"\"m\": 2", "\"m\": 1e9", "`m` of launch 1"},
    {"[0, 0, 1]]", "[0, 1]]", "`stride`"},
    {", [0, 0, 1]]", "]", "`stride`"},
    {"[0, 4, 1]", "[0, 4, -1]", "`stride`"},
    {"[0, 4, 1]", "[0, 4, 3]", "`product`"},
    {"[\"fp32\", ", "[\"fp31\", ", "`type`"},
    {"[\"fp32\", ", "[\"fp16\", ", "`product`"},
    {"relu_bias", "gelu", "`epilogue`"},
    {"relu_bias", "relu", "an entry for each operand"},
    {"\"alpha\": 1.0", "\"alpha\": \"1\"", "`alpha`"},
    {"\"beta\": 0.0", "\"beta\": 1.0", "an entry for each operand"},
    {"\"algorithm\": 2", "\"algorithm\": -2", "`algorithm`"},
    {"\"index\": 2", "\"index\": 3", "`index`"},
};

static void products_of_the_library(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_module *x;
  struct err e = {0};
  _Alignas(256) static float in[8], w[12], c[4] = {1, -100, 2}, out[6];
  fake("tests/cuda/fake.c", "libcuda.so.1");
  const void *so = fake("tests/cuda/fake_blas.c", "libcublasLt.so.13");
  const int *last = dlsym((void *)so, "fake_blas_last"), *left = dlsym((void *)so, "fake_blas_open");
  assert_int_equal(file_mkdirs(in_folder("blas"), &e), OK);
  write_as("blas/program.json", product, sizeof product - 1);
  if (mica_module_load(m, in_folder("blas"), &x)) fail_msg("%s", mica_error(m));
  assert_int_equal(mica_module_workspace(x), 256 + PRODUCT_WORKSPACE);
  for (int i = 0; i < 12; i++) w[i] = (float)(i - 3);
  for (int i = 0; i < 8; i++) in[i] = (float)(i + 1);
  for (int turn = 0; turn < 2; turn++, c[0] = -30) { // in the second call a vector is another
    if (mica_module_call(x, (const void *[]){in, w, c}, (void *[]){out}, NULL, NULL)) fail_msg("%s", mica_error(m));
    for (int i = 0; i < 2; i++)
      for (int j = 0; j < 3; j++) {
        float want = c[j];
        for (int k = 0; k < 4; k++) want += in[4 * i + k] * w[3 * k + j];
        assert_true(fabsf(out[3 * i + j] - fmaxf(want, 0)) < 1e-4f);
      }
    assert_true(out[1] == 0 && out[2] > 0);
  }
  assert_int_equal(*last, 2); // the algorithm that was saved
  assert_true(*left > 0);
  mica_module_close(x);
  assert_int_equal(*left, 0);
  for (size_t i = 0; i < COUNT(wrong_products); i++) {
    replaced("blas/program.json", wrong_products[i].was, wrong_products[i].now);
    int status = mica_module_load(m, in_folder("blas"), &x);
    if (status != MICA_USER || !strstr(mica_error(m), wrong_products[i].says)) fail_msg("%s: %d, %s", wrong_products[i].now, status, mica_error(m));
    write_as("blas/program.json", product, sizeof product - 1);
  }
  mica_close(m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(of_a_report_and_of_a_folder), cmocka_unit_test(compiled_where_it_has_to_be), cmocka_unit_test(addresses_are_checked),
      cmocka_unit_test(many_threads),                cmocka_unit_test(wrong_folders),               cmocka_unit_test(wrong_launches_are_told),
      cmocka_unit_test(any_bytes),                   cmocka_unit_test(in_the_callers_stream),
      cmocka_unit_test(products_of_the_library)};
  return cmocka_run_group_tests(tests, folder_enter, folder_leave);
}
