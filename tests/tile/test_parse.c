// Texts to programs and back: the examples of the documentation with the shapes and strides printed there, every kernel of the tree, wrong texts with
// place and words of their errors, and limits.
#include "texts.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static int parse(struct arena *mem, const char *text, struct tile_program **p, struct err *e)
{
  *e = (struct err){0};
  return tile_parse(mem, "f.tile", text, p, e);
}

// ---- the notes ----
static const struct {
  const char *file;
  int kernel;
  const char *name, *type; // % a view, # a group
} printed[] = {
    {"tilings", 0, "%A", "[4,8:1,4].fp32.GL"},
    {"tilings", 0, "%B", "[2,2:2,16].[2,4:1,4].fp32.GL"},
    {"tilings", 0, "%C", "[2,2:1,16].[2,4:2,4].fp32.GL"},
    {"tilings", 0, "%D", "[2,2:1,8].[2,(2,2):2,(4,16)].fp32.GL"},
    {"tilings", 0, "%E", "[2,2:1,8].[2,(2,2):2,(4,16)].fp32.GL"},
    {"tilings", 1, "%compact", "[4,8:1,4].fp32.GL"},
    {"threads", 0, "#warp", "[32:1].thread"},
    {"threads", 0, "#groups", "[4:8].[8:1].thread"},
    {"threads", 0, "#groups2d", "[2,2:16,8].[8:1].thread"},
    {"threads", 0, "#quad_pairs", "[4:4].[4,2:1,16].thread"},
    {"ldmatrix", 0, "%1", "[16,16:16,1].fp16.SH"},
    {"ldmatrix", 0, "%2", "[2,4:4,1].fp16.RF"},
    {"ldmatrix", 0, "#5", "[4:8].[8:1].thread"},
    {"ldmatrix", 0, "#6", "[2,2:16,8].[8:1].thread"},
    {"ldmatrix", 0, "%7", "[2,2:128,8].[8,8:16,1].fp16.SH"}, // &smem[grp_m * 128 + grp_n * 8 + idx * 16]
    {"ldmatrix", 0, "%9", "[8,1:16,0].[1,8:16,1].fp16.SH"},
    {"ldmatrix", 0, "%11", "[2,2:4,2].[1,2:4,1].fp16.RF"},
    {"gemm", 0, "#4", "[8,8:1,8].block"}, // bid_m = blockIdx.x % 8
    {"gemm", 0, "#5", "[16,16:1,16].thread"},
    {"gemm", 0, "%6", "[8,1:128,0].[128,1024:1,1024].fp16.GL"},
    {"gemm", 0, "%7", "[1,8:0,131072].[1024,128:1,1024].fp16.GL"},
    {"gemm", 0, "%8", "[8,8:128,131072].[128,128:1,1024].fp16.GL"},
    {"gemm", 0, "%14", "[16,16:8,8192].[8,8:1,1024].fp16.GL"},
    {"gemm", 0, "%15", "[8,1024:1,1024].fp16.GL"},
    {"gemm", 0, "#22", "[].thread"},
};

static int find_view(const struct tile_kernel *k, const char *name)
{
  for (int i = 0; i < k->nviews; i++)
    if (k->views[i].name && !strcmp(k->views[i].name, name)) return i;
  return -1;
}

static int find_group(const struct tile_kernel *k, const char *name)
{
  for (int i = 0; i < k->ngroups; i++)
    if (k->groups[i].name && !strcmp(k->groups[i].name, name)) return i;
  return -1;
}

static struct tile_program *note(struct texts *t, const char *name)
{
  for (int i = 0; i < t->n; i++) {
    if (!strstr(t->path[i], name) || !strstr(t->path[i], "notes/")) continue;
    struct tile_program *p;
    struct err e = {0};
    if (!tile_parse(&t->mem, t->path[i], t->text[i], &p, &e)) return p;
    err_print(stderr, &e);
  }
  fail_msg("%s is not read", name);
  return NULL;
}

static void test_notes(void **state)
{
  (void)state;
  struct texts t;
  int wrong = 0;
  assert_true(texts_all(&t));
  for (size_t i = 0; i < COUNT(printed); i++) {
    struct tile_program *p = note(&t, printed[i].file);
    struct tile_kernel *k = p->kernels[printed[i].kernel];
    bool group = *printed[i].name == '#';
    int at = group ? find_group(k, printed[i].name + 1) : find_view(k, printed[i].name + 1);
    assert_true(at >= 0);
    struct str is = {0};
    if (group)
      tile_group_text(p, k, at, &is);
    else
      tile_view_text(p, k, at, &is);
    if (strcmp(str_text(&is), printed[i].type)) {
      print_error("%s %s: is %s, the notes print %s\n", printed[i].file, printed[i].name, str_text(&is), printed[i].type);
      wrong++;
    }
    str_free(&is);
  }
  assert_int_equal(wrong, 0);
  arena_close(&t.mem);
}

// The offsets of section 3.2: C[0,3] = 9 and D[0,3] = 10 in the hierarchical layouts, 12 in the column-major one.
static void test_offsets(void **state)
{
  (void)state;
  static const struct {
    const char *name;
    int64_t offset;
  } rows[] = {{"a", 12}, {"c", 9}, {"d", 10}};
  struct texts t;
  assert_true(texts_all(&t));
  struct tile_kernel *k = note(&t, "tilings")->kernels[1];
  for (size_t i = 0; i < COUNT(rows); i++) {
    ex offset = k->views[find_view(k, rows[i].name)].offset;
    assert_true(ex_is_const(offset));
    assert_int_equal(ex_value(offset), rows[i].offset);
  }
  arena_close(&t.mem);
}

// threadIdx.x / 16 % 2 and so on, as the notes write them beside the groups; the two halves of the GEMM's offset.
static void test_indices(void **state)
{
  (void)state;
  struct texts t;
  assert_true(texts_all(&t));
  struct tile_program *p = note(&t, "threads");
  struct tile_kernel *k = p->kernels[0];
  int64_t vars[64] = {0};
  assert_true(ex_vars(p->ex) <= 64);
  for (int tid = 0; tid < 32; tid++) {
    int lets = 0;
    vars[ex_node(p->ex, k->tid)->c] = tid;
    for (int i = 0; i < k->nstmts; i++) {
      const struct tile_stmt *s = &k->stmts[i];
      if (s->kind != STMT_LET) continue;
      int first = lets++;
      int64_t is[3], want[2][3] = {{tid / 16 % 2, tid / 8 % 2, tid % 8}, {tid / 4 % 4, tid % 4, tid / 16 % 2}};
      assert_int_equal(s->nvars, 3);
      for (int j = 0; j < 3; j++) is[j] = ex_eval(p->ex, s->values[j], vars);
      for (int j = 0; j < 3; j++) assert_int_equal(is[j], want[first][j]);
    }
    assert_int_equal(lets, 2);
  }
  arena_close(&t.mem);
}

// ---- the way back ----
static void test_print(void **state)
{
  (void)state;
  struct texts t;
  assert_true(texts_all(&t));
  for (int i = 0; i < t.n; i++) {
    struct tile_program *p, *again;
    struct err e = {0};
    struct str once = {0}, twice = {0};
    if (tile_parse(&t.mem, t.path[i], t.text[i], &p, &e)) err_print(stderr, &e), fail();
    tile_text(p, &once);
    if (tile_parse(&t.mem, "printed", str_text(&once), &again, &e)) err_print(stderr, &e), fail();
    tile_text(again, &twice);
    assert_string_equal(str_text(&once), str_text(&twice));
    assert_int_equal(p->nkernels, again->nkernels);
    for (int j = 0; j < p->nkernels; j++) {
      const struct tile_kernel *a = p->kernels[j], *b = again->kernels[j];
      assert_int_equal(a->nspecs, b->nspecs);
      assert_int_equal(a->nstmts, b->nstmts);
      assert_int_equal(a->nbuffers, b->nbuffers);
      assert_int_equal(a->nparams, b->nparams);
      assert_int_equal(a->arch, b->arch);
      assert_int_equal(a->cluster, b->cluster);
    }
    str_free(&once);
    str_free(&twice);
  }
  arena_close(&t.mem);
}

// Everything that the language has, in the form in which it is printed.
static const char everything[] = "order column\n"
                                 "\n"
                                 "kernel all {\n"
                                 "  target sm_90a\n"
                                 "  cluster 2\n"
                                 "  param M in 1..4096\n"
                                 "  param N multiple 8\n"
                                 "  %x:[M,N].fp16.GL\n"
                                 "  %i:[4].i32.GL\n"
                                 "  #b:[(M + 15) / 16].block\n"
                                 "  #t:[128].thread\n"
                                 "  %x <- Spec<<<#b, #t>>>(%x, %i) {\n"
                                 "    @bid = #b.indices()\n"
                                 "    @tid = #t.indices()\n"
                                 "    #me:[].thread = #t.scalar()\n"
                                 "    #w:[4:32].[32:1].thread = #t.tile([32])\n"
                                 "    @warp, _ = #w.indices()\n"
                                 "    #mine:[32:1].thread = #w[@warp]\n"
                                 "    %s:[8,16].fp16.SH.swizzle(2, 3, 3)\n"
                                 "    %bar:[].mbar.SH\n"
                                 "    %other:[8,16:1,8].fp16.SH = %s.peer(1)\n"
                                 "    %r:[2].[4].fp32.RF\n"
                                 "    %r <- Init<-inf><<<#b, #me>>>()\n"
                                 "    @n = value(%i[0])\n"
                                 "    @m = @warp * 2 + @n\n"
                                 "    for (k = 0; k < N / 8; k += 1) rolled {\n"
                                 "      Sync<mbar.wait, k % 2><<<#b, #me>>>(%bar)\n"
                                 "      for (j = 0; j < 2; j += 1) unroll {\n"
                                 "        if (@m < k) {\n"
                                 "          %r[j] <- Init<0.5><<<#b, #me>>>()\n"
                                 "        } else if (k == 3 || j != 1) {\n"
                                 "          %r[j] <- BinaryPointwise<-><<<#b, #me>>>(%r[0], %r[1])\n"
                                 "        } else {\n"
                                 "          %r[j] <- BinaryPointwise<<><<<#b, #me>>>(%r[0], %r[1])\n"
                                 "        }\n"
                                 "      }\n"
                                 "    }\n"
                                 "    Work<<<#b, #mine>>>(%s) {\n"
                                 "      Sync<cp.wait, (@warp >> @warp % 2)><<<#b, #mine>>>()\n"
                                 "      %r[0] <- Reduction<max, 0><<<#b, #mine>>>(%r)\n"
                                 "    }\n"
                                 "  }\n"
                                 "}\n";

static void test_everything(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct tile_program *p;
  struct err e;
  struct str text = {0};
  if (parse(&mem, everything, &p, &e)) err_print(stderr, &e), fail();
  tile_text(p, &text);
  assert_string_equal(str_text(&text), everything);
  const struct tile_kernel *k = p->kernels[0];
  assert_int_equal(k->arch, 90);
  assert_int_equal(k->cluster, 2);
  assert_int_equal(ex_node(p->ex, k->params[0])->range.hi, 4096);
  assert_int_equal(ex_node(p->ex, k->params[1])->multiple, 8);
  str_free(&text);
  arena_close(&mem);
}

static void test_settings(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct tile_program *p;
  struct err e = {0};
  const char *text = "param M const T = 64 const V = T / 2\n%x:[M].fp32.GL #b:[1].block #t:[V].thread Spec<<<#b,#t>>>(%x) { }";
  struct tile_setting set[] = {{"T", 128, false}, {"M", 7, false}, {"W", 1, false}};
  assert_int_equal(tile_parse_set(&mem, "dir/my-copy.tile", text, 2, set, &p, &e), OK);
  assert_true(p->kernels[0]->groups[p->kernels[0]->threads].size == EX_C(64));
  assert_string_equal(p->kernels[0]->name, "my_copy");
  assert_int_equal(tile_parse_set(&mem, NULL, text, 3, set, &p, &e), USER);
  assert_int_equal(e.id, ERR_OPTION);
  assert_non_null(strstr(e.text, "`W`"));
  arena_close(&mem);
}

// ---- wrong texts ----
// "B:" puts the text into the body of a kernel, at line 2; "H:" before its spec.
#define HEAD "param M %x:[M,64].fp16.GL %y:[64,64].fp16.GL #b:[8].block #t:[32].thread %y <- Spec<<<#b,#t>>>(%x) { #me = #t.scalar()\n"
static const struct {
  const char *text;
  enum errid id;
  int line, col;
  const char *says, *hint; // parts of text and hint
} rows[] = {
    // tokens
    {"", ERR_TILE, 1, 1, "no kernel", ""},
    {"// only a comment", ERR_TILE, 1, 18, "no kernel", ""},
    {"B:@a = 1; @b = 2", ERR_TILE, 2, 7, "`;`", "without `;`"},
    {"B:@a = 4x", ERR_TILE, 2, 6, "neither a number nor the name", ""},
    {"B:@a = 99999999999999999999", ERR_TILE, 2, 6, "larger than 2^40", ""},
    {"B:@a = $", ERR_TILE, 2, 6, "no meaning", ""},
    {"B:@a = \xc3\xa9", ERR_TILE, 2, 6, "byte 0xc3", ""},
    {"B:@a = 1 @1b = 2", ERR_TILE, 2, 9, "neither a number nor", ""},
    // structure
    {"krenel f {", ERR_TILE, 1, 8, "`f`", ""},
    {"kernel f { #b:[1].block }", ERR_TILE, 1, 25, "expected the kernel's spec", ""},
    {"kernel f {\n #b:[1].block #t:[1].thread\n Spec<<<#b,#t>>>() {", ERR_TILE, 3, 21, "the end of the file", "line 3, column 20"},
    {"kernel f { #b:[1].block Spec<<<#b,#b>>>() { } }", ERR_TILE, 1, 25, "threads", ""},
    {"#t:[1].thread #b:[1].block Move<<<#b,#t>>>()", ERR_TILE, 1, 28, "Move", ""},
    {"B:} more {", ERR_TILE, 2, 3, "`more`", ""},
    {"B:for (k = 0; j < 4; k += 1) { }", ERR_TILE, 2, 13, "counts `k`", ""},
    {"B:for (k = 0; k < 4; k += 0) { }", ERR_TILE, 2, 1, "step", ""},
    {"B:for (k = 0; k < M; k += 1) unroll { }", ERR_TILE, 2, 1, "unrolled", ""},
    {"B:if (M < 3 { }", ERR_TILE, 2, 11, "`{`", "line 2, column 4"},
    {"B:if (M < 3) { } else @a = 2", ERR_TILE, 2, 21, "`{` or `if`", ""},
    {"kernel f { #b:[1].block #t:[1].thread Spec<<<#b,#t>>>() { } }\nkernel f {", ERR_DUPLICATE, 2, 8, "`f`", ""},
    // names
    {"B:%a = %z[0, 0]", ERR_NAME, 2, 6, "`%z`", "names are seen"},
    {"B:%tiles = %x.tile([8, 8]) %a = %tils[0, 0]", ERR_NAME, 2, 31, "`%tils`", "did you mean `%tiles`"},
    {"B:@a = width", ERR_NAME, 2, 6, "`width`", ""},
    {"B:Sync<barrier><<<#b, #mee>>>()", ERR_NAME, 2, 21, "`#mee`", "did you mean `#me`"},
    {"B:Sync<barrier><<<#b, #x>>>()", ERR_NAME, 2, 21, "`#x`", "a tensor `%x`"},
    {"B:@a = 1 @a = 2", ERR_DUPLICATE, 2, 8, "`a`", "line 2"},
    {"B:for (k = 0; k < 4; k += 1) { @u = k } @v = @u", ERR_NAME, 2, 44, "`u`", ""},
    {"H:param M", ERR_DUPLICATE, 1, 15, "`M`", ""},
    {"B:% x = %y[0, 0]", ERR_TILE, 2, 1, "name of a tensor", ""},
    {"B:%a = %x", ERR_TILE, 2, 6, "named again", "Move"},
    // types and annotations
    {"B:%r:[4].fp61.RF", ERR_TILE, 2, 8, "`fp61`", "did you mean `fp16`"},
    {"B:%r:[4].fp16.RAM", ERR_TILE, 2, 13, "`RAM` is no memory", "GL, SH, RF"},
    {"B:%r:[4,(2,4):2,1,8].fp16.RF", ERR_TILE, 2, 12, "nested in another way", ""},
    {"B:%r:[4.fp16.RF", ERR_TILE, 2, 6, "`,` or `]`", "column 4"},
    {"B:%r:[0].fp16.RF", ERR_TILE, 2, 4, "at least 1", ""},
    {"B:%r:[M].fp16.SH", ERR_TILE, 2, 4, "constant size", ""},
    {"B:%r:[4].fp16.GL", ERR_TILE, 2, 4, "before the kernel's spec", ""},
    {"B:%r:[8].fp16.SH.swizle(3,3,3)", ERR_TILE, 2, 16, "`swizle`", ""},
    {"B:%a:[4,4].[16,15].fp16.GL = %y.tile([16,16])", ERR_TILE, 2, 4, "this is [4,4:1024,16].[16,16:64,1].fp16.GL, and not [4,4].[16,15].fp16.GL",
     "leave it out"},
    {"B:%a:[4,4:1,4].[16,16].fp16.GL = %y.tile([16,16])", ERR_TILE, 2, 4, "and not [4,4:1,4].[16,16]", ""},
    {"B:%a:[4,4].[16,16].fp32.GL = %y.tile([16,16])", ERR_TILE, 2, 4, "fp32", ""},
    {"B:#q:[4].[9].thread = #t.tile([8])", ERR_TILE, 2, 4, "[4:8].[8:1].thread", "annotation"},
    {"H:%a = %x.tile([8,8])", ERR_TILE, 1, 9, "in the body", "behind"},
    // views and groups
    {"B:%a = %x.tile([8])", ERR_TILE, 2, 9, "1 dimensions in the tile", ""},
    {"B:%a = %x.tlie([8,8])", ERR_TILE, 2, 9, "`tlie`", "did you mean `tile`"},
    {"B:%a = %y[1]", ERR_TILE, 2, 8, "1 coordinates for 2", ""},
    {"B:%a = %y[64, 0]", ERR_TILE, 2, 8, "outside", ""},
    {"B:%a = %y.tile([16,16])[4,0]", ERR_TILE, 2, 22, "outside", ""},
    {"B:%a = %y.reshape(1, [64,64])", ERR_TILE, 2, 9, "no level 1", ""},
    {"B:%a = %y.peer(0)", ERR_TILE, 2, 9, "shared memory", ""},
    {"B:@a, @b = #t.indices()", ERR_TILE, 2, 13, "2 names for the 1", ""},
    {"B:#q = #t.tile([8]) (@a, @b), @c = #q.indices()", ERR_TILE, 2, 20, "grouped in another way", ""},
    // expressions
    {"B:@a = M / (M - M)", ERR_TILE, 2, 8, "division by 0", ""},
    {"B:@a = M / (M - 1)", ERR_TILE, 2, 8, "may be zero", "range"},
    {"B:@a = 4 % 0", ERR_TILE, 2, 8, "division by 0", ""},
    {"B:@a = mim(1, 2)", ERR_TILE, 2, 6, "`mim`", "did you mean `min`"},
    {"B:@a = min(1)", ERR_TILE, 2, 11, "second argument", ""},
    {"B:@a = 1 +", ERR_TILE, 3, 1, "an expression", ""},
    {"B:@a = 1099511627776 * 1099511627776", ERR_LIMIT, 2, 6, "62 bits", ""},
    // specs
    {"B:%y <- Mov<<<#b, #t>>>(%x)", ERR_TILE, 2, 7, "`Mov`", "did you mean `Move`"},
    {"B:%y <- Move<<<#t, #b>>>(%x)", ERR_TILE, 2, 7, "blocks", ""},
    {"B:%y <- Move<<<#b, #t>>>()", ERR_TILE, 2, 7, "number of inputs", ""},
    {"B:%y <- UnaryPointwise<exq><<<#b, #t>>>(%y)", ERR_TILE, 2, 22, "`exq`", "did you mean `exp`"},
    {"B:%y <- Init<1.5.2><<<#b, #t>>>()", ERR_TILE, 2, 12, "`1.5.2`", ""},
    {"B:Sync<cp.wait, 1, 2, 3, 4, 5><<<#b, #t>>>()", ERR_LIMIT, 2, 27, "more than 4", ""},
    {"B:%y <- Move(%x)", ERR_TILE, 2, 11, "<<<#blocks, #threads>>>", ""},
    {"B:%y <- Spec<<<#b, #t>>>(%x)", ERR_TILE, 2, 7, "needs a body", ""},
    // directives
    {"H:target sm_81", ERR_TILE, 1, 16, "`sm_81`", "did you mean `sm_80`"},
    {"H:param K in 8..4", ERR_TILE, 1, 23, "8 .. 2147418112", ""},
    {"H:cluster 0", ERR_TILE, 1, 17, "1 .. 16", ""},
    {"H:order rows", ERR_TILE, 1, 15, "`row` or `column`", ""},
};

static const char *whole_text(struct arena *mem, const char *text)
{
  if (text[0] == 'B' && text[1] == ':') return arena_printf(mem, "%s%s\n}", HEAD, text + 2);
  if (text[0] == 'H' && text[1] == ':') return arena_printf(mem, "param M %s %s}", text + 2, &HEAD[strlen("param M ")]);
  return text;
}

static void test_errors(void **state)
{
  (void)state;
  int wrong = 0;
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    struct err e;
    struct tile_program *p;
    const char *text = whole_text(&mem, rows[i].text);
    int s = parse(&mem, text, &p, &e);
    bool good = s == USER && e.id == rows[i].id && e.at.line == rows[i].line && e.at.col == rows[i].col && strstr(e.text, rows[i].says) &&
                strstr(e.hint, rows[i].hint) && *e.hint && e.at.file;
    if (!good) {
      if (s) err_print(stderr, &e);
      print_error("%s\nwanted %s at %d:%d saying \"%s\", hint \"%s\"\n\n", text, err_name(rows[i].id), rows[i].line, rows[i].col, rows[i].says,
                  rows[i].hint);
    }
    wrong += !good;
    arena_close(&mem);
  }
  assert_int_equal(wrong, 0);
}

// ---- limits ----
static void repeated(struct str *s, const char *before, const char *open, const char *middle, const char *close, int n, const char *after)
{
  s->n = 0;
  str_add(s, "%s", before);
  for (int i = 0; i < n; i++) str_add(s, "%s", open);
  str_add(s, "%s", middle);
  for (int i = 0; i < n; i++) str_add(s, "%s", close);
  str_add(s, "%s", after);
}

static void test_limits(void **state)
{
  (void)state;
  static const struct {
    const char *before, *open, *middle, *close, *after;
    int good; // so many are read
    int most; // so many are tried at last
  } deep[] = {
      {"@a = ", "(", "1", ")", "", 20, 100000},
      {"@a = ", "-", "1", "", "", 20, 100000},
      {"@a = ", "1 < 2 ? 1 : ", "1", "", "", 20, 50000},
      {"@a = M", " + M", "", "", "", 1000, 100000},
      {"", "if (M < 3) {", "", "}", "", 20, 50000},
      {"", "if (M < 3) { } else ", "{}", "", "", 0, 50000},
      {"", "for (i = 0; i < 2; i += 1) {", "", "}", "", 20, 20000},
      {"%r:[", "(1,", "1", ")", "].fp16.RF", 5, 100000},
      {"%a = %y", ".reshape(0,[64,64])", "", "", "", 20, 20000},
      {"#a = #t", ".tile(8)", "", "", "", 2, 20000},
      {"%r:[1", ",1", "", "", "].fp16.RF", 20, 100000},
      {"%y[0,0] <- Spec<<<#b,#t>>>(%y[0,0]", ",%y[0,0]", "", "", ") {}", 10, 20000},
  };
  for (size_t i = 0; i < COUNT(deep); i++)
    for (int n = deep[i].good; n; n = n == deep[i].good && deep[i].most > n ? deep[i].most : 0) {
      struct arena mem = {0};
      struct err e;
      struct tile_program *p;
      struct str s = {0};
      char *before = arena_printf(&mem, "%s%s", HEAD, deep[i].before), *after = arena_printf(&mem, "%s }", deep[i].after);
      repeated(&s, before, deep[i].open, deep[i].middle, deep[i].close, n, after);
      int status = parse(&mem, str_text(&s), &p, &e);
      bool sum = !strcmp(deep[i].open, " + M"); // terms are added, so that any number of them is one
      if (status != (n == deep[i].good || sum ? OK : USER)) {
        if (status) err_print(stderr, &e);
        fail_msg("%s %d times", deep[i].open, n);
      }
      str_free(&s);
      arena_close(&mem);
    }
}

static void test_sizes(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e;
  struct tile_program *p;
  struct str s = {0};
  while (s.n <= 1 << 20) str_add(&s, "%*s", 1000, "");
  assert_int_equal(parse(&mem, str_text(&s), &p, &e), USER);
  assert_int_equal(e.id, ERR_LIMIT);
  s.n = 0;
  str_add(&s, "param a0");
  for (int i = 1; i < 100; i++) str_add(&s, ", a%d", i);
  assert_int_equal(parse(&mem, str_text(&s), &p, &e), USER);
  assert_int_equal(e.id, ERR_LIMIT);
  s.n = 0;
  str_add(&s, "param ");
  for (int i = 0; i < 3000; i++) str_add(&s, "a");
  assert_int_equal(parse(&mem, str_text(&s), &p, &e), USER);
  assert_non_null(strstr(e.text, "too long"));
  const char *text = "%x:[1099511627776,1099511627776,1099511627776].fp16.GL";
  assert_int_equal(parse(&mem, text, &p, &e), USER);
  assert_int_equal(e.id, ERR_LIMIT);
  str_free(&s);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_notes),  cmocka_unit_test(test_offsets),    cmocka_unit_test(test_indices),
      cmocka_unit_test(test_print),  cmocka_unit_test(test_everything), cmocka_unit_test(test_settings),
      cmocka_unit_test(test_errors), cmocka_unit_test(test_limits),     cmocka_unit_test(test_sizes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
