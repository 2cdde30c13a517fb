// Programs of several devices as kernels for GPUs: all ranks launch by launch in the interpreter, with the operators of all ranks done here.
// Their results together are those of the program of all ranks. Reports and saved folders of such programs are checked too.
// test: timeout 300
#include "folder.h"
#include "drive/drive.h"
#include "front/front.h"
#include "gpu/gpu.h"
#include "sim/device_host.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

static const struct {
  const char *inputs, *results;
} rows[] = {
    {"A: f32[8, 16] shard(1)", "all_reduce(exp(A)), all_gather(A, 0), all_gather(A, 1)"},
    {"A: f32[8, 16] shard(0)\n B: f32[16, 8]", "shard(matmul(A, B), 0), all_reduce(matmul(A, B))"},
    {"A: bf16[8, 16] shard(1)\n B: bf16[16, 24] shard(0)", "all_reduce(matmul(A, B)), shard(transpose(A), 0)"},
    {"A: f32[8, 16]", "shard(reduce_scatter(A * 2, 0), 0), all_gather(reduce_scatter(A, 1), 1)"},
    {"A: f16[3, 8, 5] shard(1)", "shard(reduce_scatter(all_gather(A, 1), 1), 1), all_reduce(sum(A, 1))"},
    {"A: f32[8, 16] shard(0)", "all_reduce(transpose(exp(A))), all_gather(transpose(A), 1), all_reduce(A[1:2])"},
    {"A: f32[8, 16]", "all_reduce(all_reduce(A)), A * 3"},
    {"A: i32[8, 16] < 100 shard(0)", "all_gather(A, 0)"},
    {"A: f32[8, 1, 4] shard(0)\n T: i32[1] < 6\n K: f32[8, 6, 4] shard(0) state\n K[:, T] = A", "all_reduce(sum(K * 2, 0))"},
    {"A: f32[8, 40] shard(1)", "all_gather(softmax(all_reduce(A), 1), 0), shard(rms_norm(A), 1)"},
};

static struct graph *parse(struct arena *mem, int ranks, int row)
{
  struct graph *g;
  struct err e = {0};
  const char *text = arena_printf(mem, "program p {\n world %d\n %s\n return %s\n}", ranks, rows[row].inputs, rows[row].results);
  if (front_parse(mem, text, strlen(text), "p", 0, NULL, &g, &e) || graph_expand(mem, g, true, &g, &e)) fail_msg("%s: %s", text, e.text);
  return g;
}

static void lowered(struct arena *mem, const struct graph *rank, const struct target *gpu, struct device_program *d)
{
  struct err e = {0};
  struct lower_plan p;
  const struct lower_opts o = {.tails = true, .dependent = true};
  if (lower_plan(mem, rank, gpu, &o, &p, &e)) fail_msg("%s", e.text);
  struct choice *pick = NEWS(mem, struct choice, p.nunits + 1);
  for (int i = 0; i < p.nunits; i++)
    if (p.unit[i].nchoices) pick[i] = p.unit[i].choice[0];
  if (lower_make(mem, &p, pick, d, &e)) fail_msg("%s", e.text);
}

static void *place(const struct device_host *h, const struct lower_place *p)
{
  return p->kind == PLACE_INPUT ? h->in[p->index] : p->kind == PLACE_OUTPUT ? h->out[p->index] : h->work + p->offset;
}

// Does on all ranks the work of the kernel of launch i.
static void meet(struct device_host *h, int i, int ranks)
{
  const struct launch *l = &h->d->launch[i];
  const struct meeting *m = &l->meet;
  const enum dtype t = (enum dtype)m->type;
  for (int me = 0; me < ranks; me++)
    for (int64_t e = 0; e < m->outer * m->inner; e++) {
      const int64_t piece = e / m->inner, at = e % m->inner, from = m->how == MEETING_SCATTER ? (piece * ranks + me) * m->inner + at : e;
      float sum = 0;
      for (int r = 0; r < ranks; r++) {
        const float x = (float)num_read(t, place(&h[r], &l->arg[0].at), from);
        sum = r ? sum + x : x;
        if (m->how == MEETING_GATHER) num_write(t, place(&h[me], &l->arg[1].at), (piece * ranks + r) * m->inner + at, (double)x);
      }
      if (m->how != MEETING_GATHER) num_write(t, place(&h[me], &l->arg[1].at), e, (double)sum);
    }
}

static void run(struct device_host *h, const struct device_program *d, int ranks)
{
  struct err e = {0};
  struct sim_report report;
  int meetings = 0;
  for (int i = 0; i < d->nlaunch; i++) {
    meetings += d->launch[i].meet.ranks > 0;
    if (d->launch[i].meet.ranks) meet(h, i, ranks);
    for (int r = 0; r < ranks && !d->launch[i].meet.ranks; r++)
      if (device_host_launch(&h[r], i, &report, NULL, &e)) fail_msg("launch %d of rank %d: %s", i, r, e.text);
  }
  assert_true(meetings > 0);
}

// The rank's parts of the inputs of all ranks.
static struct buffers *cut(struct arena *mem, const struct buffers *whole, const struct ranks_form *f, int rank)
{
  struct buffers *b = NEW(mem, struct buffers);
  *b = *whole, b->in = NEWS(mem, void *, f->nin + 1);
  for (int i = 0; i < f->nin; i++) {
    b->in[i] = arena_alloc(mem, (size_t)(f->in[i].outer * f->in[i].inner));
    ranks_part(&f->in[i], f->in[i].divided ? f->ranks : 1, f->in[i].divided ? rank : 0, whole->in[i], b->in[i], false);
  }
  return b;
}

static void one_row(const struct target *gpu, int ranks, int row)
{
  struct arena mem = {0};
  struct err e = {0};
  struct graph *g = parse(&mem, ranks, row), *rank, *all;
  struct device_program d;
  struct problem p = {0};
  struct device_host h[8] = {0};
  struct check_answer answer;
  const struct ranks_form *f = ranks_form_of(&mem, g);
  if (graph_rank(&mem, g, &rank, &e) || graph_unfold(&mem, g, &all, &e) || problem_open(&p, &mem, all, &(struct problem_wish){5}, &e))
    fail_msg("%s", e.text);
  lowered(&mem, rank, gpu, &d);
  for (int r = 0; r < ranks; r++) {
    const struct device_host_opts o = {.program = rank, .inputs = cut(&mem, p.b, f, r)};
    if (device_host_open(&h[r], &mem, &d, &o, &e)) fail_msg("%s", e.text);
  }
  run(h, &d, ranks);
  void **out = NEWS(&mem, void *, f->nout + 1);
  for (int i = 0; i < f->nout; i++) {
    const size_t bytes = (size_t)(f->out[i].outer * f->out[i].inner);
    void *own = arena_alloc(&mem, bytes), *first = arena_alloc(&mem, bytes);
    out[i] = arena_alloc(&mem, p.b->out_bytes[i]);
    for (int r = 0; r < ranks; r++) {
      assert_true(device_host_output(&h[r], i, own));
      if (!r) memcpy(first, own, bytes);
      if (!f->out[i].divided) assert_memory_equal(own, first, bytes);
      ranks_part(&f->out[i], f->out[i].divided ? ranks : 1, f->out[i].divided ? r : 0, out[i], own, true);
    }
  }
  if (check_outputs(&p, out, &answer, &e)) fail_msg("row %d of %d ranks: %s", row, ranks, e.text);
  for (int r = 0; r < ranks; r++) device_host_close(&h[r]);
  problem_close(&p);
  arena_close(&mem);
}

static void ranks_compute_the_program(void **state)
{
  (void)state;
  struct target t;
  struct err e = {0};
  assert_int_equal(target_open("sm_90a", 1, true, &t, &e), OK);
  for (int row = 0; row < (int)COUNT(rows); row++) one_row(&t, 2, row);
  for (int row = 0; row < (int)COUNT(rows); row += 3) one_row(&t, 4, row);
}

static void reported_and_saved(void **state)
{
  (void)state;
  static const char text[] = "program w {\n world 2\n X: f32[8, 16]\n A: f32[16, 32] shard(1)\n B: f32[32, 16] shard(0)\n"
                             " return all_reduce(matmul(relu(matmul(X, A)), B)), shard(relu(matmul(X, A)), 1)\n}";
  struct mica_context *m = mica_open();
  struct mica_program *p;
  struct mica_report *r;
  struct mica_module *x;
  struct mica_options o = mica_options_default();
  char path[128];
  o.target = "sm_90a", o.remember = false, o.tune = 0, o.max_block_ops = 3, o.max_values = 200;
  if (mica_load_text(m, text, "w.mica", 0, NULL, &p) || mica_optimize(m, p, &o, &r)) fail_msg("%s", mica_error(m));
  json_t *v = json_loads(mica_report_json(r), 0, NULL), *launches = json_object_get(json_object_get(v, "gpu"), "launches");
  int meetings = 0;
  for (size_t i = 0; i < json_array_size(launches); i++)
    meetings += !strcmp(json_string_value(json_object_get(json_array_get(launches, i), "how")), "ranks");
  assert_int_equal(meetings, 1);
  json_decref(v);
  assert_non_null(strstr(mica_report_text(r), "f32[8, 32]; 2 devices\n"));
  snprintf(path, sizeof path, "%s/w", folder);
  if (mica_report_save(m, r, path)) fail_msg("%s", mica_error(m));
  snprintf(path, sizeof path, "%s/w/program.json", folder);
  v = json_load_file(path, 0, NULL);
  assert_int_equal(json_integer_value(json_object_get(v, "world")), 2);
  assert_int_equal(json_integer_value(json_object_get(json_array_get(json_object_get(v, "inputs"), 1), "shard")), 1);
  assert_int_equal(json_integer_value(json_object_get(json_array_get(json_object_get(v, "outputs"), 1), "shard")), 1);
  launches = json_object_get(v, "launches");
  for (size_t i = 0; i < json_array_size(launches); i++) { // files of several programs are linked together
    const char *kernel = json_string_value(json_object_get(json_array_get(launches, i), "kernel"));
    if (kernel) assert_memory_equal(kernel, "w_", 2); // else the library's product
    meetings -= json_object_get(json_array_get(launches, i), "ranks") && kernel;
  }
  assert_int_equal(meetings, 0);
  json_decref(v);
  snprintf(path, sizeof path, "%s/w", folder);
  const int status = mica_module_load(m, path, &x);
  if (status) assert_non_null(strstr(mica_error(m), "no machine code")); // without NVRTC
  if (!status) assert_int_equal(mica_module_world(x), 2);
  mica_close(m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_compute_the_program), cmocka_unit_test(reported_and_saved)};
  return cmocka_run_group_tests(tests, folder_enter, folder_leave);
}
