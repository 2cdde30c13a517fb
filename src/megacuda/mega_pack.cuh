// Packs weights in the order in which tiles use them, draws weights from a seed, and defines the functions that a library calls (MEGA_LIBRARY).

// ---- numbers by a seed ----

HOST_TOO u64 drawn(u64 seed, u64 i) // the i-th number, from 0 on
{
  u64 z = seed + (i + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}
HOST_TOO double normal(u64 seed, u64 i)
{
  double u = (double)(drawn(seed, 2 * i) >> 11) * 0x1p-53, v = (double)(drawn(seed, 2 * i + 1) >> 11) * 0x1p-53;
  return sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v);
}
HOST_TOO u32 number_bits(double x, int bytes)
{
  union {
    float f;
    u32 u;
  } v = {(float)x};
  return bytes == 4 ? v.u : (v.u + 0x7fff + (v.u >> 16 & 1)) >> 16;
}
HOST_TOO void number_put(void *to, long long i, u32 bits, int bytes)
{
  if (bytes == 4)
    ((u32 *)to)[i] = bits;
  else
    ((unsigned short *)to)[i] = (unsigned short)bits;
}

struct draw_weight {
  void *to;
  u64 seed;
  double scale;
  int bytes;
  HOST_TOO void operator()(long long i) const
  {
    double x = normal(seed, (u64)i);
    number_put(to, i, number_bits(scale > 0 ? scale * x : 1 + 0.1 * x, bytes), bytes);
  }
};

template <class O> constexpr bool PACKED = O::STREAM == STREAM_WEIGHTS || O::STREAM == STREAM_EXPERTS; // the operator streams weights

template <class O, class W> struct pack_weight { // element i of [layer][expert][tile][slice][column][k], widths as in the pieces
  char *to;
  const typename W::tensor::type *from;
  static constexpr long long COUNT = (long long)O::LAYERS * W::EXPERTS * W::TILES * W::SLICES * W::COLUMNS * W::K;
  PLAIN void operator()(long long i) const
  {
    int k = (int)(i % W::K), column = (int)(i / W::K % W::COLUMNS), slice = (int)(i / W::K / W::COLUMNS % W::SLICES);
    long long left = i / W::K / W::COLUMNS / W::SLICES;
    int tile = (int)(left % W::TILES), layer = (int)(left / W::TILES), columns = W::columns(tile), width = W::width(tile), begin = k / width * width;
    if (column >= columns) return;
    char *p = to + W::tile_at(layer, tile) + (long long)(k / width) * W::SLICES * columns * W::pitch(width);
    int end = min(width, W::K - begin), at = slice * columns + column, place = k - begin;
#if PANELS
    if constexpr (W::PANEL) place_in_operand<W>(at, place);
#endif
    if constexpr (W::MATRIX) place = matrix_chunk(at, place / 8, end) * 8 + place % 8;
    long long offset = at * W::pitch(end) + place * (int)sizeof *from;
#if PANELS
    if constexpr (W::WIDE) offset = wide_place<W>(slice * columns + column, k - begin);
#endif
    p += offset;
    *(typename W::tensor::type *)p = from[W::element(layer, slice, k, tile * W::COLUMNS + column)];
  }
};

#ifdef MEGA_LIBRARY

template <class O> DEV void pack_share(char *to, const void *from, long long first, long long step)
{
  if constexpr (PACKED<O>) {
    typedef pack_weight<O, typename O::streamed> packing;
    packing f = {to, (const typename O::streamed::tensor::type *)from};
    for (long long i = first; i < packing::COUNT; i += step) f(i);
  }
}
DEV void pack_operator_share(int op, char *to, const void *from, long long first, long long step)
{
  switch (op) {
#define OPERATOR(name, layer) \
  case name::ID: pack_share<name>(to, from, first, step); break;
    OPERATORS
#undef OPERATOR
  }
}

#ifdef MEGA_SHIM
extern "C" void mega_fill(void *to, u64 seed, double scale, int bytes, long long n)
{
  draw_weight f = {to, seed, scale, bytes};
  for (long long i = 0; i < n; i++) f(i);
}
extern "C" void mega_pack(int op, char *to, const void *from) { pack_operator_share(op, to, from, 0, 1); }
extern "C" void mega_launch(const void *m, unsigned first, int position, int steps)
{
  memcpy(&M, m, sizeof M);
  shim_run(WORKERS, BLOCK_THREADS, sizeof(block_memory), [=] { mega_kernel(first, position, steps); });
}
#else
extern "C" __global__ void mega_fill(void *to, u64 seed, double scale, int bytes, long long n)
{
  draw_weight f = {to, seed, scale, bytes};
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x) f(i);
}
extern "C" __global__ void mega_pack(int op, char *to, const void *from)
{
  pack_operator_share(op, to, from, (long long)blockIdx.x * blockDim.x + threadIdx.x, (long long)gridDim.x * blockDim.x);
}
#endif

#endif
