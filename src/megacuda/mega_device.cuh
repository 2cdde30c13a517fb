// Code that all task bodies use: the block's shared memory, waits with the watchdog, loads and stores of regions of tensors.

// ---- tables of a worker, which the host makes from the plan ----
struct alignas(4) node_row {                            // one task: its tiles are lo .. hi - 1
  unsigned short layer, lo, hi, wait, nwaits, publish;  // wait, publish: the first of its rows in the other tables
  unsigned char op, npublish, turn;                     // turn: half of S.square, alternating between the worker's tasks
};
struct alignas(4) wait_row {
  unsigned short word, count, event; // word: a counter or flag; count: its increment by a step
  unsigned char back, stream;        // steps back to the event; stream: the producer waits, not the consumers
};
struct alignas(4) publish_row {
  unsigned short word, add; // add 0: a flag
};
static_assert(sizeof(node_row) == NODE_ROW && sizeof(wait_row) == WAIT_ROW && sizeof(publish_row) == PUBLISH_ROW, "sizes in megacuda.h");
struct weights_row { // layout of an operator's packed weights; tiles 0: it has none
  long long layer_bytes, tile_bytes;
  int tiles, k;
  int width, bytes, end_bytes;                // k and bytes of a piece; bytes of the last piece along k
  int last_width, last_bytes, last_end_bytes; // the same for the last tile
  int gain, gain_bytes;                       // tensor of the norm's gain, or -1; its bytes per layer
#if PANELS
  int group;   // tiles that are multiplied together
  bool ragged; // the last tile is narrower, and is a group of its own
#endif
};
struct seat_row { // a row that serves a request: struct mega_seat of mega.h
  int live, moves, position, past, before;
};
enum stream_kind { STREAM_NOTHING, STREAM_WEIGHTS, STREAM_CACHE, STREAM_PAGES, STREAM_EXPERTS }; // data that the pipeline loads for an operator
struct fault_row {
  u32 taken, kind, producer, step, node, which, seen, wanted;
};

struct kernel_memory {
  void *tensor[TENSORS];
  const char *packed[OPS];   // weights in the order in which tiles consume them
  const float2 *rotation[OPS];   // [position][pair]: cosine, sine
  const node_row *node;      // [worker][NODES]
  const wait_row *wait;      // [worker][WAITS]
  const publish_row *publish;
  u32 *word;                 // counters and flags, each on its own line
  fault_row *fault;          // [worker][producer]
  u32 *stop;
  int *tokens;               // [step of the launch][row]
  u64 deadline;              // nanoseconds
  u64 *trace;                // [worker][node][phase]: time at which a task of the last step reached the phase; or NULL
  const seat_row *seat;      // [row]
  const int *table;          // [row][page of the request]: page of the cache
  const unsigned short *order; // attention of served rows: tile to run as the i-th; NULL: tile i
};

static_assert(sizeof(kernel_memory) == 8 * (TENSORS + 2 * OPS + 12), "the layout of src/serve/device_memory.c");

PER_RANK(kernel_memory, M);

GLOBAL u32 FLIGHTS = FLIGHT, CALM_FLIGHTS = CALM; // most copies of a block in flight; the same for pieces that its consumers do not need yet

struct attend_memory {
  float query[QUERY_FLOATS], most[WARPS][GROUP_HEADS], sum[WARPS][GROUP_HEADS];
  union {
    float out[WARPS][QUERY_FLOATS];           // sums, after all warps have their queries in registers
    alignas(16) bf16 split[2 * QUERY_FLOATS]; // queries for tensor cores: mega_scores.cuh
  };
  float now[2][HEAD_FLOATS], score[GROUP_HEADS]; // this position's key and value, and its scores
  float top[GROUP_HEADS], whole[2][GROUP_HEADS]; // maxima over all warps; maxima and divisors of a part
};
struct alignas(128) block_memory {
  char ring[STAGES][STAGE_ROOM];
  union {
    float x[X_ROWS][X_FLOATS]; // inputs of a product
#if PANELS
    char panel[PANEL_BYTES]; // pieces of the input of many rows, then sums: mega_panel.cuh
#endif
    float one[ONE_FLOATS];   // input of a product whose rows have their own weights
    attend_memory attend;
  };
  float merge[ROWS][MERGE_FLOATS], part[2][PART_FLOATS], square[2][ROWS][WARPS], best[WARPS];
  int best_at[WARPS], expert[CHOICES]; // expert: experts of the producer's tile
  node_row node[NODES];
  wait_row wait[WAITS];
  publish_row publish[PUBLISHES];
  stage_barrier full[STAGES], empty[STAGES];
#if PANELS
  stage_barrier panel_full[PANEL_SLOTS], panel_empty[PANEL_SLOTS]; // a piece of an input is loaded; it is no longer read
  stage_barrier panel_free;                                        // the memory of all pieces is free for a group of tiles
  u32 feeds;                                                       // number of pieces of inputs so far
#endif
  volatile u32 dead, traced, urgent; // urgent: 1 + the node whose pieces the consumers use; 0: the consumers wait for an input
  u32 done; // parts of publishing tasks completed in this launch
};
static_assert(sizeof(block_memory) <= SHARED_BYTES, "a block's memory");
#define S SHARED(block_memory)
#define WARP (TID / 32)
#define LANE (TID % 32)

struct moment {
  u32 step;         // number of the step since the first launch
  int n;            // node
  int position, at; // of the row in its request; number of the step in this launch
};

// Times of a task in a trace: start; input available; sums complete; end.
enum task_phase { BEGUN, READY, SUMMED, ENDED, PHASES };
DEV void mark(moment j, int phase)
{
  if (S.traced && TID == 0) M.trace[(WORKER * NODES + j.n) * PHASES + phase] = now_ns();
}

// A task calls await_input when it starts to wait for its input, and ready when the input is available.
DEV void await_input()
{
  if (TID == 0) S.urgent = 0;
}
DEV void ready(moment j)
{
  if (TID == 0) S.urgent = (u32)j.n + 1;
  mark(j, READY);
}

// ---- the watchdog: after the deadline a record is written, and all waits of this block return at once ----

enum { POLLS = 64 };
const u64 STOPPED = ~(u64)0;

DEV void stop_all(); // stops all ranks

// Writes the block's record, unless it has one, and ends all waits.
APART void record_fault(u32 kind, moment j, u32 which, u32 seen, u32 wanted)
{
  u32 producer = TID >= THREADS;
  fault_row *f = &M.fault[WORKER * 2 + (int)producer];
  S.dead = 1;
  if (look(&f->taken) || !claim(&f->taken)) return;
  f->kind = kind, f->producer = producer, f->step = j.step, f->node = (u32)j.n, f->which = which, f->seen = seen, f->wanted = wanted;
  stop_all();
}

// Called while a wait lasts. Returns the time at which the wait began, or STOPPED if it must end.
APART u64 check_deadline(u64 since, u32 kind, moment j, u32 which, u32 seen, u32 wanted)
{
  u64 t = now_ns();
  if (!since) since = t;
  if (kind == LATE_WORD && (int)(seen - wanted) > 0) return record_fault(REWRITTEN, j, which, seen, wanted), STOPPED;
  if (t - since <= M.deadline && !S.dead && !look(M.stop)) return since;
  record_fault(kind, j, which, seen, wanted);
  return STOPPED;
}

DEV void wait_stage(stage_barrier *b, u32 parity, moment j, u32 piece)
{
  u64 since = 0;
  for (int polls = 1; !stage_passed(b, parity); polls++)
    if ((polls % POLLS == 0 || S.dead) && (since = check_deadline(since, LATE_STAGE, j, 0, piece, piece + 1)) == STOPPED) return;
}

// Signals that this warp no longer reads the piece.
DEV void release_stage(u32 piece, int tid)
{
  sync_warp();
  if (tid % 32 == 0) stage_arrive(&S.empty[piece % STAGES]);
}

// Waits for the words ask(0) .. ask(B - 1). All are loaded at once, and words without the tag again, so their latencies overlap.
template <int B, class ASK> DEV void await_all(ASK ask, u32 tag, moment j, u32 tensor, uint4 (&v)[B])
{
  u64 since = 0;
#pragma unroll
  for (int k = 0; k < B; k++) v[k] = ask(k);
#pragma unroll 1
  for (int polls = 1;; polls++) {
    u32 late = 0, seen = tag;
#pragma unroll
    for (int k = 0; k < B; k++) late |= v[k].w ^ tag, seen = v[k].w == tag ? seen : v[k].w;
    if (!late) return;
    if ((polls % POLLS == 0 || S.dead) && (since = check_deadline(since, LATE_WORD, j, tensor, seen, tag)) == STOPPED) return;
#pragma unroll
    for (int k = 0; k < B; k++)
      if (v[k].w != tag) v[k] = ask(k);
  }
}
template <int B, class AT> DEV void await_words(const uint4 *w, AT at, u32 tag, moment j, u32 tensor, uint4 (&v)[B])
{
  await_all<B>([&](int k) { return load_word(w + at(k)); }, tag, j, tensor, v);
}

DEV uint4 await(const uint4 *p, u32 tag, moment j, u32 tensor)
{
  uint4 v[1];
  await_words<1>(p, [](int) { return 0; }, tag, j, tensor, v);
  return v[0];
}

DEV void wait_row_of(const wait_row &x, moment j)
{
  u64 since = 0;
  u32 wanted = (j.step - x.back + 1) * x.count;
  if (j.step < x.back) return;
#pragma unroll 1
  for (int polls = 1;; polls++) {
    u32 seen = acquire(&M.word[x.word * 32]);
    if ((int)(seen - wanted) >= 0) return;
    if ((polls % POLLS == 0 || S.dead) && (since = check_deadline(since, LATE_EVENT, j, x.event, seen, wanted)) == STOPPED) return;
  }
}

// Waits for the counters and flags of the task's tiles; words are awaited when they are read.
template <class O> DEV void wait_events(moment j)
{
  const node_row &r = S.node[j.n];
#pragma unroll 1
  for (int i = r.wait + TID; i < r.wait + r.nwaits; i += THREADS)
    if (!S.wait[i].stream) wait_row_of(S.wait[i], j);
  if (r.nwaits) sync_consumers();
  if (O::FENCE) fence_proxy();
}

// A separate thread publishes the events of a task, because a release waits about a microsecond until all writes are visible. The consumers
// continue meanwhile. Each consumer warp increments a counter when its part of the task is complete.
DEV void done_part(moment j)
{
  if (!S.node[j.n].npublish) return;
  sync_warp();
  if (LANE == 0) done_add(&S.done, 1);
}
DEV void publish(moment j) // for tasks whose successor in this block may read their writes, or overwrite their inputs
{
  sync_consumers();
  done_part(j);
}

// ---- tensors ----

// The number, over all steps, of the write that an access reads or makes.
template <class A> DEV u32 epoch_of(moment j) { return j.step * A::tensor::WRITES + A::write(S.node[j.n].layer); }

template <class T> DEV uint4 *words_of(u32 epoch, int row)
{
  return (uint4 *)M.tensor[T::ID] + (size_t)(epoch % T::VERSIONS) * (T::WORDS * ROWS) + (size_t)row * T::WORDS;
}
template <class T> DEV typename T::type *plain_of(u32 epoch, int row)
{
  return (typename T::type *)M.tensor[T::ID] + (size_t)(epoch % T::VERSIONS) * (size_t)T::ELEMENTS + (size_t)row * (size_t)T::ROW;
}

#if PANELS
// A tensor in panels: [k / 32][row][32] as bf16, followed by the rounding errors in the same order. If its readers have a norm (SCALED), the values
// times the norm's gain follow in the same two parts, and then the sum of squares of each GROUP of elements: [k / GROUP][row], float32.
template <class T> DEV bf16 *panel_of(u32 epoch, int from)
{
  return (bf16 *)M.tensor[T::ID] + (size_t)(epoch % T::VERSIONS) * (size_t)T::PITCH + from * ROWS;
}
template <class T> DEV bf16 *scaled_of(u32 epoch, int from) { return panel_of<T>(epoch, from) + 2 * T::ELEMENTS; }
template <class T> DEV float *squares_of(u32 epoch) { return (float *)(panel_of<T>(epoch, 0) + 4 * T::ELEMENTS); }
// With rows for wgmma, the four chunks of a row are swizzled as it reads them.
HOST_TOO constexpr int panel_chunk(int row, int chunk) { return SWIZZLED ? chunk ^ row / 2 % 4 : chunk; }
template <class T> DEV bf16 *panel_at(u32 epoch, int row, int e)
{
  return panel_of<T>(epoch, e / 32 * 32) + row * 32 + panel_chunk(row, e % 32 / 8) * 8 + e % 8;
}
template <class T> DEV float panel_value(u32 epoch, int row, int e)
{
  const bf16 *p = panel_at<T>(epoch, row, e);
  return T::REST ? load_relaxed(p) + load_relaxed(p + T::ELEMENTS) : load_relaxed(p);
}
DEV void store_parts(bf16 *p, float v, bool two, long long apart)
{
  bf16 high, rest;
  store_as(&high, v), store_relaxed(p, high);
  if (two) store_as(&rest, v - to_float(high)), store_relaxed(p + apart, rest);
}
// The gains of the norm that reads what an access writes in a layer.
template <class A> DEV const typename A::tensor::gain_type *gains_of(int layer)
{
  return (const typename A::tensor::gain_type *)M.tensor[A::gain_tensor(layer)] + A::gain_layer(layer) * A::tensor::ROW;
}
// Writes element e of a row. `gain` is used if the tensor has scaled values too.
template <class T> DEV void store_panel(u32 epoch, int row, int e, float v, float gain)
{
  bf16 *p = panel_at<T>(epoch, row, e);
  store_parts(p, v, T::REST, T::ELEMENTS);
  if constexpr (T::SCALED) store_parts(p + 2 * T::ELEMENTS, v * gain, HALVES == 2, T::ELEMENTS);
}
#endif

// One element of a tensor that is not tagged.
template <class T> DEV float untagged_at(u32 epoch, int row, int e)
{
#if PANELS
  if constexpr (T::PANEL) return panel_value<T>(epoch, row, e);
#endif
  return load_relaxed((const float *)plain_of<T>(epoch, row) + e);
}

// Words of a row: word i begins with element first_of(i) and has count_of(i) elements.
template <class T> DEV int word_at(int e) { return e / T::GROUP * T::GROUP_WORDS + e % T::GROUP / 3; }
template <class T> DEV int first_of(int i) { return i / T::GROUP_WORDS * T::GROUP + i % T::GROUP_WORDS * 3; }
template <class T> DEV int count_of(int i) { return min(3, T::GROUP - i % T::GROUP_WORDS * 3); }

struct no_gain {};
template <class G> struct gain_of {
  static DEV float at(int layer, int k)
  {
    return constant((const typename G::tensor::type *)M.tensor[G::tensor::ID] + layer * G::tensor::ROW + k);
  }
};
template <> struct gain_of<no_gain> {
  static DEV float at(int, int) { return 1; }
};

// Reads at most `MOST` elements of a row of words, distributed over the consumers from `thread` on.
template <class A, class G, int MOST, class F> DEV void gather_words(moment j, int row, int lo, int hi, F f, int thread)
{
  using T = typename A::tensor;
  constexpr bool gains = !std::is_same<G, no_gain>::value;
  constexpr int words = (MOST + T::GROUP - 1) / T::GROUP * T::GROUP_WORDS, each = (words + THREADS - 1) / THREADS;
  constexpr int rounds = (each + 11) / 12, B = (each + rounds - 1) / rounds; // words at once, at most 12
  u32 epoch = epoch_of<A>(j);
  int layer = S.node[j.n].layer, to = word_at<T>(hi - 1) + 1;
  const uint4 *w = words_of<T>(epoch, row);
#pragma unroll 1
  for (int i = word_at<T>(lo) + thread; i < to; i += B * THREADS) {
    uint4 v[B];
    float g[B][3];
#pragma unroll
    for (int k = 0; k < B * 3; k++) {
      int at = min(i + k / 3 * THREADS, to - 1);
      g[k / 3][k % 3] = gains ? gain_of<G>::at(layer, first_of<T>(at) + min(k % 3, count_of<T>(at) - 1)) : 1;
    }
    await_words<B>(w, [&](int k) { return min(i + k * THREADS, to - 1); }, epoch + 1, j, T::ID, v);
#pragma unroll
    for (int k = 0; k < B; k++) {
      int at = i + k * THREADS, e = first_of<T>(at), n = count_of<T>(at);
      if (at >= to) continue;
      f(e, bits_float(v[k].x), g[k][0]);
      if (T::GROUP % 3 != 1 || n > 1) f(e + 1, bits_float(v[k].y), g[k][1]);
      if (T::GROUP % 3 == 0 || n > 2) f(e + 2, bits_float(v[k].z), g[k][2]);
    }
  }
}

// Loads four floats at a time, up to eight times before the first is used.
template <class A, class G, int MOST, class F> DEV void gather_fours(moment j, const float *p, int lo, int hi, F f, int thread)
{
  constexpr int each = (MOST + 4 * THREADS - 1) / (4 * THREADS), B = each < 8 ? each : 8;
  int layer = S.node[j.n].layer;
#pragma unroll 1
  for (int from = lo + thread * 4; from < hi; from += B * 4 * THREADS) {
    float4 v[B];
#pragma unroll
    for (int k = 0; k < B; k++)
      if (from + k * 4 * THREADS < hi) v[k] = load4_relaxed(p + from + k * 4 * THREADS);
#pragma unroll
    for (int k = 0; k < B; k++) {
      int e = from + k * 4 * THREADS;
      if (e >= hi) continue;
      f(e, v[k].x, gain_of<G>::at(layer, e)), f(e + 1, v[k].y, gain_of<G>::at(layer, e + 1));
      f(e + 2, v[k].z, gain_of<G>::at(layer, e + 2)), f(e + 3, v[k].w, gain_of<G>::at(layer, e + 3));
    }
  }
}

// Calls f(element, value, gain) for elements lo .. hi - 1, at most `MOST`, of a row of an access, distributed over the consumers from `thread` on.
template <class A, class G, int MOST, class F> DEV void gather(moment j, int row, int lo, int hi, F f, int thread = TID)
{
  using T = typename A::tensor;
  if constexpr (T::TAGGED)
    gather_words<A, G, MOST>(j, row, lo, hi, f, thread);
  else {
    u32 epoch = T::VERSIONS > 1 ? epoch_of<A>(j) : 0;
#if PANELS
    if constexpr (T::PANEL) {
#pragma unroll 1
      for (int e = lo + thread; e < hi; e += THREADS) f(e, panel_value<T>(epoch, row, e), gain_of<G>::at(S.node[j.n].layer, e));
      return;
    }
#endif
    const float *p = (const float *)M.tensor[T::ID] + (size_t)(epoch % T::VERSIONS) * (size_t)T::ELEMENTS + (size_t)row * (size_t)T::ROW;
    if (T::ROW % 4 == 0 && lo % 4 == 0 && hi % 4 == 0)
      gather_fours<A, G, MOST>(j, p, lo, hi, f, thread);
    else {
#pragma unroll 1
      for (int e = lo + thread; e < hi; e += THREADS) f(e, load_relaxed(p + e), gain_of<G>::at(S.node[j.n].layer, e));
    }
  }
}

template <class T> DEV void push_unit(u32 epoch, int row, int unit, uint4 v);

// Writes a unit of an output: a word of a tagged tensor, or as many elements of another one.
template <class A> DEV void write_unit(moment j, int row, int unit, float x, float y, float z)
{
  using T = typename A::tensor;
  u32 epoch = epoch_of<A>(j);
  uint4 v = make_uint4(float_bits(x), float_bits(y), float_bits(z), epoch + 1);
  if constexpr (T::SLOTS > 1) return push_unit<T>(epoch, row, unit, v);
  if (T::TAGGED) return store_word(words_of<T>(epoch, row) + unit, v);
#if PANELS
  if constexpr (T::PANEL) {
    int e = first_of<T>(unit), n = count_of<T>(unit);
    float g[3] = {1, 1, 1};
    if constexpr (T::SCALED)
      for (int i = 0; i < n; i++) g[i] = constant(gains_of<A>(S.node[j.n].layer) + e + i);
    store_panel<T>(epoch, row, e, x, g[0]);
    if (n > 1) store_panel<T>(epoch, row, e + 1, y, g[1]);
    if (n > 2) store_panel<T>(epoch, row, e + 2, z, g[2]);
    return;
  }
#endif
  float *p = (float *)plain_of<T>(epoch, row) + first_of<T>(unit);
  store_relaxed(p, x);
  if (count_of<T>(unit) > 1) store_relaxed(p + 1, y);
  if (count_of<T>(unit) > 2) store_relaxed(p + 2, z);
}

// Writes f(element) for elements lo .. hi - 1 of a row.
template <class A, class F> DEV void write_row(moment j, int row, int lo, int hi, F f)
{
  using T = typename A::tensor;
#pragma unroll 1
  for (int i = word_at<T>(lo) + TID; i <= word_at<T>(hi - 1); i += THREADS) {
    int e = first_of<T>(i), n = count_of<T>(i);
    write_unit<A>(j, row, i, f(e), n > 1 ? f(e + 1) : 0, n > 2 ? f(e + 2) : 0);
  }
}

// Adds up the squares of what the task has written, for the norm of its readers.
template <class A> DEV void write_squares(moment j)
{
#if PANELS
  using T = typename A::tensor;
  if constexpr (T::SCALED) {
    u32 epoch = epoch_of<A>(j);
    int layer = S.node[j.n].layer;
    sync_consumers();
#pragma unroll 1
    for (int tile = S.node[j.n].lo; tile < S.node[j.n].hi; tile++) {
      int rows = A::hi0(layer, tile) - A::lo0(layer, tile), first = A::lo1(layer, tile) / T::GROUP, end = A::hi1(layer, tile) / T::GROUP;
#pragma unroll 1
      for (int i = TID; i < (end - first) * rows; i += THREADS) {
        int group = first + i / rows, row = A::lo0(layer, tile) + i % rows;
        float sum = 0;
#pragma unroll 8
        for (int e = group * T::GROUP; e < (group + 1) * T::GROUP; e++) {
          float v = panel_value<T>(epoch, row, e);
          sum = fmaf(v, v, sum);
        }
        store_relaxed(squares_of<T>(epoch) + group * ROWS + row, sum);
      }
    }
  }
#endif
}
// Publishes a task with the writes of an access.
template <class A> DEV void publish_writes(moment j) { write_squares<A>(j), publish(j); }

// ---- sixteen bytes of numbers ----

template <class T> struct pack;
template <> struct pack<float> {
  enum { N = 4 };
  static DEV void open(uint4 v, float *x) { x[0] = bits_float(v.x), x[1] = bits_float(v.y), x[2] = bits_float(v.z), x[3] = bits_float(v.w); }
};
template <> struct pack<bf16> {
  enum { N = 8 };
  static DEV void two(u32 u, float *x) { x[0] = bits_float(u << 16), x[1] = bits_float(u & 0xffff0000u); }
  static DEV void open(uint4 v, float *x) { two(v.x, x), two(v.y, x + 2), two(v.z, x + 4), two(v.w, x + 6); }
};
