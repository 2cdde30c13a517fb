// Specs to instructions: the table of section 5.2 of the Graphene paper and the other rows, spec by spec; errors with their reasons; all kernels of
// the tree.
#include "lowered.h"
#include "texts.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct {
  const char *g, *body;
  int arch;
  const char *row;
} lowers[] = {
    // the table of the paper
    {"[8].fp32.GL", "%r:[].fp32.RF %r <- Move" ME "(%g[0])", 80, "ld.global.u32"},
    {"[8].fp16.GL", "%r:[8].fp16.RF %r <- Move" ME "(%g)", 80, "ld.global.v4.u32"},
    {"[4].fp32.GL", "%r:[4].fp32.RF %s:[4].fp32.SH %s <- Move" ME "(%r)", 80, "st.shared.v4.u32"},
    {"[1].i32.GL", "%s:[1,8].fp16.SH %r:[2,2].[1,2].fp16.RF %r <- Move" WARP "(%s)", 80, "ldmatrix.x4"},
    {"[1].i32.GL", "%a:[].fp16.RF %c:[].fp16.RF %c <- BinaryPointwise<*>" ME "(%a, %a)", 80, "mul.fp16"},
    {"[1].i32.GL", "%a:[2].fp16.RF %c:[2].fp16.RF %c <- BinaryPointwise<+>" ME "(%a, %a)", 80, "add.fp16x2"},
    {"[1].i32.GL", "%a:[].fp16.RF %c:[].fp16.RF %c <- MatMul" ME "(%a, %a)", 80, "fma.fp16"},
    {"[1].i32.GL", "%a:[2].fp16.RF %c:[2].fp16.RF %c <- MatMul" ME "(%a, %a)", 80, "fma.fp16x2"},
    {"[1].i32.GL", "%a:[].fp32.RF %c:[].fp32.RF %c <- MatMul" ME "(%a, %a)", 80, "fma.fp32"},
    {"[1].i32.GL", "%a:[4].fp32.RF %c:[4].fp32.RF %c <- MatMul" ME "(%a, %a)", 90, "fma.fp32"},
    {"[1].i32.GL", "%a:[4].fp32.RF %c:[4].fp32.RF %c <- MatMul" ME "(%a, %a)", 100, "fma.fp32x2"},
    {"[1].i32.GL", "%a:[3].fp32.RF %c:[3].fp32.RF %c <- MatMul" ME "(%a, %a)", 100, "fma.fp32"},
    {"[16].fp16.GL", "%r:[16].fp16.RF %r <- Move" ME "(%g)", 100, "ld.global.v8.u32"},
    {"[16].fp16.GL", "%r:[16].fp16.RF %g <- Move" ME "(%r)", 100, "st.global.v8.u32"},
    {"[1].i32.GL", "%a:[4,1].fp16.RF %b:[1,4].fp16.RF %c:[2,4].fp32.RF %c <- MatMul<<<#b, #pair>>>(%a, %b)", 80, "mma.m8n8k4.fp32.fp16"},
    {"[1].i32.GL", "%a:[2,2].[1,2].fp16.RF %b:[2,1].[2,1].fp16.RF %c:[2,1].[1,2].fp32.RF %c <- MatMul" WARP "(%a, %b)", 80, "mma.m16n8k16.fp32.fp16"},
    // moves: the widest that is contiguous and aligned
    {"[1].fp16.GL", "%r:[1].fp16.RF %r <- Move" ME "(%g)", 80, "ld.global.u16"},
    {"[6].fp16.GL", "%r:[6].fp16.RF %r <- Move" ME "(%g)", 80, "ld.global.u32"},
    {"[4,2].fp16.GL", "%r:[4,2].fp16.RF %r <- Move" ME "(%g)", 80, "ld.global.v4.u32"},
    {"[4,2:3,1].fp16.GL", "%r:[4,2].fp16.RF %r <- Move" ME "(%g)", 80, "ld.global.u16"},
    {"[4,2:4,1].fp16.GL", "%r:[4,2].fp16.RF %r <- Move" ME "(%g)", 80, "ld.global.u32"},
    {"[8:2].fp16.GL", "%r:[8].fp16.RF %r <- Move" ME "(%g)", 80, "ld.global.u16"},
    {"[64,16].fp16.GL", "%r:[1,4].fp16.RF %r <- Move" ME "(%g.tile([1,4])[@wi, @in4])", 80, "ld.global.v2.u32"},
    {"[64,15].fp16.GL", "%r:[1,3].fp16.RF %r <- Move" ME "(%g.tile([1,3])[@wi, @in4])", 80, "ld.global.u16"},
    {"[16].fp16.GL", "%r:[16].fp16.RF %r <- Move" ME "(%g)", 80, "ld.global.v4.u32"},
    {"[4].fp64.GL", "%r:[4].fp64.RF %r <- Move" ME "(%g)", 80, "ld.global.v4.u32"},
    {"[1].fp64.GL", "%r:[1].fp64.RF %r <- Move" ME "(%g)", 80, "ld.global.v2.u32"},
    {"[8].fp16.GL", "%s:[8].fp16.SH %s <- Move" ME "(%g)", 80, "ldst.global.shared.v4.u32"},
    {"[8].fp16.GL", "%r:[8].fp16.RF %q:[8].fp16.RF %q <- Move" ME "(%r)", 80, "mov.v4.u32"},
    {"[1].i32.GL", "%r:[8].fp16.RF %q:[8].fp16.RF %q <- Move<shift, @wi % 9>" ME "(%r, %r)", 80, "shift.x8.fp16"},
    {"[8].fp16.GL", "%s:[8].fp16.SH.swizzle(1, 2, 1) %r:[8].fp16.RF %r <- Move" ME "(%s)", 80, "ld.shared.v2.u32"},
    {"[M, N].fp16.GL", "%r:[1,8].fp16.RF %r <- Move" ME "(%g.tile([128,64])[@bid, 0].tile([1,8])[@wi, @in4])", 80, "ld.global.v4.u32"},
    {"[M, M].fp16.GL", "%r:[1,8].fp16.RF %r <- Move" ME "(%g.tile([128,64])[@bid, 0].tile([1,8])[@wi, @in4])", 80, "ld.global.u16"},
    {"[M].fp16.GL", "%r:[8].fp16.RF %r <- Move" ME "(%g.tile([8])[@bid])", 80, "ld.global.u16"}, // the end may cut a vector
    {"[8].fp32.GL", "%r:[8].fp32.RF %g <- Move<st.global.cs>" ME "(%r)", 80, "st.global.cs.v4.u32"},
    {"[8].fp32.GL", "%r:[8].fp32.RF %r <- Move<ld.global.nc>" ME "(%g)", 80, "ld.global.nc.v4.u32"},
    {"[8].fp32.GL", "%r:[8].fp32.RF %r <- Move<ld.global.nc.u32>" ME "(%g)", 80, "ld.global.nc.u32"},
    {"[8].fp32.GL", "%s:[8].fp32.SH %r:[8].fp32.RF %r <- Move" ME "(%s.peer(1 - @bid % 2))", 90, "ld.shared.cluster.v4.u32"},
    {"[8].fp32.GL", "%s:[8].fp32.SH %r:[8].fp32.RF %s.peer(0) <- Move" ME "(%r)", 90, "st.shared.cluster.v4.u32"},
    {"[8].fp16.GL", "%s:[8].fp16.SH %s <- Move<cp.async>" ME "(%g)", 80, "cp.async.cg.16"},
    {"[8].fp16.GL", "%s:[8].fp16.SH %s <- Move<cp.async.ca>" ME "(%g)", 80, "cp.async.ca.16"},
    {"[4].fp16.GL", "%s:[4].fp16.SH %s <- Move<cp.async>" ME "(%g)", 80, "cp.async.ca.8"},
    {"[2].fp16.GL", "%s:[2].fp16.SH %s <- Move<cp.async>" ME "(%g)", 80, "cp.async.ca.4"},
    {"[1].i32.GL", "%s:[1,8].fp16.SH %r:[2,1].[1,2].fp16.RF %r <- Move" WARP "(%s)", 80, "ldmatrix.x2"},
    {"[1].i32.GL", "%s:[1,8].fp16.SH %r:[1,2].bf16.RF %u:[1,8].bf16.SH %r <- Move" WARP "(%u)", 80, "ldmatrix.x1"},
    {"[1].i32.GL", "%s:[1,8].fp16.SH %r:[2,2].[2,1].fp16.RF %r <- Move<ldmatrix.trans>" WARP "(%s)", 80, "ldmatrix.trans.x4"},
    {"[1].i32.GL", "%s:[1,8].fp16.SH %r:[2,2].[1,2].fp16.RF %s <- Move" WARP "(%r)", 90, "stmatrix.x4"},
    {"[1].i32.GL", "%s:[1,8].fp16.SH %r:[2,2].[1,2].fp16.RF %s <- Move<stmatrix.trans>" WARP "(%r)", 90, "stmatrix.trans.x4"},
    // atomics
    {"[4].fp32.GL", "%r:[4].fp32.RF %g <- Move<red.add>" ME "(%r)", 80, "red.add.fp32.GL"},
    {"[4].fp32.GL", "%r:[4].fp32.RF %g <- Move<red.add>" ME "(%r)", 90, "red.add.v4.fp32.GL"},
    {"[2].fp16.GL", "%r:[2].fp16.RF %g <- Move<red.add>" ME "(%r)", 80, "red.add.fp16x2.GL"},
    {"[1].i32.GL", "%r:[].i32.RF %old:[].i32.RF %old <- Move<atom.add>" ME "(%g[0], %r)", 80, "atom.add.i32.GL"},
    {"[1].i32.GL", "%s:[].i32.SH %r:[].i32.RF %s <- Move<red.max>" ME "(%r)", 80, "red.max.i32.SH"},
    // products
    {"[1].i32.GL", "%a:[2,2].[1,2].bf16.RF %b:[2,1].[2,1].bf16.RF %c:[2,1].[1,2].fp32.RF %c <- MatMul" WARP "(%a, %b)", 80, "mma.m16n8k16.fp32.bf16"},
    {"[1].i32.GL", "%a:[2,2].[1,2].fp16.RF %b:[2,1].[2,1].fp16.RF %c:[2,1].[1,2].fp16.RF %c <- MatMul" WARP "(%a, %b)", 80, "mma.m16n8k16.fp16.fp16"},
    {"[1].i32.GL", "%a:[2,1].[1,2].fp16.RF %b:[1,1].[2,1].fp16.RF %c:[2,1].[1,2].fp32.RF %c <- MatMul" WARP "(%a, %b)", 80, "mma.m16n8k8.fp32.fp16"},
    {"[1].i32.GL", "%a:[4,8].fp16.RF %b:[8,2].fp16.RF %c:[4,2].fp32.RF %c <- MatMul" ME "(%a, %b)", 80, "fma.fp32.fp16"},
    {"[1].i32.GL",
     "%a:[64,64].fp16.SH.swizzle(3,3,3) %b:[64,64].fp16.SH.swizzle(3,3,3) %c:[1,8].[2,1].[1,2].fp32.RF "
     "%c <- MatMul<wgmma>" GROUP "(%a.tile([64,16])[0, 1], %b.tile([16,64])[1, 0])",
     90, "wgmma.m64n64k16.fp32.fp16"},
    {"[1].i32.GL",
     "%a:[2,2].[1,2].bf16.RF %b:[16,32].bf16.SH.swizzle(2,3,3) %c:[1,4].[2,1].[1,2].fp32.RF "
     "%c <- MatMul<wgmma, 0>" GROUP "(%a, %b)",
     90, "wgmma.m64n32k16.fp32.bf16.rs"},
    // pointwise
    {"[8].fp32.GL", "%r:[8].fp32.RF %r <- UnaryPointwise<exp>" ME "(%r)", 80, "exp.fp32"},
    {"[8].fp32.GL", "%r:[8].fp32.RF %r <- UnaryPointwise<tanh.approx>" ME "(%r)", 80, "tanh.approx.fp32"},
    {"[8].fp32.GL", "%r:[8].fp16.RF %r <- UnaryPointwise<relu>" ME "(%r)", 80, "relu.fp16x2"},
    {"[8].fp32.GL", "%r:[3].fp16.RF %r <- UnaryPointwise<relu>" ME "(%r)", 80, "relu.fp16"},
    {"[8].fp32.GL", "%r:[8].fp32.RF %h2:[8].fp16.RF %h2 <- UnaryPointwise<cast>" ME "(%r)", 80, "cast.fp32x2.fp16x2"},
    {"[8].fp32.GL", "%r:[].i32.RF %h2:[].bf16.RF %h2 <- UnaryPointwise<cast>" ME "(%r)", 80, "cast.i32.bf16"},
    {"[8].fp32.GL", "%r:[4,2].fp32.RF %q:[4,1].fp32.RF %r <- BinaryPointwise<->" ME "(%r, %q)", 80, "sub.fp32"},
    {"[8].fp16.GL", "%g <- BinaryPointwise<max>" ME "(%g, %h)", 80, "max.fp16x2"}, // in memory
    {"[8].fp32.GL", "%g <- Init<0.5>" ME "()", 80, "init.v4.GL"},
    {"[8].fp32.GL", "%s:[7].fp16.SH %s <- Init<1.0>" ME "()", 80, "init.fp16"},
    {"[8].fp32.GL", "%r:[8].fp64.RF %r <- Init<-inf>" ME "()", 80, "init.fp64"},
    // reductions, shuffles
    {"[8].fp32.GL", "%r:[8].fp16.RF %o:[].fp32.RF %o <- Reduction<+>" ME "(%r)", 80, "reduce.add.fp32.fp16"},
    {"[8].fp32.GL", "%r:[4,8].fp32.RF %o:[4,1].fp32.RF %o <- Reduction<max, 1>" ME "(%r)", 80, "reduce.max.fp32.fp32"},
    {"[8].fp32.GL", "%r:[2].fp32.RF %r <- Reduction<+>" WARP "(%r)", 80, "warp.add.fp32"},
    {"[8].fp32.GL", "%r:[2].i32.RF %r <- Reduction<+>" WARP "(%r)", 80, "redux.add.i32"},
    {"[8].fp32.GL", "%r:[].u32.RF %r <- Reduction<max>" WARP "(%r)", 80, "redux.max.u32"},
    {"[8].fp32.GL", "%r:[].i32.RF %r <- Reduction<*>" WARP "(%r)", 80, "warp.mul.i32"},
    {"[8].fp32.GL", "%r:[].i32.RF %r <- Reduction<min><<<#b, #lanes4>>>(%r)", 80, "warp.min.i32"},
    {"[8].fp32.GL", "%r:[4,8].fp32.RF %o:[].fp32.RF %o <- Reduction<min, 0, 1>" ME "(%r)", 80, "reduce.min.fp32.fp32"},
    {"[8].fp32.GL", "%r:[2].fp32.RF %r <- Reduction<max><<<#b, #lanes4>>>(%r)", 80, "warp.max.fp32"},
    {"[8].fp32.GL", "%r:[2].fp16.RF %r <- Shfl<bfly, 1>" WARP "(%r)", 80, "shfl.bfly.b32"},
    {"[8].fp32.GL", "%r:[].fp32.RF %r <- Shfl<idx, @in4><<<#b, #lanes4>>>(%r)", 80, "shfl.idx.b32"},
    // Sync
    {"[1].i32.GL", "Sync<barrier>" ALL "()", 80, "barrier.block"},
    {"[1].i32.GL", "Sync<barrier>" WARP "()", 80, "barrier.warp"},
    {"[1].i32.GL", "Sync<barrier>" GROUP "()", 80, "barrier.part"},
    {"[1].i32.GL", "Sync<cp.wait, 1>" ME "()", 80, "cp.wait"},
    {"[1].i32.GL", "Sync<bulk.wait, 0>" ME "()", 90, "bulk.wait"},
    {"[1].i32.GL", "Sync<bulk.wait.read, 0>" ME "()", 90, "bulk.wait.read"},
    {"[1].i32.GL", "%b1:[].mbar.SH Sync<mbar.wait, 1>" ME "(%b1)", 90, "mbar.wait.try"},
    {"[1].i32.GL", "%b1:[].mbar.SH Sync<mbar.wait, 1>" ME "(%b1)", 80, "mbar.wait.test"},
    {"[1].i32.GL", "%b1:[2].mbar.SH Sync<mbar.arrive>" ME "(%b1[1].peer(0))", 90, "mbar.arrive.cluster"},
    {"[1].i32.GL", "Sync<setmaxnreg.inc, 232>" GROUP "()", 90, "setmaxnreg.inc"},
    // TMA
    {"[M, N].fp16.GL", "%s:[128,64].fp16.SH.swizzle(3,3,3) %b1:[].mbar.SH %s <- Move<tma>" ME "(%g.tile([128,64])[@bid, 0], %b1)", 90, "tma.load.2d"},
    {"[M, N].fp16.GL", "%s:[128,64].fp16.SH %b1:[].mbar.SH %s <- Move<tma.multicast, 1 + @bid % 2 * 2>" ME "(%g.tile([128,64])[@bid, 0], %b1)", 90,
     "tma.multicast.2d"},
    {"[M, N].fp16.GL", "%s:[128,64].fp16.SH %g.tile([128,64])[@bid, 0] <- Move<tma>" ME "(%s)", 90, "tma.store.2d"},
    {"[M, N].fp16.GL", "%s:[128,64].fp16.SH %g.tile([128,64])[@bid, 0] <- Move<tma.red.add>" ME "(%s)", 90, "tma.red.add.2d"},
};

static void specs_become_instructions(void **state)
{
  (void)state;
  int wrong = 0;
  for (size_t i = 0; i < COUNT(lowers); i++) {
    struct lowered l;
    bool ok = !lowered_open(&l, lowers[i].g, lowers[i].g, lowers[i].body, lowers[i].arch);
    const char *row = ok ? lowered_atom(&l, -1)->row->name : l.e.text;
    if (strcmp(row, lowers[i].row)) print_error("%s: %s, not %s\n", lowers[i].body, row, lowers[i].row), wrong++;
    arena_close(&l.mem);
  }
  assert_int_equal(wrong, 0);
}

static const struct {
  const char *g, *body;
  int arch;
  const char *why;
} refusals[] = {
    {"[8].fp32.GL", "%r:[4].fp32.RF %r <- Move" ME "(%g)", 80, "do not agree"},
    {"[8].fp32.GL", "%r:[8].fp16.RF %r <- Move" ME "(%g)", 80, "different types"},
    {"[8].fp32.GL", "%r:[8].fp32.RF %r <- Move" WARP "(%g)", 80, "done by 1 thread, and #warp has 32"},
    {"[8].fp32.GL", "%r:[8].fp32.RF %r <- Move<bulk>" ME "(%g)", 80, "there is no such instruction"},
    {"[M, N].fp32.GL", "%r:[8].fp32.RF %r <- Move" ME "(%g)", 80, "not constant"},
    {"[M, N].fp16.GL", "%s:[128,64].fp16.SH %b1:[].mbar.SH %s <- Move<tma.multicast, 4>" ME "(%g.tile([128,64])[@bid, 0], %b1)", 90,
     "a bit for each block of the cluster: it lies in 0 .. 3"},
    {"[M, N].fp16.GL", "%s:[128,64].fp16.SH %b1:[].mbar.SH %s <- Move<tma.multicast>" ME "(%g.tile([128,64])[@bid, 0], %b1)", 90,
     "a number is missing: <tma.multicast, n>"},
    {"[8].fp32.GL", "%r:[].u32.RF %r <- Reduction<+><<<#b, #lanes4>>>(%r)", 80, "done by 32 threads together"},
    {"[8].fp16.GL", "%s:[8:2].fp16.SH %s <- Move<cp.async>" ME "(%g)", 80, "no contiguous dimension"},
    {"[64,15].fp16.GL", "%s:[8].fp16.SH %s <- Move<cp.async>" ME "(%g.tile([1,8])[@wi, 0])", 80, "its offset is wi * 15 elements"},
    {"[64,12].fp16.GL", "%s:[1,4].fp16.SH %s <- Move<cp.async.cg>" ME "(%g.tile([1,4])[@wi, 0])", 80, "multiple of 8"},
    {"[64,12].fp16.GL", "%s:[2,8].fp16.SH %s <- Move<cp.async.cg>" ME "(%g.tile([2,_])[@wi, 0].tile([2,4])[0, 1].reshape(0, [8]))", 80,
     "do not agree"},
    {"[M].fp16.GL", "%s:[8].fp16.SH %s <- Move<cp.async>" ME "(%g.tile([8])[@bid])", 80, "for all 8 elements of the vector or for none"},
    {"[M, M].fp16.GL", "%s:[1,8].fp16.SH %s <- Move<cp.async>" ME "(%g.tile([1,8])[@bid, 0])", 80, "not known to be aligned to 16 bytes"},
    {"[1].i32.GL", "%s:[1,8].fp16.SH %r:[2,2].[1,2].fp16.RF %r <- Move<ldmatrix>" ALL "(%s)", 80, "32 threads together, and #t has 256"},
    {"[1].i32.GL", "%s:[1,8].fp32.SH %r:[2,2].[1,2].fp32.RF %r <- Move<ldmatrix>" WARP "(%s)", 80, "types of two bytes"},
    {"[1].i32.GL", "%s:[1,4].fp16.SH %r:[2,2].[1,2].fp16.RF %r <- Move<ldmatrix>" WARP "(%s)", 80, "row of 8 contiguous"},
    {"[1].i32.GL", "%s:[64,9].fp16.SH %r:[2,2].[1,2].fp16.RF %r <- Move<ldmatrix>" WARP "(%s.tile([1,8])[@lane, 0])", 80, "does not divide"},
    {"[1].i32.GL", "%s:[64,12].fp16.SH %r:[2,2].[1,2].fp16.RF %r <- Move<ldmatrix>" WARP "(%s.tile([1,4])[@lane, 0].reshape(0, [1,4]))", 80,
     "row of 8"},
    {"[1].i32.GL", "%s:[64,8:12,1].fp16.SH %r:[2,2].[1,2].fp16.RF %r <- Move<ldmatrix>" WARP "(%s.tile([1,8])[@lane, 0])", 80, "aligned to 16 bytes"},
    {"[1].i32.GL", "%s:[64,8].fp16.SH.swizzle(1,2,3) %r:[2,2].[1,2].fp16.RF %r <- Move<ldmatrix>" WARP "(%s.tile([1,8])[@lane, 0])", 80,
     "keeps only 4"},
    {"[1].i32.GL", "%s:[1,8].fp16.SH %r:[2,2].[1,2:1,4].fp16.RF %r <- Move<ldmatrix>" WARP "(%s)", 80, "do not share a 32-bit register"},
    {"[1].i32.GL", "%s:[1,8].fp16.SH %r:[3].[1,2].fp16.RF %r <- Move<ldmatrix>" WARP "(%s)", 80, "do not agree"},
    {"[1].i32.GL", "%s:[1,8].fp16.SH %r:[2,2].[1,2].fp16.RF %s <- Move<stmatrix>" WARP "(%r)", 80, "it needs stmatrix, which sm_80 does not have"},
    {"[1].i32.GL", "%a:[2,2].[1,2].fp16.RF %b:[2,1].[1,2].fp16.RF %c:[2,1].[1,2].fp32.RF %c <- MatMul" WARP "(%a, %b)", 80,
     "does not end in a fragment [2,1].[2,1]"},
    {"[1].i32.GL", "%a:[2,3].[2,2].[1,2].fp16.RF %b:[2,1].[2,1].[2,1].fp16.RF %c:[2,1].[2,1].[1,2].fp32.RF %c <- MatMul" WARP "(%a, %b)", 80,
     "[m,k] x [k,n] -> [m,n] does not hold"},
    {"[1].i32.GL", "%a:[4,3].fp32.RF %b:[2,4].fp32.RF %c:[4,4].fp32.RF %c <- MatMul" ME "(%a, %b)", 80, "[m,k] x [k,n] -> [m,n] does not hold"},
    {"[1].i32.GL", "%a:[4,1].fp16.RF %b:[1,4].fp16.RF %c:[2,4].fp32.RF %c <- MatMul<mma.m8n8k4><<<#b, #lanes4>>>(%a, %b)", 80, "8 threads together"},
    {"[1].i32.GL",
     "%a:[64,64].fp16.SH.swizzle(3,3,4) %b:[64,64].fp16.SH.swizzle(3,3,3) %c:[1,8].[2,1].[1,2].fp32.RF "
     "%c <- MatMul<wgmma>" GROUP "(%a.tile([64,16])[0, 1], %b.tile([16,64])[1, 0])",
     90, "is swizzled by (3, 3, 4)"},
    {"[1].i32.GL",
     "%a:[64,16].fp16.SH.swizzle(3,3,3) %b:[64,64].fp16.SH.swizzle(3,3,3) %c:[1,8].[2,1].[1,2].fp32.RF "
     "%c <- MatMul<wgmma>" GROUP "(%a, %b.tile([16,64])[1, 0])",
     90, "in none of the ways"},
    {"[1].i32.GL",
     "%a:[2].[64,64].fp16.SH.swizzle(3,3,3) %b:[64,64].fp16.SH.swizzle(3,3,3) %c:[1,8].[2,1].[1,2].fp32.RF "
     "%c <- MatMul<wgmma>" GROUP "(%a[0].tile([8,64])[1, 0].reshape(0, [64,8]), %b.tile([16,64])[1, 0])",
     90, "does not end in a tile"},
    {"[1].i32.GL", "%a:[2,2].[1,2].fp16.RF %b:[16,32].fp16.SH %c:[1,4].[2,1].[1,2].fp32.RF %c <- MatMul<wgmma>" GROUP "(%a, %b)", 80,
     "it needs wgmma, which sm_80 does not have"},
    {"[1].i32.GL", "%a:[2,2].[1,2].fp16.RF %b:[16,32].fp16.SH %c:[1,4].[2,1].[1,2].fp32.RF %c <- MatMul<wgmma>" GROUP "(%a, %b)", 100,
     "it needs wgmma, which sm_100a does not have"},
    {"[8].fp32.GL", "%r:[8].fp32.RF %r <- UnaryPointwise<tanh.exact>" ME "(%r)", 80, "there is no such instruction"},
    {"[8].fp32.GL", "%r:[8].fp32.RF %q:[8].fp16.RF %q <- UnaryPointwise<exp>" ME "(%r)", 80, "it works on"},
    {"[8].fp32.GL", "%r:[4,2].fp32.RF %q:[2,2].fp32.RF %r <- BinaryPointwise<+>" ME "(%r, %q)", 80, "do not agree"},
    {"[8].fp32.GL", "%r:[4,8].fp32.RF %o:[2,1].fp32.RF %o <- Reduction<max>" ME "(%r)", 80, "do not agree"},
    {"[8].fp32.GL", "%r:[4,8].fp32.RF %o:[4,1].fp32.RF %o <- Reduction<max, 0>" ME "(%r)", 80, "over the axes that are named"},
    {"[8].fp32.GL", "%r:[4,4].fp32.RF %o:[4,1].fp32.RF %o <- Reduction<max, 2>" ME "(%r)", 80, "has the axes 0 .. 1"},
    {"[8].fp32.GL", "%r:[2].fp32.RF %r <- Reduction<+, 0>" WARP "(%r)", 80, "takes no number"},
    {"[8].fp32.GL", "%r:[2].fp32.RF %r <- Reduction<+>" ALL "(%r)", 80, "2 to 32 threads of a warp, and #t has 256"},
    {"[8].fp32.GL",
     "#odds = #warp.tile([8:4]) #odd = #odds[0] #two = #t.tile([3])[0] %r:[2].fp32.RF %r <- Reduction<+><<<#b, "
     "#odd>>>(%r) %r <- Reduction<+><<<#b, #two>>>(%r)",
     80, "powers of two"},
    {"[1].i32.GL", "Sync<barrier><<<#b, #lanes4>>>()", 80, "whole, consecutive warps"},
    {"[1].i32.GL", "Sync<cp.wait>" ME "()", 80, "a number is missing"},
    {"[1].i32.GL", "Sync<cp.wait, @lane>" ME "()", 80, "its number is a constant"},
    {"[1].i32.GL", "%r:[8].fp16.RF %q:[8].fp16.RF %q <- Move<shift, 9>" ME "(%r, %r)", 80, "its number lies in 0 .. 8"},
    {"[1].i32.GL", "%r:[8].fp16.RF %q:[8].fp16.RF %q <- Move<shift>" ME "(%r, %r)", 80, "a number is missing"},
    {"[1].i32.GL", "%r:[4].fp32.RF %q:[4].fp32.RF %q <- Move<shift, 1>" ME "(%r, %r)", 80, "it works on fp16"},
    {"[1].i32.GL", "Sync<setmaxnreg.dec, 30>" GROUP "()", 90, "24 .. 256, in steps of 8"},
    {"[1].i32.GL", "Sync<cp.commit, 3>" ME "()", 80, "takes no number"},
    {"[1].i32.GL", "%b1:[2].mbar.SH Sync<mbar.arrive>" ME "(%b1)", 90, "it takes one mbarrier"},
    {"[1].i32.GL", "Sync<>" ME "()", 80, ""},
    {"[1].i32.GL", "%r:[1].i32.RF %r <- Move<ld.global.nc>" ME "(%g) %g <- Move" ME "(%r)", 80, "is written in this kernel"},
    {"[M, N].fp16.GL", "%s:[128,128].fp16.SH.swizzle(3,3,3) %g.tile([128,128])[@bid, 0] <- Move<tma>" ME "(%s)", 90, "exceeds the swizzle's 128"},
    {"[M, N].fp16.GL", "%s:[128,64:1,128].fp16.SH %g.tile([128,64])[@bid, 0] <- Move<tma>" ME "(%s)", 90, "is not contiguous in"},
    {"[M, N].fp16.GL", "%s:[128,64:72,1].fp16.SH %g.tile([128,64])[@bid, 0] <- Move<tma>" ME "(%s)", 90, "not laid out densely"},
    {"[M, M].fp16.GL", "%s:[128,64].fp16.SH %g.tile([128,64])[@bid, 0] <- Move<tma>" ME "(%s)", 90, "not known to be a multiple of 16 bytes"},
    {"[M, N].fp16.GL", "%s:[8,512].fp16.SH %g.tile([8,512])[@bid, 0] <- Move<tma>" ME "(%s)", 90, "at most 256"},
    {"[M, N].fp16.GL", "%s:[64,4].fp16.SH %g.tile([64,4])[@bid, 0] <- Move<tma>" ME "(%s)", 90, "no multiple of 16"},
    {"[M, N].fp16.GL", "%s:[9].[4,8].fp16.SH %g.tile([4,8])[@bid, 0] <- Move<tma>" ME "(%s[@lane % 9])", 90, "aligned to 128 bytes"},
};

static void refusals_say_why(void **state)
{
  (void)state;
  int wrong = 0;
  for (size_t i = 0; i < COUNT(refusals); i++) {
    struct lowered l;
    bool ok = !lowered_open(&l, refusals[i].g, refusals[i].g, refusals[i].body, refusals[i].arch);
    if (ok || !strstr(l.e.text, refusals[i].why) || l.e.at.line <= 0)
      print_error("%s: %s, not %s\n", refusals[i].body, ok ? "lowered" : l.e.text, refusals[i].why), wrong++;
    arena_close(&l.mem);
  }
  assert_int_equal(wrong, 0);
}

static void every_kernel_of_the_tree_is_lowered(void **state)
{
  (void)state;
  int kernels = 0;
  struct texts t;
  assert_true(texts_all(&t));
  for (int i = 0; i < t.n; i++) {
    struct arena mem = {0};
    struct tile_program *p;
    struct err e = {0};
    assert_int_equal(tile_parse(&mem, t.path[i], t.text[i], &p, &e), OK);
    for (int j = 0; j < p->nkernels; j++) {
      if (tile_lower(p, p->kernels[j], p->kernels[j]->arch, &e)) fail_msg("%s:%d: %s", t.path[i], e.at.line, e.text);
      assert_true(p->kernels[j]->lowered);
      kernels++;
    }
    arena_close(&mem);
  }
  assert_true(kernels >= t.n);
  arena_close(&t.mem);
}

// The instructions of a kernel count, not the target it was written for.
static void a_kernel_is_lowered_where_its_instructions_are(void **state)
{
  (void)state;
  static const struct {
    const char *cluster, *body;
    int arch;
    const char *why; // NULL: it is lowered
  } rows[] = {{"", "", 80, NULL},
              {"", "", 90, NULL},
              {"", "Sync<grid.wait><<<#b, #t>>>()", 90, NULL},
              {"", "Sync<grid.wait><<<#b, #t>>>()", 80, "it needs dependent launches, which sm_80 does not have"},
              {"cluster 2", "", 90, NULL},
              {"cluster 2", "", 80, "clusters of 2 blocks; sm_80 has 1 at most"}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct lowered l;
    char text[300];
    snprintf(text, sizeof text,
             "kernel k {\n target sm_90a\n %s\n %%x:[1].fp32.GL\n #b:[2].block\n #t:[1].thread\n %%x <- Spec<<<#b, #t>>>() { %s }\n}",
             rows[i].cluster, rows[i].body);
    assert_int_equal(lowered_text(&l, text, rows[i].arch), rows[i].why ? USER : OK);
    if (rows[i].why && !strstr(l.e.text, rows[i].why)) fail_msg("%s", l.e.text);
    arena_close(&l.mem);
  }
}

static void lowering_again_gives_the_same(void **state)
{
  (void)state;
  struct lowered l;
  const char *body =
      "%s:[128,64].fp16.SH.swizzle(3,3,3) %b1:[].mbar.SH %s <- Move<tma>" ME "(%g.tile([128,64])[@bid, 0], %b1) Sync<barrier>" GROUP "()";
  if (lowered_open(&l, "[M, N].fp16.GL", "[1].i32.GL", body, 90)) fail_msg("%s", l.e.text);
  struct tile_atom first[] = {*lowered_atom(&l, 0), *lowered_atom(&l, 1)};
  int64_t bytes = l.k->shared_bytes;
  assert_int_equal(tile_lower(l.p, l.k, 80, &l.e), USER); // no TMA there
  assert_false(l.k->lowered);
  l.e = (struct err){0};
  assert_int_equal(tile_lower(l.p, l.k, 90, &l.e), OK);
  for (int i = 0; i < 2; i++) {
    const struct tile_atom *a = lowered_atom(&l, i);
    assert_true(a->row == first[i].row && a->barrier == first[i].barrier && a->operand[1].map == first[i].operand[1].map);
  }
  assert_true(l.k->nmaps == 1 && l.k->shared_bytes == bytes);
  arena_close(&l.mem);
}

static void hints_name_the_size(void **state)
{
  (void)state;
  static const char *const bodies[] = {
      "%s:[1,8].fp16.SH %s <- Move<cp.async>" ME "(%g.tile([1,8])[@bid, 0])", // rows of M elements
      "%s:[8].fp16.SH %s <- Move<cp.async>" ME "(%h.tile([8])[@bid])",        // the last piece may be short
  };
  for (size_t i = 0; i < COUNT(bodies); i++) {
    struct lowered l;
    assert_int_equal(lowered_open(&l, "[N, M].fp16.GL", "[M].fp16.GL", bodies[i], 80), USER);
    assert_non_null(strstr(l.e.hint, "`param M multiple 8`"));
    arena_close(&l.mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(specs_become_instructions),
      cmocka_unit_test(refusals_say_why),
      cmocka_unit_test(hints_name_the_size),
      cmocka_unit_test(every_kernel_of_the_tree_is_lowered),
      cmocka_unit_test(a_kernel_is_lowered_where_its_instructions_are),
      cmocka_unit_test(lowering_again_gives_the_same),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
