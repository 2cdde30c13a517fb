// Programs of a saved folder on a GPU: what program.json may say of launches and must not, and the launches in the caller's stream, on a
// driver that has no GPU behind it (tests/cuda/fake.h): a launch copies its first buffer to its second.
// test: quick sanitized
#include "cuda/nccl.h"
#include "saved.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>

static const char device[] =
    "{\"program\": \"twice\", \"arch\": \"sm_90a\", \"compiler\": \"none\", \"missing\": null,\n"
    " \"inputs\": [{\"name\": \"X\", \"dtype\": \"f32\", \"shape\": [32]}], \"outputs\": [{\"name\": null, \"dtype\": \"f32\", \"shape\": [32]}],\n"
    " \"workspace\": 256, \"zeroed\": 16, \"launches\": [\n"
    "  {\"name\": \"a\", \"how\": \"rows\", \"cubin\": \"a.cubin\", \"kernel\": \"a\", \"grid\": 2, \"block\": 64, \"shared\": 1024, \"cluster\": 2, "
    "\"dependent\": false,\n"
    "   \"args\": [{\"place\": \"input\", \"index\": 0, \"offset\": 0}, {\"place\": \"workspace\", \"index\": 0, \"offset\": 128}],\n"
    "   \"maps\": [{\"arg\": 0, \"type\": \"fp32\", \"size\": [32], \"stride\": [0], \"box\": [32], \"swizzle\": 0}]},\n"
    "  {\"name\": \"b\", \"how\": \"rows\", \"cubin\": \"a.cubin\", \"kernel\": \"b\", \"grid\": 1, \"block\": 64, \"shared\": 0, \"cluster\": 1, "
    "\"dependent\": true,\n"
    "   \"args\": [{\"place\": \"workspace\", \"index\": 0, \"offset\": 128}, {\"place\": \"output\", \"index\": 0, \"offset\": 0}], \"maps\": "
    "[]}]}\n";

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
  seal("gpu");
}

static void wrong_launches_are_told(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_module *x;
  device_folder();
  for (size_t i = 0; i < COUNT(wrong_launches); i++) {
    replaced("gpu/program.json", wrong_launches[i].was, wrong_launches[i].now);
    seal("gpu");
    int status = mica_module_load(m, in_folder("gpu"), &x);
    if (status == MICA_OK || !strstr(mica_error(m), wrong_launches[i].says)) fail_msg("%s: %d, %s", wrong_launches[i].now, status, mica_error(m));
    write_as("gpu/program.json", device, sizeof device - 1);
    seal("gpu");
  }
  assert_int_equal(mica_module_load(m, in_folder("gpu"), &x), MICA_OK);
  assert_string_equal(mica_module_target(x), "sm_90a");
  assert_int_equal(mica_module_workspace(x), 256);
  mica_close(m);
}

// Bytes of it changed anywhere: taken or refused, and nothing else.
static void any_bytes_of(const char *name, const char *is, size_t n)
{
  struct mica_context *m = mica_open();
  struct mica_module *x;
  struct rng r = {7};
  static const char bytes[] = "0123456789-,:{}[]\"x.e \x80";
  char text[4096], path[64];
  int taken = 0, refused = 0;
  snprintf(path, sizeof path, "%s/program.json", name);
  for (int i = 0; i < 2000; i++) {
    memcpy(text, is, n);
    for (uint64_t k = rng_below(&r, 3) + 1; k--;) text[rng_below(&r, n)] = bytes[rng_below(&r, sizeof bytes - 1)];
    write_as(path, text, n);
    seal(name);
    int status = mica_module_load(m, in_folder(name), &x);
    if (status == MICA_OK)
      taken++, mica_module_close(x);
    else
      refused++, assert_true(*mica_error(m) && !x);
  }
  assert_true(taken > 10 && refused > 500);
  write_as(path, is, n);
  seal(name);
  mica_close(m);
}

static void any_bytes(void **state)
{
  (void)state;
  any_bytes_of("gpu", device, sizeof device - 1);
}

// A library is found by its name, because it is loaded already.
static void *fake(const char *source, const char *soname)
{
  struct str s = {0};
  const char *cc = getenv("CC");
  str_add(&s, "%s -std=gnu17 -shared -fPIC -Wl,-soname,%s -Isrc -Iinclude -Itests/cuda %s -o '%s'", cc ? cc : "cc", soname, source,
          in_folder(soname));
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

// Threads with streams, buffers and workspaces of their own call one module: no kernel may get what another thread's call is about.
struct caller {
  struct mica_module *x;
  int number, wrong;
};

static void *calls(void *arg)
{
  enum { CALLS = 50, BYTES = 128 };
  struct caller *c = arg;
  _Alignas(256) char in[BYTES], out[BYTES], work[256] = {0};
  void *stream = (void *)(uintptr_t)(c->number + 1);
  if (mica_module_prepare(c->x, work, stream)) c->wrong++;
  for (int i = 0; i < CALLS; i++) {
    memset(in, c->number + 4 * i, sizeof in), memset(out, ~(c->number + 4 * i), sizeof out);
    if (mica_module_call(c->x, (const void *[]){in}, (void *[]){out}, work, stream) || memcmp(in, out, sizeof in) != 0) c->wrong++;
  }
  return NULL;
}

static void threads_take_turns(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct caller caller[4] = {{0}};
  pthread_t thread[COUNT(caller)];
  fake("tests/cuda/fake.c", "libcuda.so.1");
  setenv("FAKE_BYTES", "128", 1), setenv("FAKE_PAUSE", "100", 1);
  struct mica_module *x;
  if (mica_module_load(m, in_folder("gpu"), &x)) fail_msg("%s", mica_error(m));
  for (int i = 0; i < (int)COUNT(caller); i++) {
    caller[i] = (struct caller){.x = x, .number = i};
    assert_int_equal(pthread_create(&thread[i], NULL, calls, &caller[i]), 0);
  }
  for (size_t i = 0; i < COUNT(caller); i++) pthread_join(thread[i], NULL);
  for (size_t i = 0; i < COUNT(caller); i++) assert_int_equal(caller[i].wrong, 0);
  mica_close(m);
  unsetenv("FAKE_BYTES"), unsetenv("FAKE_PAUSE");
}

// A product of the vendor's library with what it does at its end: Y = relu(X W + c), by rows.
static const char product[] =
    "{\"program\": \"linear\", \"arch\": \"sm_90a\", \"compiler\": \"none\", \"missing\": null,\n"
    " \"inputs\": [{\"name\": \"X\", \"dtype\": \"f32\", \"shape\": [2, 4]}, {\"name\": \"W\", \"dtype\": \"f32\", \"shape\": [4, 3]},"
    " {\"name\": \"c\", \"dtype\": \"f32\", \"shape\": [3]}], \"outputs\": [{\"name\": null, \"dtype\": \"f32\", \"shape\": [2, 3]}],\n"
    " \"workspace\": 100, \"zeroed\": 0, \"launches\": [{\"name\": \"p\", \"how\": \"cublaslt\", \"product\": {\"batch\": 1, \"m\": 2, \"n\": 3, "
    "\"k\": 4,\n"
    "  \"stride\": [[0, 4, 1], [0, 3, 1], [0, 3, 1], [0, 0, 1]], \"type\": [\"fp32\", \"fp32\", \"fp32\", \"fp32\"], \"epilogue\": \"relu_bias\", "
    "\"alpha\": 1.0,"
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
  seal("blas");
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
    seal("blas");
    int status = mica_module_load(m, in_folder("blas"), &x);
    if (status != MICA_USER || !strstr(mica_error(m), wrong_products[i].says)) fail_msg("%s: %d, %s", wrong_products[i].now, status, mica_error(m));
    write_as("blas/program.json", product, sizeof product - 1);
  }
  mica_close(m);
}

// A program of two GPUs: its ranks are opened, find each other at their first call, and launch the operator that joins them.
static const char joined[] =
    "{\"program\": \"joined\", \"arch\": \"sm_90a\", \"compiler\": \"none\", \"missing\": null, \"world\": 2,\n"
    " \"inputs\": [{\"name\": \"X\", \"dtype\": \"f32\", \"shape\": [64], \"shard\": 0}], \"outputs\": [{\"name\": null, \"dtype\": \"f32\", "
    "\"shape\": [32]}],\n"
    " \"workspace\": 0, \"zeroed\": 0, \"launches\": [{\"name\": \"a\", \"how\": \"ranks\", \"cubin\": \"a.cubin\", \"kernel\": \"sum\", \"grid\": "
    "1, "
    "\"block\": 256, \"shared\": 0, \"cluster\": 1, \"dependent\": false,\n"
    "  \"ranks\": {\"operator\": \"all_reduce\", \"type\": \"fp32\", \"world\": 2, \"outer\": 1, \"inner\": 32},\n"
    "  \"args\": [{\"place\": \"input\", \"index\": 0, \"offset\": 0}, {\"place\": \"output\", \"index\": 0, \"offset\": 0}], \"maps\": []}]}\n";

static const struct {
  const char *was, *now, *says;
} wrong_meetings[] = {
    {"all_reduce", "reduce_all", "`operator`"},
    {"\"fp32\"", "\"fp31\"", "`type`"},
    {"\"fp32\"", "\"fp64\"", "`ranks`"},
    {"\"fp32\", \"world\": 2", "\"fp32\", \"world\": 4", "`world`"},
    {"\"outer\": 1", "\"outer\": 0", "`outer`"},
    {"\"inner\": 32", "\"inner\": 2000000000", "`ranks`"},
    {"\"block\": 256", "\"block\": 128", "`ranks`"},
    {"\"grid\": 1", "\"grid\": 1000", "`ranks`"},
    {"\"shape\": [64]", "\"shape\": [63]", "`shard`"},
};

struct rank_caller {
  _Alignas(16) char in[128], out[128];
  struct mica_module *x;
  int status;
};

static void *call_rank(void *arg)
{
  struct rank_caller *c = arg;
  for (int i = 0; i < 20 && !c->status; i++) c->status = mica_module_call(c->x, (const void *[]){c->in}, (void *[]){c->out}, NULL, NULL);
  return NULL;
}

static void ranks_on_gpus(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_module *x;
  struct err e = {0};
  static struct rank_caller c[2], alone;
  pthread_t thread[2];
  void *so = fake("tests/cuda/fake.c", "libcuda.so.1");
  const struct launches *seen = dlsym(so, "fake");
  const int taken = seen->allocated, given = seen->released, before = seen->launches;
  setenv("FAKE_BYTES", "128", 1);
  assert_int_equal(file_mkdirs(in_folder("joined"), &e), OK);
  write_as("joined/program.json", joined, sizeof joined - 1), write_as("joined/a.cubin", "code", 4);
  seal("joined");
  if (mica_module_load(m, in_folder("joined"), &x)) fail_msg("%s", mica_error(m));
  assert_int_equal(mica_module_world(x), 2);
  assert_int_equal(mica_module_call(x, (const void *[]){c[0].in}, (void *[]){c[0].out}, NULL, NULL), MICA_USER);
  assert_non_null(strstr(mica_error(m), "joined runs on 2 GPUs, one a rank"));
  for (int r = 0; r < 2; r++) {
    if (mica_module_rank(x, r, NULL, 20, &c[r].x)) fail_msg("%s", mica_error(m));
    assert_int_equal(mica_module_input(c[r].x, 0).shape[0], 32);
    memset(c[r].in, 'a' + r, sizeof c[r].in);
  }
  mica_module_close(x); // ranks do not need it
  for (int r = 0; r < 2; r++) assert_int_equal(pthread_create(&thread[r], NULL, call_rank, &c[r]), 0);
  for (int r = 0; r < 2; r++) pthread_join(thread[r], NULL);
  for (int r = 0; r < 2; r++) assert_int_equal(c[r].status, MICA_OK);
  for (int r = 0; r < 2; r++) assert_memory_equal(c[r].out, c[r].in, sizeof c[r].in); // as the fake does it
  assert_int_equal(seen->launches - before, 40);
  mica_module_close(c[0].x);
  c[1].status = MICA_OK, call_rank(&c[1]);
  assert_true(c[1].status != MICA_OK && strstr(mica_error(m), "another rank of the world"));
  mica_module_close(c[1].x);
  assert_int_equal(seen->allocated - taken, seen->released - given); // exchange memory too
  if (mica_module_load(m, in_folder("joined"), &x) || mica_module_rank(x, 1, NULL, 0.1, &alone.x)) fail_msg("%s", mica_error(m));
  call_rank(&alone);
  assert_true(alone.status != MICA_OK && strstr(mica_error(m), "another rank did not connect its GPU"));
  for (size_t i = 0; i < COUNT(wrong_meetings); i++) {
    replaced("joined/program.json", wrong_meetings[i].was, wrong_meetings[i].now);
    seal("joined");
    const int status = mica_module_load(m, in_folder("joined"), &x);
    if (status == MICA_OK || !strstr(mica_error(m), wrong_meetings[i].says)) fail_msg("%s: %d, %s", wrong_meetings[i].now, status, mica_error(m));
    write_as("joined/program.json", joined, sizeof joined - 1);
  }
  mica_close(m);
  unsetenv("FAKE_BYTES");
}

static void any_bytes_of_ranks(void **state)
{
  (void)state;
  any_bytes_of("joined", joined, sizeof joined - 1);
}

// GPUs that do not reach each other: NCCL gathers the operands, and the kernel adds them.
static void ranks_apart(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_module *x;
  static struct rank_caller c[2];
  pthread_t thread[2];
  fake("tests/cuda/fake.c", "libcuda.so.1");
  void *so = fake("tests/cuda/fake_nccl.c", "libnccl.so.2");
  const int *joins = dlsym(so, "fake_nccl_joined"), *gathered = dlsym(so, "fake_nccl_gathered"), *left = dlsym(so, "fake_nccl_left");
  setenv("FAKE_BYTES", "128", 1), setenv("FAKE_APART", "1", 1);
  seal("joined");
  if (mica_module_load(m, in_folder("joined"), &x)) fail_msg("%s", mica_error(m));
  for (int r = 0; r < 2; r++) {
    if (mica_module_rank(x, r, NULL, 20, &c[r].x)) fail_msg("%s", mica_error(m));
    memset(c[r].in, 'a' + r, sizeof c[r].in);
  }
  for (int r = 0; r < 2; r++) assert_int_equal(pthread_create(&thread[r], NULL, call_rank, &c[r]), 0);
  for (int r = 0; r < 2; r++) pthread_join(thread[r], NULL);
  for (int r = 0; r < 2; r++) {
    if (c[r].status) fail_msg("%s", mica_error(m));
    assert_memory_equal(c[r].out, c[0].in, sizeof c[r].out); // of what is gathered the fake copies the first operand
  }
  assert_true(*joins == 2 && *gathered == 44);
  mica_close(m);
  assert_int_equal(*left, 2);
  unsetenv("FAKE_BYTES"), unsetenv("FAKE_APART");
}

// Both ranks of a module fail, each called by a thread. seconds: the time that a rank waits for the other.
static void both_fail(struct mica_context *m, double seconds)
{
  struct mica_module *x;
  static struct rank_caller c[2];
  pthread_t thread[2];
  if (mica_module_load(m, in_folder("joined"), &x)) fail_msg("%s", mica_error(m));
  for (int r = 0; r < 2; r++)
    if (mica_module_rank(x, r, NULL, seconds, &c[r].x)) fail_msg("%s", mica_error(m));
  for (int r = 0; r < 2; r++) assert_int_equal(pthread_create(&thread[r], NULL, call_rank, &c[r]), 0);
  for (int r = 0; r < 2; r++) pthread_join(thread[r], NULL);
  for (int r = 0; r < 2; r++) assert_true(c[r].status != MICA_OK);
}

// A rank without memory for what is gathered fails all, before any of them waits in NCCL.
static void no_memory_to_gather(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  const struct launches *seen = dlsym(fake("tests/cuda/fake.c", "libcuda.so.1"), "fake");
  const int *joins = dlsym(fake("tests/cuda/fake_nccl.c", "libnccl.so.2"), "fake_nccl_joined"), before = *joins;
  const int taken = seen->allocated, given = seen->released;
  setenv("FAKE_BYTES", "128", 1), setenv("FAKE_APART", "1", 1), setenv("FAKE_FULL", "256", 1);
  both_fail(m, 20);
  assert_int_equal(*joins, before);
  mica_close(m);
  assert_int_equal(seen->allocated - taken, seen->released - given);
  unsetenv("FAKE_BYTES"), unsetenv("FAKE_APART"), unsetenv("FAKE_FULL");
}

// A rank that NCCL refuses fails the others at once; NCCL alone would let them wait for ever.
static void a_rank_that_does_not_join(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  fake("tests/cuda/fake.c", "libcuda.so.1");
  const int *joins = dlsym(fake("tests/cuda/fake_nccl.c", "libnccl.so.2"), "fake_nccl_joined"), before = *joins;
  setenv("FAKE_BYTES", "128", 1), setenv("FAKE_APART", "1", 1), setenv("FAKE_DEAD", "1", 1);
  both_fail(m, 600);
  assert_int_equal(*joins, before);
  mica_close(m);
  unsetenv("FAKE_BYTES"), unsetenv("FAKE_APART"), unsetenv("FAKE_DEAD");
}

// A rank whose process died sends nothing: the other ranks give up in time.
static void a_rank_that_died(void **state)
{
  (void)state;
  struct nccl n;
  struct nccl_id id;
  struct err e = {0};
  void *comm = &n;
  const int *joins = dlsym(fake("tests/cuda/fake_nccl.c", "libnccl.so.2"), "fake_nccl_joined"), before = *joins;
  assert_int_equal(nccl_find(&n, &e), OK);
  assert_int_equal(n.get_id(&id), 0);
  assert_true(nccl_join(&n, 2, &id, 0, &(struct patience){.until = now_seconds() + 0.05}, &comm, &e) != OK);
  assert_null(comm);
  assert_non_null(strstr(e.text, "joining a world: another rank did not come to NCCL in time, or failed"));
  assert_int_equal(*joins, before); // and has left
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(wrong_launches_are_told), cmocka_unit_test(any_bytes),
                                     cmocka_unit_test(in_the_callers_stream),   cmocka_unit_test(threads_take_turns),
                                     cmocka_unit_test(products_of_the_library), cmocka_unit_test(ranks_on_gpus),
                                     cmocka_unit_test(any_bytes_of_ranks),      cmocka_unit_test(ranks_apart),
                                     cmocka_unit_test(no_memory_to_gather),     cmocka_unit_test(a_rank_that_does_not_join),
                                     cmocka_unit_test(a_rank_that_died)};
  return cmocka_run_group_tests(tests, folder_enter, folder_leave);
}
