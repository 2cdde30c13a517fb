// Control flow as C: divergent conditions around collective statements, barriers of parts of a block, loops that differ between threads,
// conditions on elements, blocks that are not whole warps, and reserved names of C. The interpreter must find no error in these kernels, and all
// bits must agree.
// test: timeout 300
#include "held.h"

static const struct {
  const char *words, *text;
} kernels[] = {
    // A condition of lanes around a shuffle and a reduction of groups that are all in or all out.
    {"masked", "order row\nkernel masked {\n  %x:[64].fp32.GL\n  %y:[64].fp32.GL\n  #grid:[1].block\n  #t:[64].thread\n"
               "  %y <- Spec<<<#grid, #t>>>(%x) {\n    @i = #t.indices()\n    #me = #t.scalar()\n"
               "    #eights:[8].[8].thread = #t.tile([8])\n    @e, @l = #eights.indices()\n    #eight:[8].thread = #eights[@e]\n"
               "    %v:[].fp32.RF\n    %w:[].fp32.RF\n    %v <- Move<<<#grid, #me>>>(%x[@i])\n    %w <- Init<0.5><<<#grid, "
               "#me>>>()\n"
               "    if (@e % 2 == 1) {\n      %w <- Shfl<down, 3><<<#grid, #eight>>>(%v)\n      %v <- Reduction<max><<<#grid, "
               "#eight>>>(%w)\n"
               "    } else {\n      %v <- Shfl<bfly, 5><<<#grid, #eight>>>(%v)\n    }\n"
               "    %v <- BinaryPointwise<+><<<#grid, #me>>>(%v, %w)\n    %y[@i] <- Move<<<#grid, #me>>>(%v)\n  }\n}\n"},
    // Barriers of halves in two branches, a loop around one of them, a condition of lanes inside.
    {"branches", "order row\nkernel branches {\n  %x:[128].fp32.GL\n  %y:[128].fp32.GL\n  #grid:[1].block\n  #t:[128].thread\n"
                 "  %y <- Spec<<<#grid, #t>>>(%x) {\n    @i = #t.indices()\n    #me = #t.scalar()\n"
                 "    #halves:[2].[64].thread = #t.tile([64])\n    @h, @j = #halves.indices()\n    #half:[64].thread = "
                 "#halves[@h]\n"
                 "    %s:[2].[64].fp32.SH\n    %v:[].fp32.RF\n    %u:[].fp32.RF\n    %v <- Move<<<#grid, #me>>>(%x[@i])\n"
                 "    if (@h == 0) {\n      for (r = 0; r < 3; r += 1) {\n        %s[0][@j] <- Move<<<#grid, #me>>>(%v)\n"
                 "        Sync<barrier><<<#grid, #half>>>()\n        if (@j % 3 == r) {\n          %u <- Move<<<#grid, "
                 "#me>>>(%s[0][63 - @j])\n"
                 "          %v <- BinaryPointwise<+><<<#grid, #me>>>(%v, %u)\n        }\n        Sync<barrier><<<#grid, "
                 "#half>>>()\n      }\n"
                 "    } else {\n      %s[1][@j] <- Move<<<#grid, #me>>>(%v)\n      Sync<barrier><<<#grid, #half>>>()\n"
                 "      %v <- Move<<<#grid, #me>>>(%s[1][(@j + 7) % 64])\n    }\n    %y[@i] <- Move<<<#grid, #me>>>(%v)\n  }\n}\n"},
    // Every thread has rounds of its own; registers of the block take part.
    {"strided,N=1000", "order row\nkernel strided {\n  param N\n  %x:[N].fp32.GL\n  %y:[96].fp32.GL\n  #grid:[1].block\n  "
                       "#t:[96].thread\n"
                       "  %y <- Spec<<<#grid, #t>>>(%x) {\n    @i = #t.indices()\n    #me = #t.scalar()\n    #warps:[3].[32].thread = "
                       "#t.tile([32])\n"
                       "    @w, @l = #warps.indices()\n    #warp:[32].thread = #warps[@w]\n    %sum:[2].fp32.RF\n    %v:[].fp32.RF\n"
                       "    %sum <- Init<0.0><<<#grid, #me>>>()\n    for (j = @i; j < N; j += 96) {\n      %v <- Move<<<#grid, "
                       "#me>>>(%x[j])\n"
                       "      %sum[j % 2] <- BinaryPointwise<+><<<#grid, #me>>>(%sum[j % 2], %v)\n    }\n"
                       "    %v <- Reduction<+><<<#grid, #warp>>>(%sum[0])\n"
                       "    for (r = @w; r < 5; r += 2) {\n      %v <- BinaryPointwise<+><<<#grid, #me>>>(%v, %sum[1])\n      %v <- "
                       "Shfl<idx, r><<<#grid, #warp>>>(%v)\n    }\n"
                       "    %y[@i] <- Move<<<#grid, #me>>>(%v)\n  }\n}\n"},
    // 100 threads: the last warp has four. A barrier, and values of elements that lanes, and all, agree on.
    {"short", "order row\nkernel short {\n  %x:[4, 100].fp32.GL\n  %n:[100].i32.GL\n  %y:[4, 100].fp32.GL\n  #grid:[4].block\n  "
              "#t:[100].thread\n"
              "  %y <- Spec<<<#grid, #t>>>(%x, %n) {\n    @b = #grid.indices()\n    @i = #t.indices()\n    #me = #t.scalar()\n"
              "    #fours:[25].[4].thread = #t.tile([4])\n    @f, _ = #fours.indices()\n    #four:[4].thread = #fours[@f]\n"
              "    %s:[100].fp32.SH\n    %v:[].fp32.RF\n    %k:[].i32.RF\n    %v <- Move<<<#grid, #me>>>(%x[@b, @i])\n"
              "    %v <- Reduction<+><<<#grid, #four>>>(%v)\n    %s[@i] <- Move<<<#grid, #me>>>(%v)\n    Sync<barrier><<<#grid, "
              "#t>>>()\n"
              "    @all = value(%n[7])\n    @mine = value(%n[@i])\n    %k <- Move<<<#grid, #me>>>(%n[99 - @i])\n    @held = "
              "value(%k)\n"
              "    Sync<barrier><<<#grid, #t>>>()\n    for (r = 0; r < 2; r += 1) {\n"
              "      if (@all > 2) {\n        %v <- Move<<<#grid, #me>>>(%s[min(99, max(0, @mine * 3 + @held + r))])\n      } "
              "else {\n"
              "        %v <- Move<<<#grid, #me>>>(%s[99 - @i])\n      }\n      Sync<barrier><<<#grid, #t>>>()\n"
              "      %s[@i] <- Move<<<#grid, #me>>>(%v)\n      Sync<barrier><<<#grid, #t>>>()\n    }\n"
              "    %y[@b, @i] <- Move<<<#grid, #me>>>(%v)\n  }\n}\n"},
    // One thread a block; no sizes.
    {"single", "order row\nkernel single {\n  %x:[8].bf16.GL\n  %y:[8].bf16.GL\n  #grid:[8].block\n  #t:[1].thread\n"
               "  %y <- Spec<<<#grid, #t>>>(%x) {\n    @b = #grid.indices()\n    #me = #t.scalar()\n    %v:[].bf16.RF\n"
               "    %v <- UnaryPointwise<square><<<#grid, #me>>>(%x[7 - @b])\n    %y[@b] <- Move<<<#grid, #me>>>(%v)\n  }\n}\n"},
    // Sixteen threads, all in one short warp, around a barrier and a swizzle that shifts to the left.
    {"half_warp", "order row\nkernel half_warp {\n  %x:[16, 8].fp32.GL\n  %y:[16, 8].fp32.GL\n  #grid:[1].block\n  #t:[16].thread\n"
                  "  %y <- Spec<<<#grid, #t>>>(%x) {\n    @i = #t.indices()\n    #me = #t.scalar()\n    %s:[16, "
                  "8].fp32.SH.swizzle(2, 2, -3)\n"
                  "    for (j = 0; j < 8; j += 1) {\n      %s[@i, j] <- Move<<<#grid, #me>>>(%x[@i, j])\n    }\n    "
                  "Sync<barrier><<<#grid, #t>>>()\n"
                  "    for (j = 0; j < 8; j += 1) {\n      %y[@i, j] <- Move<<<#grid, #me>>>(%s[15 - @i, 7 - j])\n    }\n  }\n}\n"},
    // Products where a condition of warps holds, and where one of lanes does that all lanes of a warp agree on.
    {"some_warps", "order row\nkernel some_warps {\n  %x:[4, 32, 4].fp16.GL\n  %f:[4].i32.GL\n  %y:[4, 32, 4].fp32.GL\n  "
                   "#grid:[1].block\n  #t:[128].thread\n"
                   "  %y <- Spec<<<#grid, #t>>>(%x, %f) {\n    #me = #t.scalar()\n    #warps:[4].[32].thread = #t.tile([32])\n"
                   "    @w, @l = #warps.indices()\n    #warp:[32].thread = #warps[@w]\n    %c:[2, 1].[1, 2].fp32.RF\n    %c <- "
                   "Init<1.0><<<#grid, #me>>>()\n"
                   "    %k:[].i32.RF\n    %k <- Move<<<#grid, #me>>>(%f[@w])\n    @go = value(%k)\n"
                   "    if (@w != 2) {\n      %a:[2, 1].[1, 2].fp16.RF\n      %b:[1, 1].[2, 1].fp16.RF\n"
                   "      for (e = 0; e < 2; e += 1) unroll {\n        for (m = 0; m < 2; m += 1) unroll {\n"
                   "          %a[m, 0][0, e] <- Move<<<#grid, #me>>>(%x[@w, @l, m * 2 + e])\n        }\n"
                   "        %b[0, 0][e, 0] <- Move<<<#grid, #me>>>(%x[@w, 31 - @l, e])\n      }\n"
                   "      %c <- MatMul<<<#grid, #warp>>>(%a, %b)\n      if (@go % 2 == 1) {\n        %c <- MatMul<<<#grid, "
                   "#warp>>>(%a, %b)\n      }\n    }\n"
                   "    for (e = 0; e < 4; e += 1) unroll {\n      %y[@w, @l, e] <- Move<<<#grid, #me>>>(%c[e / 2, 0][0, e % 2])\n   "
                   " }\n  }\n}\n"},
    // A name that hides another one, of which a view is made, before and in a loop; two addresses that are swizzled.
    {"hidden", "order row\nkernel hidden {\n  %x:[256].fp16.GL\n  %y:[3, 256].fp16.GL\n  #grid:[1].block\n  #t:[32].thread\n"
               "  %y <- Spec<<<#grid, #t>>>(%x) {\n    @i = #t.indices()\n    #me = #t.scalar()\n    %s:[64, "
               "8].fp16.SH.swizzle(3, 3, 3)\n"
               "    %a:[8].fp16.RF\n    %b:[8].fp16.RF\n    %a <- Move<<<#grid, #me>>>(%x.tile([8])[@i])\n"
               "    %s.tile([1, 8])[@i, 0] <- Move<<<#grid, #me>>>(%a)\n    %s.tile([1, 8])[63 - @i, 0] <- Move<<<#grid, "
               "#me>>>(%a)\n"
               "    Sync<barrier><<<#grid, #t>>>()\n    @s = 63 - @i\n    %v = %s.tile([1, 8])[@s, 0]\n"
               "    %a <- Shfl<bfly, 1><<<#grid, #t>>>(%a)\n"
               "    for (k = 0; k < 3; k += 1) {\n      @s = (@i + k) % 32\n      %b <- Move<<<#grid, #me>>>(%v)\n"
               "      %b <- BinaryPointwise<+><<<#grid, #me>>>(%b, %a)\n"
               "      for (e = 0; e < 1; e += 1) {\n        @i = @s\n        %y.tile([1, 8])[k, @i] <- Move<<<#grid, "
               "#me>>>(%b)\n        %a <- Move<<<#grid, #me>>>(%v)\n      }\n"
               "      %a <- Shfl<up, 1><<<#grid, #t>>>(%a)\n    }\n  }\n}\n"},
    // Names.
    {"mma,int64_t=5", "order row\nkernel mma {\n  param int64_t\n  %restrict:[int64_t].fp32.GL\n  "
                      "%memcpy:[int64_t].fp32.GL\n  #grid:[1].block\n  #t:[64].thread\n"
                      "  %memcpy <- Spec<<<#grid, #t>>>(%restrict) {\n    @lx = #t.indices()\n    #me = #t.scalar()\n  "
                      "  %wx:[].fp32.RF\n    %m_:[].fp32.SH\n"
                      "    @sum = @lx\n    %wx <- Move<<<#grid, #me>>>(%restrict.tile([64])[0][@sum])\n    if (@lx == "
                      "0) {\n      %m_ <- Move<<<#grid, #me>>>(%wx)\n    }\n"
                      "    Sync<barrier><<<#grid, #t>>>()\n    %wx <- BinaryPointwise<+><<<#grid, #me>>>(%wx, %m_)\n"
                      "    %memcpy.tile([64])[0][@lx] <- Move<<<#grid, #me>>>(%wx)\n  }\n}\n"},
    {"div", "order row\nkernel div {\n  %x:[32].fp32.GL\n  %exp:[32].fp32.GL\n  #grid:[1].block\n  #t:[32].thread\n"
            "  %exp <- Spec<<<#grid, #t>>>(%x) {\n    @i = #t.indices()\n    #me = #t.scalar()\n    %r:[].fp32.RF\n"
            "    %r <- UnaryPointwise<exp><<<#grid, #me>>>(%x[(@i * 3 - 7) / 5 % 32])\n    %exp[@i] <- Move<<<#grid, "
            "#me>>>(%r)\n  }\n}\n"},
};

static void control_flow(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(kernels); i++) {
    struct held h;
    held_text(&h, kernels[i].words, kernels[i].text);
    held_same(&h);
  }
}

// Blocks that add to the same places: as many as there are, in whatever order they run.
static void atomics_of_blocks(void **state)
{
  (void)state;
  struct held h;
  held_text(&h, "total,%y=0,N=1000",
            "order row\nkernel total {\n  param N\n  %x:[N, 32].i32.GL\n  %y:[4].i32.GL\n  #grid:[N].block\n  "
            "#t:[32].thread\n"
            "  %y <- Spec<<<#grid, #t>>>(%x) {\n    @b = #grid.indices()\n    @i = #t.indices()\n    #me = #t.scalar()\n"
            "    %v:[].i32.RF\n    %v <- Move<<<#grid, #me>>>(%x[@b, @i])\n    %y[@i % 4] <- Move<red.add><<<#grid, "
            "#me>>>(%v)\n  }\n}\n");
  assert_int_equal(h.compared, 4);
  held_same(&h);
}

// A loop with a barrier, whose number of iterations differs between threads.
static void divergent_loops(void **state)
{
  (void)state;
  refused("lanes",
          "order row\nkernel lanes {\n  %x:[32].fp32.GL\n  #grid:[1].block\n  #t:[32].thread\n  %x <- Spec<<<#grid, "
          "#t>>>(%x) {\n"
          "    @i = #t.indices()\n    #me = #t.scalar()\n    %v:[].fp32.RF\n    %v <- Move<<<#grid, #me>>>(%x[@i])\n"
          "    for (j = 0; j < @i; j += 1) {\n      %v <- Shfl<bfly, 1><<<#grid, #t>>>(%v)\n    }\n    %x[@i] <- "
          "Move<<<#grid, #me>>>(%v)\n  }\n}\n",
          "the bounds of this loop differ between the lanes of a warp");
  refused("warps",
          "order row\nkernel warps {\n  %x:[128].fp32.GL\n  #grid:[1].block\n  #t:[128].thread\n  %x <- Spec<<<#grid, "
          "#t>>>(%x) {\n"
          "    @i = #t.indices()\n    #me = #t.scalar()\n    #halves:[2].[64].thread = #t.tile([64])\n    @h, _ = "
          "#halves.indices()\n"
          "    #half:[64].thread = #halves[@h]\n    for (j = 0; j < @h; j += 1) {\n      Sync<barrier><<<#grid, "
          "#half>>>()\n    }\n"
          "    %v:[].fp32.RF\n    %v <- Move<<<#grid, #me>>>(%x[@i])\n    %x[@i] <- Move<<<#grid, #me>>>(%v)\n  }\n}\n",
          "the bounds of this loop differ between the threads of a block");
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(control_flow), cmocka_unit_test(atomics_of_blocks), cmocka_unit_test(divergent_loops)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
