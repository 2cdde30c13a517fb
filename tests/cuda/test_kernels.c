// Kernels as CUDA C++: the examples of the documentation have the text that is printed there, and names cannot inject code. The compiled code has no
// spilled registers, and no more integer instructions than hand-written index code. Needs no GPU; without NVRTC only texts are compared.
// test: timeout 300
// test: quick sanitized
#include "tile/c_source.h"
#include "rows.h"
#include "sass.h"

#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

static const char *read_text(struct arena *mem, const char *path)
{
  struct err e = {0};
  char *text;
  size_t n;
  if (file_read(mem, path, &text, &n, &e)) err_print(stderr, &e);
  assert_int_equal(e.status, OK);
  return text;
}

static struct tile_program *parsed(struct arena *mem, const char *name, const char *text)
{
  struct err e = {0};
  struct tile_program *p = NULL;
  if (tile_parse(mem, name, text, &p, &e)) err_print(stderr, &e);
  assert_int_equal(e.status, OK);
  return p;
}

static const char *emitted(struct arena *mem, struct tile_program *p, struct tile_kernel *k, int arch)
{
  struct err e = {0};
  struct str s = {0};
  if (tile_lower(p, k, arch, &e) || cuda_print(p, k, arch, &s, &e)) err_print(stderr, &e);
  assert_int_equal(e.status, OK);
  const char *text = arena_strdup(mem, str_text(&s));
  str_free(&s);
  return text;
}

static const char *emitted_file(struct arena *mem, const char *path, int arch)
{
  struct tile_program *p = parsed(mem, path, read_text(mem, path));
  return emitted(mem, p, p->kernels[0], arch);
}

static const char *kernel_part(const char *text)
{
  const char *at = strstr(text, "extern \"C\"");
  assert_non_null(at);
  return at;
}

static struct cubin compiled(const struct nvrtc *r, struct arena *mem, const char *text, int arch)
{
  struct err e = {0};
  struct cubin c;
  if (nvrtc_compile(r, mem, "test", text, arch, &c, &e)) err_print(stderr, &e);
  assert_int_equal(e.status, OK);
  assert_true(c.n > 0 && c.registers > 0);
  return c;
}

// ---- what the notes print ----

static const char gemm[] = "extern \"C\" __global__ void\n"
                           "__launch_bounds__(256) gemm(const __half *__restrict__ t1, const __half *__restrict__ t2, __half *__restrict__ "
                           "t3)\n"
                           "{\n"
                           "  const int bx = blockIdx.x;\n"
                           "  const int tx = threadIdx.x;\n"
                           "  // %3 <- Spec<<<#4, #5>>>(%1, %2)\n"
                           "  const int bid_m = bx & 7;\n"
                           "  const int bid_n = (bx >> 3) & 7;\n"
                           "  const int tid_m = tx & 15;\n"
                           "  const int tid_n = (tx >> 4) & 15;\n"
                           "  for (int k = 0; k < 1024; k += 1) {\n"
                           "    for (int m = 0; m < 8; m += 1) {\n"
                           "      for (int n = 0; n < 8; n += 1) {\n"
                           "        // %20 <- MatMul<<<#21, #22>>>(%18, %19)\n"
                           "        t3[bid_m * 128 + bid_n * 131072 + tid_m * 8 + tid_n * 8192 + m + n * 1024] =\n"
                           "            __hfma(t1[bid_m * 128 + tid_m * 8 + k * 1024 + m], t2[bid_n * 131072 + tid_n * 8192 + k + n * 1024],\n"
                           "            t3[bid_m * 128 + bid_n * 131072 + tid_m * 8 + tid_n * 8192 + m + n * 1024]);\n"
                           "      }\n"
                           "    }\n"
                           "  }\n"
                           "}\n";

static void the_notes_gemm(void **state)
{
  (void)state;
  struct arena mem = {0};
  assert_string_equal(kernel_part(emitted_file(&mem, "tests/tile/notes/gemm.tile", 80)), gemm);
  arena_close(&mem);
}

static void the_notes_ldmatrix(void **state)
{
  (void)state;
  struct arena mem = {0};
  const char *text = emitted_file(&mem, "tests/tile/notes/ldmatrix.tile", 80);
  static const char *const lines[] = {"const int thr_grp_m = (tx >> 4) & 1;", "const int thr_grp_n = (tx >> 3) & 1;",
                                      "const int grp_local_idx = tx & 7;", "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];",
                                      "mica_shared(&t1[thr_grp_m * 128 + thr_grp_n * 8 + grp_local_idx * 16])"};
  for (size_t i = 0; i < COUNT(lines); i++) assert_non_null(strstr(text, lines[i]));
  arena_close(&mem);
}

static void descriptors_of_wgmma(void **state)
{
  (void)state;
  struct arena mem = {0};
  const char *text = emitted_file(&mem, "tests/cuda/text/wgmma_layouts.tile", 90);
  static const char *const parts[] = {
      "mica_matrix(mica_shared(&a_plain[0]), 0, 0x1000080000ull)",    // 256 bytes to the next 8 rows, 128 to the next 8 of k
      "mica_matrix(mica_shared(&b_plain[0]), 0, 0x800400000ull)",     // 128 bytes to the next 8 columns, 1024 to the next 8 of
                                                                      // k
      "mica_matrix(mica_shared(&a_32[0]), 0, 0xc000001000010000ull)", // mode 3: 32 bytes
      "mica_matrix(mica_shared(&b_64[0]), 0, 0x8000002000400000ull)", // mode 2: 64 bytes; 1024 to the next 32 columns
      "mica_matrix(mica_shared(&b_k[0]), 0, 0x4000004000010000ull)"}; // mode 1: 128 bytes
  for (size_t i = 0; i < COUNT(parts); i++) assert_non_null(strstr(text, parts[i]));
  assert_non_null(strstr(text, "p, 1, 1, 0, 1; }"));
  assert_non_null(strstr(text, "p, 1, 1, 0, 0; }"));
  arena_close(&mem);
}

// ---- names ----

static void names_are_no_code(void **state)
{
  (void)state;
  static const struct {
    const char *own, *name;
  } cases[] = {{"A", "A"},
               {"A", "A2"},
               {"1", "t1"},
               {"1", "t1_2"},
               {"int", "int2"},
               {"x;y(){}//", "x_y_"},
               {"", "t"},
               {"\xc3\xa4", "t2"},
               {"__hfma", "_hfma"},
               {"mica_as", "xmica_as2"},
               {"threadIdx", "threadIdx2"},
               {"a\nb", "a_b"},
               {"u32", "u32_2"},
               {"fmaf", "fmaf2"},
               {"for", "for2"}};
  struct arena mem = {0};
  struct c_source w = {.mem = &mem};
  for (size_t i = 0; i < COUNT(cases); i++) assert_string_equal(c_name(&w, cases[i].own, "t"), cases[i].name);
  arena_close(&mem);
}

// A name goes through the builder, which takes any text; the parser would not.
static void hostile_names_compile(void **state)
{
  (void)state;
  static const char *const hostile[] = {"x; } __device__ int evil; {", "*/ evil /*", "\"); evil(\"", "int", "a\n#error evil\n", "\\"};
  struct arena mem = {0};
  struct err e = {0};
  struct tile_program *p = tile_program_new(&mem, "hostile", true);
  struct builder b;
  assert_int_equal(build_kernel(&b, p, "k(){}\n#error evil\nvoid x", &e), OK);
  struct lay n = lay_int(&p->lay, EX_C(32), EX_C(1)), one = lay_int(&p->lay, EX_C(1), EX_C(1));
  int grid, threads, me, in[COUNT(hostile)], out;
  ex size, index, let;
  assert_int_equal(build_param(&b, "N) {} //", 1, 100, 1, &size), OK);
  assert_int_equal(build_group(&b, "g\\", GROUP_BLOCK, 1, &one, &grid), OK);
  assert_int_equal(build_group(&b, "t\n", GROUP_THREAD, 1, &n, &threads), OK);
  for (size_t i = 0; i < COUNT(hostile); i++) assert_int_equal(build_tensor(&b, hostile[i], 1, &n, TT_F32, MEM_GL, (struct swizzle){0}, &in[i]), OK);
  struct tile_spec s = {
      .kind = SPEC_GENERIC, .name = "evil\\", .blocks = grid, .threads = threads, .nout = 1, .out = {in[1]}, .nin = 1, .in = {in[0]}};
  assert_int_equal(build_spec(&b, &s, true), OK);
  assert_int_equal(build_indices(&b, threads, 1, &(const char *){"i = 0; evil"}, &index), OK);
  assert_int_equal(build_let(&b, "j\n;", ex_add(p->ex, index, ex_mul(p->ex, EX_C(0), size)), &let), OK);
  assert_int_equal(build_group_scalar(&b, NULL, threads, &me), OK);
  int from;
  assert_int_equal(build_index(&b, "view\\", in[0], 1, &index, &from), OK);
  assert_int_equal(build_index(&b, NULL, in[1], 1, &index, &out), OK);
  struct tile_spec move = {.kind = SPEC_UNARY, .op = "neg", .blocks = grid, .threads = me, .nout = 1, .out = {out}, .nin = 1, .in = {from}};
  assert_int_equal(build_spec(&b, &move, false), OK);
  assert_int_equal(build_end(&b), OK);
  assert_int_equal(build_finish(&b), OK);
  const char *text = kernel_part(emitted(&mem, p, b.k, 80));
  assert_null(strstr(text, "#error"));
  for (const char *at = text; (at = strstr(at, "evil")); at++) { // in names and in comments alone
    const char *line = at;
    while (line > text && line[-1] != '\n') line--;
    bool in_name = at > text && (at[-1] == '_' || at[4] == '_');
    assert_true(in_name || strncmp(line + strspn(line, " "), "//", 2) == 0);
  }
  struct nvrtc *r = rows_compiler();
  if (r) compiled(r, &mem, emitted(&mem, p, b.k, 80), 80);
  nvrtc_close(r);
  arena_close(&mem);
}

// ---- machine code ----

static void no_more_integer_instructions_than_by_hand(void **state)
{
  (void)state;
  static const struct {
    const char *tile, *hand;
    bool prelude; // by hand, but with the types of the prelude
  } pairs[] = {{"tests/cuda/text/ldmatrix_store.tile", "tests/cuda/text/ldmatrix_by_hand.cu", false},
               {"tests/tile/notes/gemm.tile", "tests/cuda/text/gemm_by_hand.cu", true}};
  struct nvrtc *r = rows_compiler();
  if (!r) skip();
  for (size_t i = 0; i < COUNT(pairs); i++)
    for (int arch = 80; arch <= 90; arch += 10) {
      struct arena mem = {0};
      struct cubin ours = compiled(r, &mem, emitted_file(&mem, pairs[i].tile, arch), arch);
      const char *hand = arena_printf(&mem, "%s%s", pairs[i].prelude ? cuda_prelude_text : "", read_text(&mem, pairs[i].hand));
      struct cubin theirs = compiled(r, &mem, hand, arch);
      struct sass a = sass_count(&ours), b = sass_count(&theirs);
      print_message("%s, sm_%d: %d instructions, %d of integers; by hand %d, %d\n", pairs[i].tile, arch, a.all, a.integer, b.all, b.integer);
      assert_true(a.all > 0 && b.all > 0);
      assert_true(a.integer <= b.integer);
      arena_close(&mem);
    }
  nvrtc_close(r);
}

// Nothing is read before the wait for the kernel ahead, whatever the loads are called; without a wait, loads are what they are called.
static void nothing_is_read_before_the_wait(void **state)
{
  (void)state;
  static const char *loads[] = {"", "<ld.global.nc>", "<ld.global.stream>", "<ld.global.cs>", "<ld.global.cg>"};
  struct nvrtc *r = rows_compiler();
  for (size_t i = 0; i < COUNT(loads); i++)
    for (int waits = 0; waits < 2; waits++) {
      struct arena mem = {0};
      const char *text = arena_printf(&mem,
                                      "kernel early {\n target sm_90\n %%x:[4096].fp32.GL\n %%y:[4096].fp32.GL\n #grid:[4].block\n #t:[256].thread\n"
                                      "%%y <- Spec<<<#grid, #t>>>(%%x) {\n @b = #grid.indices()\n @t = #t.indices()\n #me = #t.scalar()\n %s"
                                      "%%r:[4].fp32.RF\n %%r <- Move%s<<<#grid, #me>>>(%%x.tile([4])[@b * 256 + @t])\n"
                                      "%%y.tile([4])[@b * 256 + @t] <- Move<<<#grid, #me>>>(%%r)\n }\n}\n",
                                      waits ? "Sync<grid.trigger><<<#grid, #me>>>()\n Sync<grid.wait><<<#grid, #me>>>()\n " : "", loads[i]);
      struct tile_program *p = parsed(&mem, "early.tile", text);
      const char *cu = kernel_part(emitted(&mem, p, p->kernels[0], 90));
      bool promises = strstr(loads[i], ".nc") || strstr(loads[i], ".stream");
      assert_int_equal(strstr(cu, "(\"ld.global.nc") != NULL, promises && !waits);
      if (r) {
        struct cubin c = compiled(r, &mem, emitted(&mem, p, p->kernels[0], 90), 90);
        struct sass s = sass_count(&c);
        assert_int_equal(s.waits, waits);
        assert_int_equal(s.early, waits ? 0 : 1);
      }
      arena_close(&mem);
    }
  nvrtc_close(r);
}

static void kernels_keep_their_registers(void **state)
{
  (void)state;
  struct nvrtc *r = rows_compiler();
  if (!r) skip();
  glob_t files = {0};
  assert_int_equal(glob("kernels/*.tile", 0, NULL, &files), 0);
  for (size_t i = 0; i < files.gl_pathc; i++) {
    struct arena mem = {0};
    const char *path = files.gl_pathv[i];
    struct tile_program *p = parsed(&mem, path, read_text(&mem, path));
    for (int j = 0; j < p->nkernels; j++) {
      struct tile_kernel *k = p->kernels[j];
      struct cubin c = compiled(r, &mem, emitted(&mem, p, k, k->arch), k->arch);
      print_message("%s: %d registers, %d bytes spilled\n", k->name, c.registers, c.spilled);
      assert_int_equal(c.spilled, 0);
    }
    arena_close(&mem);
  }
  globfree(&files);
  nvrtc_close(r);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_notes_gemm),
                                     cmocka_unit_test(the_notes_ldmatrix),
                                     cmocka_unit_test(descriptors_of_wgmma),
                                     cmocka_unit_test(names_are_no_code),
                                     cmocka_unit_test(hostile_names_compile),
                                     cmocka_unit_test(no_more_integer_instructions_than_by_hand),
                                     cmocka_unit_test(nothing_is_read_before_the_wait),
                                     cmocka_unit_test(kernels_keep_their_registers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
