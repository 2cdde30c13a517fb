// The host program: draws weights and state from the seed, packs them, makes the rows of the tables, launches, checks.

HOST_TOO u64 seed_of(int tensor)
{
  u64 h = SEED;
  h ^= (u64)tensor + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
  h ^= h >> 33, h *= 0xff51afd7ed558ccdu, h ^= h >> 33, h *= 0xc4ceb9fe1a85ec53u;
  return h ^ h >> 33;
}

// ---- the part of a whole tensor that a rank has ----

static int at_rank; // the rank that the host is working for

struct rank_part {
  plan_part p;
  int rank;
  HOST_TOO long long whole(long long i) const // index in the whole tensor of element i of the part
  {
    if (!p.n) return i;
    long long d = i / p.inner % p.extent, begin = 0;
    int s = 0;
    while (s + 1 < p.n && d >= begin + p.size[s]) begin += p.size[s++];
    return (i / p.inner / p.extent * WORLD * p.extent + WORLD * begin + rank * p.size[s] + d - begin) * p.inner + i % p.inner;
  }
  long long own(long long i) const // index in the part of element i of the whole tensor; -1: it is in another rank's part
  {
    if (!p.n) return i;
    long long d = i / p.inner % (WORLD * p.extent), begin = 0;
    int s = 0;
    while (s + 1 < p.n && d >= WORLD * (begin + p.size[s])) begin += p.size[s++];
    d -= WORLD * begin + rank * p.size[s];
    return d < 0 || d >= p.size[s] ? -1 : (i / p.inner / (WORLD * p.extent) * p.extent + begin + d) * p.inner + i % p.inner;
  }
};
static rank_part part_of(int t) { return {TENSOR[t].part, at_rank}; }

struct draw_part {
  draw_weight w;
  rank_part part;
  HOST_TOO void operator()(long long i) const
  {
    double x = normal(w.seed, (u64)part.whole(i));
    number_put(w.to, i, number_bits(w.scale > 0 ? w.scale * x : 1 + 0.1 * x, w.bytes), w.bytes);
  }
};

enum { FEW = 1 << 22 }; // most elements that are drawn on the host, so that they are the same on every machine

static void fill_weights(void *device, int t)
{
  const plan_tensor &x = TENSOR[t];
  draw_part f = {{device, seed_of(x.like >= 0 ? x.like : t), x.scale, x.bytes}, part_of(t)};
  if (x.elements > FEW) return each(x.elements, f);
  std::vector<char> room((size_t)(x.elements * x.bytes));
  f.w.to = room.data();
  for (long long i = 0; i < x.elements; i++) f(i);
  to_device(device, room.data(), room.size());
}

struct slot_span { // range of filled slots of a page
  int lo, hi;
};
struct draw_page { // draws a large cache [layer][page][head][2][slot][element]; a number depends on its element's index; unfilled elements are NaN
  void *to;
  u64 seed;
  int bytes;
  long long dim[6];
  const slot_span *filled; // by page
  rank_part part;
  HOST_TOO void operator()(long long i) const
  {
    int slot = (int)(i / dim[5] % dim[4]), page = (int)(i / (dim[2] * dim[3] * dim[4] * dim[5]) % dim[1]), chunk = 16 / bytes;
    bool in = slot >= filled[page].lo && slot < filled[page].hi;
    number_put(to, i ^ swizzle_of((int)dim[5] * bytes, slot) * chunk, in ? number_bits(normal(seed, (u64)part.whole(i)), bytes) : ~0u, bytes);
  }
};

static bool fill_large_cache(void *device, int t)
{
  const plan_tensor &x = TENSOR[t];
  draw_page f = {device, seed_of(t), x.bytes, {}, NULL, part_of(t)};
  std::vector<slot_span> spans;
  for (const plan_box *b = FILLED; b->tensor >= 0; b++) {
    if (b->tensor != t || b->rank != 6) continue;
    for (int d = 0; d < 6; d++) f.dim[d] = b->dim[d];
    spans.resize((size_t)b->dim[1]);
    for (long long page = b->lo[1]; page < b->hi[1]; page++) spans[(size_t)page] = {(int)b->lo[4], (int)b->hi[4]};
  }
  if (x.elements <= FEW || spans.empty()) return false;
  slot_span *on_device = (slot_span *)device_room(spans.size() * sizeof spans[0]);
  to_device(on_device, spans.data(), spans.size() * sizeof spans[0]);
  f.filled = on_device;
  each(x.elements, f);
  return true;
}

static void fill_state(void *device, int t)
{
  const plan_tensor &x = TENSOR[t];
  if (fill_large_cache(device, t)) return;
  std::vector<char> room((size_t)(x.elements * x.bytes), (char)0xff); // NaN
  u64 seed = seed_of(t), n = 0;
  rank_part part = part_of(t);
  for (long long i = 0; i < x.elements * (x.part.n ? WORLD : 1); i++) {
    if (x.table_rows) {
      int token = (int)(((unsigned __int128)drawn(seed, (u64)i) * (u64)x.table_rows) >> 64);
      memcpy(&room[(size_t)i * 4], &token, 4);
      continue;
    }
    for (const plan_box *b = FILLED; b->tensor >= 0; b++) {
      bool in = b->tensor == t;
      long long left = i;
      for (int d = b->rank - 1; d >= 0 && in; d--) {
        long long times = x.part.n && x.part.dim == d ? WORLD : 1;
        in = left % (times * b->dim[d]) >= b->lo[d] && left % (times * b->dim[d]) < times * b->hi[d], left /= times * b->dim[d];
      }
      if (!in) continue;
      double v = normal(seed, n++);
      long long own = part.own(i);
      int slot = b->rank == 6 ? (int)(own / b->dim[5] % b->dim[4]) : 0, chunk = 16 / x.bytes; // swizzle of a cache: mega_cache.cuh
      if (own >= 0) number_put(room.data(), own ^ swizzle_of((int)b->dim[5] * x.bytes, slot) * chunk, number_bits(v, x.bytes), x.bytes);
      break;
    }
  }
  to_device(device, room.data(), room.size());
}

// ---- weights in the order in which tiles consume them ----

template <class O> static void pack_operator(kernel_memory &m)
{
  if constexpr (PACKED<O>) {
    typedef typename O::streamed W;
    const size_t bytes = (size_t)(W::LAYER_BYTES * W::EXPERTS * O::LAYERS);
    char *to = (char *)device_room(bytes);
    zero_device(to, bytes); // padding to sixteen bytes must be a number
    each(pack_weight<O, W>::COUNT, pack_weight<O, W>{to, (const typename W::tensor::type *)m.tensor[W::tensor::ID]});
    m.packed[O::ID] = to;
  }
}

// ---- rotation ----

template <class O> static void upload_rotation(kernel_memory &m, int positions)
{
  if constexpr (O::ROTARY) {
    constexpr int half = O::dim / 2;
    std::vector<float2> t((size_t)positions * half);
    for (int p = 0; p < positions; p++)
      for (int i = 0; i < half; i++) {
        double f = pow(O::theta, -2.0 * i / O::dim);
        if constexpr (O::rope_factor > 0) {
          double rotation = O::rope_original * f / (2 * M_PI), smooth = fmin(fmax((rotation - O::rope_low) / (O::rope_high - O::rope_low), 0), 1);
          f = (1 - smooth) * f / O::rope_factor + smooth * f;
        }
        t[(size_t)p * half + i] = {(float)cos(f * p), (float)sin(f * p)};
      }
    float2 *to = (float2 *)device_room(t.size() * sizeof t[0]);
    to_device(to, t.data(), t.size() * sizeof t[0]);
    m.rotation[O::ID] = to;
  }
}

// ---- rows of the tables, by worker ----

struct tables {
  std::vector<node_row> node;
  std::vector<wait_row> wait;
  std::vector<publish_row> publish;
  int words;
};

static plan_span share_of(int node, int worker)
{
  const unsigned short *s = &SHARE[2 * (node * WORKERS + worker)];
  return {s[0], s[1]};
}
static int shared_tiles(const plan_event &e, plan_span s)
{
  int n = 0;
  for (int i = e.first; i < e.last; i++) n += std::max(0, std::min(s.hi, SPAN[i].hi) - std::max(s.lo, SPAN[i].lo));
  return n;
}

// An event has one word; a flag has one for each task. `planted`: number of an event whose waits expect one more than its count; it never completes.
static tables make_tables(int planted)
{
  tables t = {std::vector<node_row>(WORKERS * NODES), std::vector<wait_row>(WORKERS * WAITS), std::vector<publish_row>(WORKERS * PUBLISHES), 0};
  std::vector<int> base, index;
  for (int e = 0; EVENT[e].id >= 0; e++) {
    index.resize((size_t)EVENT[e].id + 1), index[(size_t)EVENT[e].id] = e;
    base.push_back(t.words), t.words += EVENT[e].flag ? WORKERS : 1;
  }
  for (int w = 0; w < WORKERS; w++) {
    int waits = w * WAITS, publishes = w * PUBLISHES, turn = 0;
    for (int n = 0, at = 0, ev = 0; n < NODES; n++) {
      node_row &r = t.node[(size_t)(w * NODES + n)];
      plan_span s = share_of(n, w);
      r = {(unsigned short)NODE[n].layer, (unsigned short)s.lo, (unsigned short)s.hi, (unsigned short)(waits - w * WAITS), 0,
           (unsigned short)(publishes - w * PUBLISHES), (unsigned char)NODE[n].op, 0, (unsigned char)(turn ^= s.hi > s.lo)};
      for (; WAIT[at].node == n; at++) {
        const plan_wait &x = WAIT[at];
        const plan_event &e = EVENT[index[(size_t)x.event]];
        if (std::max(s.lo, x.lo) >= std::min(s.hi, x.hi)) continue;
        for (int k = 0; k < (e.flag ? WORKERS : 1); k++) {
          if (e.flag && !shared_tiles(e, share_of(e.node, k))) continue;
          int word = base[(size_t)index[(size_t)x.event]] + k, count = (e.flag ? 1 : e.count) + (x.event == planted);
          t.wait[(size_t)waits++] = {(unsigned short)word, (unsigned short)count, (unsigned short)x.event, (unsigned char)x.back,
                                     (unsigned char)x.stream};
          r.nwaits++;
        }
      }
      for (ev = 0; EVENT[ev].id >= 0; ev++) {
        int tiles = EVENT[ev].node == n ? shared_tiles(EVENT[ev], s) : 0;
        if (!tiles) continue;
        bool flag = EVENT[ev].flag;
        t.publish[(size_t)publishes++] = {(unsigned short)(base[(size_t)ev] + (flag ? w : 0)), (unsigned short)(flag ? 0 : tiles)};
        r.npublish++;
      }
    }
  }
  return t;
}

// ---- runs ----

struct program {
  kernel_memory m;
  std::vector<void *> first; // state before the first step
  u32 step;                  // first step of the next launch
  int positions, words;
};

template <class T> static T *uploaded(const std::vector<T> &v)
{
  T *p = (T *)device_room(v.size() * sizeof v[0]);
  to_device(p, v.data(), v.size() * sizeof v[0]);
  return p;
}

static size_t bytes_of(int t) { return (size_t)TENSOR[t].room; }

// Makes the tables again, with a planted event (make_tables) or without one (-1).
static void plant(program &p, int event)
{
  tables t = make_tables(event);
  to_device((void *)p.m.node, t.node.data(), t.node.size() * sizeof t.node[0]);
  to_device((void *)p.m.wait, t.wait.data(), t.wait.size() * sizeof t.wait[0]);
}

// Restarts epochs: sets words, counters and flags to zero.
static void reset_epochs(program &p)
{
  for (int t = 0; t < TENSORS; t++)
    if (TENSOR[t].words) zero_device(p.m.tensor[t], bytes_of(t));
  zero_device(p.m.word, (size_t)p.words * 128), zero_device(p.m.fault, WORKERS * 2 * sizeof(fault_row)), zero_device(p.m.stop, 4);
  p.step = 0;
}

static void restore(program &p)
{
  for (int t = 0; t < TENSORS; t++)
    if (p.first[(size_t)t]) copy_device(p.m.tensor[t], p.first[(size_t)t], bytes_of(t));
}

// All requests have the same length here, so the order of attention tiles does not matter; it is reversed.
static void make_order(program &p)
{
  int tiles = 0;
#define OPERATOR(name, layer) tiles = ROWS > 1 && name::STREAM == STREAM_PAGES ? name::TILES : tiles;
  OPERATORS
#undef OPERATOR
  std::vector<unsigned short> order((size_t)tiles);
  for (int i = 0; i < tiles; i++) order[(size_t)i] = (unsigned short)(tiles - 1 - i);
  if (tiles) p.m.order = uploaded(order);
}

// Makes one request for each row, with equal shares of the cache after its first page.
static void make_seats(program &p)
{
  std::vector<seat_row> seats(ROWS, seat_row{1, 1, CONTEXT, CONTEXT, 0});
  std::vector<int> table((size_t)std::max(1, ROWS * SHARED_PAGES));
  for (int r = 0; r < ROWS; r++)
    for (int i = 0; i < (SHARED_PAGES - 1) / ROWS; i++) table[(size_t)(r * SHARED_PAGES + i)] = 1 + r * ((SHARED_PAGES - 1) / ROWS) + i;
  p.m.seat = uploaded(seats), p.m.table = uploaded(table);
  make_order(p);
}

static program prepare(int positions, u64 deadline)
{
  program p = {};
  tables t = make_tables(-1);
  p.first.resize(TENSORS), p.positions = positions, p.words = std::max(t.words, 1);
  for (int i = 0; i < TENSORS; i++) {
    p.m.tensor[i] = device_room(bytes_of(i));
    if (TENSOR[i].kind == 'w') fill_weights(p.m.tensor[i], i);
    if (TENSOR[i].kind == 'i') zero_device(p.m.tensor[i], bytes_of(i));
    if (TENSOR[i].kind == 's') p.first[(size_t)i] = device_room(bytes_of(i)), fill_state(p.first[(size_t)i], i);
  }
#define OPERATOR(name, layer) pack_operator<name>(p.m), upload_rotation<name>(p.m, positions);
  OPERATORS
#undef OPERATOR
  p.m.node = uploaded(t.node), p.m.wait = uploaded(t.wait), p.m.publish = uploaded(t.publish);
  p.m.word = (u32 *)device_room((size_t)p.words * 128), p.m.fault = (fault_row *)device_room(WORKERS * 2 * sizeof(fault_row));
  p.m.stop = (u32 *)device_room(4), p.m.tokens = (int *)device_room((size_t)positions * ROWS * 4), p.m.deadline = deadline;
  make_seats(p), reset_epochs(p), restore(p);
  return p;
}

// Prints the record of the earliest node that waited. A pipeline waits for its consumers.
static bool print_fault(const program &p)
{
  std::vector<fault_row> f(WORKERS * 2);
  int first = -1;
  from_device(f.data(), p.m.fault, f.size() * sizeof f[0]);
  for (int i = 0; i < WORKERS * 2; i++) {
    if (!f[i].taken) continue;
    auto order = [&](int k) { return ((u64)f[k].producer << 63) + (u64)f[k].step * NODES + f[k].node; };
    if (first < 0 || order(i) < order(first)) first = i;
  }
  if (first < 0) return false;
  const fault_row &x = f[first];
  const plan_fault &k = FAULT[x.kind];
  if (WORLD > 1) printf("rank %d: ", at_rank);
  printf("%s: worker %d (%s) in step %u at %s waited for %s%s", k.hung ? "hung" : "fault", first / 2, x.producer ? "producer" : "consumer", x.step,
         NODE_NAME[x.node], k.words, k.of == OF_TENSOR ? TENSOR[x.which].name : "");
  if (k.of == OF_EVENT) {
    for (int e = 0; EVENT[e].id >= 0; e++)
      if (EVENT[e].id == (int)x.which) printf("%u (%s of %s)", x.which, EVENT[e].flag ? "flag" : "counter", NODE_NAME[EVENT[e].node]);
  }
  if (k.of == OF_RANK) printf("%u", x.which);
  printf(": saw %d, wanted %d\n", (int)x.seen, (int)x.wanted);
  return true;
}

// An event of a counter or flag that some node awaits in the same step.
static int awaited_event()
{
  for (int i = 0; WAIT[i].node >= 0; i++)
    if (!WAIT[i].back) return WAIT[i].event;
  return EVENT[0].id;
}

#if WORLD == 1

// Runs steps; true if there was no fault.
static bool run_steps(program &p, int steps)
{
  u32 stop = 0;
  launch(p.m, p.step, CONTEXT, steps);
  p.step += (u32)steps;
  from_device(&stop, p.m.stop, 4);
  return !stop || !print_fault(p);
}

#endif

static std::vector<int> tokens_of(const program &p, int steps)
{
  std::vector<int> t((size_t)(steps * ROWS));
  from_device(t.data(), p.m.tokens, t.size() * 4);
  return t;
}

static int tensor_named(const char *name)
{
  for (int t = 0; t < TENSORS; t++)
    if (!strcmp(TENSOR[t].name, name)) return t;
  return -1;
}

#if WORLD == 1

static bool run_again(program &p, int steps, std::vector<int> &tokens)
{
  restore(p);
  if (!run_steps(p, steps)) return false;
  tokens = tokens_of(p, steps);
  return true;
}

// ---- checks ----

// Products of more than eight rows round their inputs to bf16, so logits differ by about half a percent of their root mean square. A different token
// is accepted if its plain logit is nearly the largest: the difference of two logits may change by about four times as much.
#if PANELS
constexpr bool ROUNDED = HALVES == 1;
#else
constexpr bool ROUNDED = false;
#endif

const double NEARLY = 0.02; // tolerance as a fraction of the root mean square of a row's logits

// Whether the kernel's token may stand for the plain model's. plain: the plain model's n logits of the row.
static bool nearly_same(const float *plain, int n, int by_kernel, int plainly)
{
  if (by_kernel == plainly) return true;
  if (!ROUNDED || by_kernel < 0 || by_kernel >= n) return false;
  double squares = 0;
  for (int i = 0; i < n; i++) squares += plain[i] * (double)plain[i];
  return plain[plainly] - plain[by_kernel] <= NEARLY * std::sqrt(squares / n);
}

// Compares the kernel with the plain model, which continues with the kernel's tokens.
static bool check_plain(program &p, const std::vector<int> &tokens, int steps)
{
  plain_tensors m = {};
  int token = tensor_named("token"), logits = tensor_named("logits"), agree = 0;
  if (logits < 0) return true;
  for (int t = 0; t < TENSORS; t++) {
    m.t[t] = TENSOR[t].kind == 'w' ? p.m.tensor[t] : device_room((size_t)(TENSOR[t].elements * TENSOR[t].bytes));
    if (TENSOR[t].kind == 'i') zero_device(m.t[t], (size_t)(TENSOR[t].elements * TENSOR[t].bytes));
    if (p.first[(size_t)t]) copy_device(m.t[t], p.first[(size_t)t], bytes_of(t));
  }
  std::vector<float> a((size_t)TENSOR[logits].elements), b(a.size());
  fidelity f = {};
  const int n = (int)(a.size() / ROWS);
  for (int s = 0; s < steps; s++) {
    std::vector<int> now(ROWS), kernel;
    plain_step(m, CONTEXT + s);
    if (token >= 0) {
      from_device(now.data(), m.t[token], ROWS * 4);
      to_device(m.t[token], &tokens[(size_t)(s * ROWS)], ROWS * 4);
    } else
      agree += ROWS;
    if (!run_again(p, s + 1, kernel)) return false;
    from_device(a.data(), p.m.tensor[logits], a.size() * 4), from_device(b.data(), m.t[logits], b.size() * 4);
    for (int r = 0; r < ROWS && token >= 0; r++)
      agree += nearly_same(&b[(size_t)(r * n)], n, tokens[(size_t)(s * ROWS + r)], now[(size_t)r]);
    f.step(a, b, token >= 0 ? &tokens[(size_t)(s * ROWS)] : NULL);
  }
  printf("plain: %d of %d tokens agree, ", agree, steps * ROWS), f.print();
  return agree == steps * ROWS && f.error < (ROUNDED ? 0.05 : 0.01);
}

// Checks a run with a counter that never completes: it must end as hung, and the next run must be right.
static bool check_hang(program &p, int steps, const std::vector<int> &tokens)
{
  std::vector<int> now;
  plant(p, awaited_event()), restore(p);
  bool hung = !run_steps(p, steps);
  plant(p, -1), reset_epochs(p);
  bool fine = run_again(p, steps, now) && now == tokens;
  printf("planted: %s, and the next run is %s\n", hung ? "found" : "NOT found", fine ? "right" : "WRONG");
  return hung && fine;
}

static bool check_many(program &p, int steps, int launches, const std::vector<int> &tokens)
{
  std::vector<int> now;
  for (int i = 0; i < launches; i++)
    if (!run_again(p, steps, now) || now != tokens) return printf("launch %d of %d steps: WRONG\n", i, steps), false;
  printf("%d launches of %d steps: no fault, all tokens the same\n", launches, steps);
  return true;
}

#endif
