// Several ranks: slots that each rank writes on every rank, and signals of the begin, the end and faults. Words are written to the peers' memory and
// polled in local memory.

struct peer_memory {
  void *tensor[WORLD][TENSORS]; // tensors of each rank, in this rank's address space
  u32 *stop[WORLD], *met[WORLD];   // met: [begin, end][rank], then the number of blocks that have ended; each on its own cache line
  int rank;
};
PER_RANK(peer_memory, PEERS);

#ifdef MEGA_GRAPH
// Memory of a graph with NCCL between its launches. Tensors that add_slots reads have partial sums in plain rows, which NCCL adds up in place; other
// tensors have NULL. For a shared tensor without sums, a rank writes its own slot, and NCCL gathers the slots.
struct nccl_memory {
  float *sums[TENSORS];
  int on;
};
PER_RANK(nccl_memory, BY_NCCL);
#endif

DEV void stop_all()
{
#pragma unroll 1
  for (int r = 0; r < WORLD && WORLD > 1; r++) store_signal(PEERS.stop[r], 1);
  *(volatile u32 *)M.stop = 1;
}

// ---- slots ----

template <class T> DEV uint4 *slot_of(void *base, int slot, u32 epoch, int row)
{
  return (uint4 *)base + (size_t)(epoch % T::VERSIONS * T::SLOTS + slot) * (T::WORDS * ROWS) + (size_t)row * T::WORDS;
}

// Writes a unit of this rank's slot on every rank, peers first.
template <class T> DEV void push_unit(u32 epoch, int row, int unit, uint4 v)
{
#ifdef MEGA_GRAPH
  if (BY_NCCL.on) {
    float *sum = BY_NCCL.sums[T::ID], x[] = {bits_float(v.x), bits_float(v.y), bits_float(v.z)};
    if (!sum) return store_word(slot_of<T>(M.tensor[T::ID], RANK, epoch, row) + unit, v);
    for (int i = 0; i < count_of<T>(unit); i++) store_relaxed(sum + row * T::ROW + first_of<T>(unit) + i, x[i]);
    return;
  }
#endif
#pragma unroll
  for (int i = 1; i <= WORLD; i++) {
    int r = (RANK + i) % WORLD;
    store_peer_word(slot_of<T>(PEERS.tensor[r][T::ID], RANK, epoch, row) + unit, v, r);
  }
}

DEV uint4 await_peer(const uint4 *p, uint4 v, u32 tag, moment j, u32 tensor)
{
  u64 since = 0;
#pragma unroll 1
  for (int polls = 1; v.w != tag; polls++, v = load_peer_word(p)) {
    if ((int)(v.w - tag) > 0) return record_fault(REWRITTEN, j, tensor, v.w, tag), v;
    if ((polls % POLLS == 0 || S.dead) && (since = check_deadline(since, LATE_WORD, j, tensor, v.w, tag)) == STOPPED) return v;
  }
  return v;
}

template <int N> DEV void await_all_peer(const uint4 *const (&w)[N], uint4 (&v)[N], u32 tag, moment j, u32 tensor)
{
  await_all<N>([&](int i) { return load_peer_word(w[i]); }, tag, j, tensor, v);
}

// Calls f(slot, element, value) for all words of a row of all slots, distributed over the consumers.
template <class A, class F> DEV void gather_slots(moment j, int row, F f)
{
  using T = typename A::tensor;
  u32 epoch = epoch_of<A>(j);
#pragma unroll 1
  for (int i = TID; i < T::SLOTS * T::WORDS; i += THREADS) {
    int slot = i / T::WORDS, unit = i % T::WORDS, e = first_of<T>(unit), n = count_of<T>(unit);
    const uint4 *w = slot_of<T>(M.tensor[T::ID], slot, epoch, row) + unit;
    uint4 v = await_peer(w, load_peer_word(w), epoch + 1, j, T::ID);
    f(slot, e, bits_float(v.x));
    if (n > 1) f(slot, e + 1, bits_float(v.y));
    if (n > 2) f(slot, e + 2, bits_float(v.z));
  }
}

// The sum of one element over all slots, in the plan's order.
template <class A> DEV float sum_of_element(moment j, int row, int e)
{
  using T = typename A::tensor;
  u32 epoch = T::TAGGED || T::VERSIONS > 1 ? epoch_of<A>(j) : 0;
#ifdef MEGA_GRAPH
  if (BY_NCCL.on && BY_NCCL.sums[T::ID]) return load_relaxed(BY_NCCL.sums[T::ID] + row * T::ROW + e);
#endif
#if PANELS
  if constexpr (T::PANEL) return panel_value<T>(epoch, row, e);
#endif
  if (!T::TAGGED) return load_relaxed((const float *)plain_of<T>(epoch, row) + e);
  int unit = word_at<T>(e), c = e - first_of<T>(unit);
  const uint4 *w[T::SLOTS];
  uint4 v[T::SLOTS];
  float sum = 0;
#pragma unroll
  for (int i = 0; i < T::SLOTS; i++) w[i] = slot_of<T>(M.tensor[T::ID], T::SLOTS > 1 ? order_of(i) : 0, epoch, row) + unit;
  await_all_peer(w, v, epoch + 1, j, T::ID);
#pragma unroll
  for (int i = 0; i < T::SLOTS; i++) {
    float x = bits_float(c == 0 ? v[i].x : c == 1 ? v[i].y : v[i].z);
    sum = i ? sum + x : x;
  }
  return sum;
}

// Adds slots and residual if their units and those of the output have the same layout. All words are loaded at once.
template <class X, class R, class Y> DEV void add_units(moment j, int row, int lo, int hi)
{
  using T = typename X::tensor;
  using U = typename R::tensor;
  u32 epoch = epoch_of<X>(j), before = epoch_of<R>(j);
#pragma unroll 1
  for (int unit = word_at<T>(lo) + TID; unit <= word_at<T>(hi - 1); unit += THREADS) {
    const uint4 *w[T::SLOTS], *r = slot_of<U>(M.tensor[U::ID], 0, before, row) + unit;
    uint4 v[T::SLOTS], added = load_peer_word(r);
#pragma unroll
    for (int i = 0; i < T::SLOTS; i++) w[i] = slot_of<T>(M.tensor[T::ID], T::SLOTS > 1 ? order_of(i) : 0, epoch, row) + unit;
    await_all_peer(w, v, epoch + 1, j, T::ID);
    added = await_peer(r, added, before + 1, j, U::ID);
    float x = 0, y = 0, z = 0;
#pragma unroll
    for (int i = 0; i < T::SLOTS; i++) {
      x = i ? x + bits_float(v[i].x) : bits_float(v[i].x), y = i ? y + bits_float(v[i].y) : bits_float(v[i].y);
      z = i ? z + bits_float(v[i].z) : bits_float(v[i].z);
    }
    write_unit<Y>(j, row, unit, bits_float(added.x) + x, bits_float(added.y) + y, bits_float(added.z) + z);
  }
}

template <class O> BODY u32 body_add_slots(moment j, u32 taken)
{
  using X = typename O::a0;
  using R = typename O::a1;
  using Y = typename O::a2;
  using T = typename X::tensor;
  constexpr bool alike = T::TAGGED && R::tensor::TAGGED && T::GROUP == R::tensor::GROUP && T::GROUP == Y::tensor::GROUP;
  int layer = S.node[j.n].layer;
  wait_events<O>(j);
#pragma unroll 1
  for (int tile = S.node[j.n].lo; tile < S.node[j.n].hi; tile++)
#pragma unroll 1
    for (int r = 0; r < ROWS; r++) {
#ifdef MEGA_GRAPH
      if (alike && !BY_NCCL.on)
#else
      if constexpr (alike)
#endif
        add_units<X, R, Y>(j, r, Y::lo1(layer, tile), Y::hi1(layer, tile));
      else
        write_row<Y>(j, r, Y::lo1(layer, tile), Y::hi1(layer, tile), [&](int e) { return sum_of_element<R>(j, r, e) + sum_of_element<X>(j, r, e); });
    }
  publish_writes<Y>(j);
  return taken;
}

// ---- begin and end ----

// The first block signals the other ranks, and waits for their signals.
DEV void meet_ranks(moment j, int end, u32 epoch)
{
  if (WORKER || TID >= WORLD || TID == RANK) return;
  const u32 *word = PEERS.met[RANK] + (end * WORLD + TID) * 32;
  u64 since = 0;
  store_signal(PEERS.met[TID] + (end * WORLD + RANK) * 32, epoch);
#pragma unroll 1
  for (int polls = 1;; polls++) {
    u32 seen = load_signal(word);
    if (seen == epoch) return;
    if ((polls % POLLS == 0 || S.dead) && (since = check_deadline(since, LATE_RANK, j, (u32)TID, seen, epoch)) == STOPPED) return;
  }
}

// Each block calls this after its last step. When all blocks of this rank have done so, the rank has received all words from the others.
DEV void end_rank(moment j, u32 epoch)
{
  u32 *done = PEERS.met[RANK] + 2 * WORLD * 32;
  u64 since = 0;
  sync_consumers();
  if (TID == 0) release_add(done, 1);
  if (WORKER == 0 && TID == 0) {
#pragma unroll 1
    for (int polls = 1; acquire(done) < (u32)WORKERS; polls++)
      if ((polls % POLLS == 0 || S.dead) && (since = check_deadline(since, LATE_RANK, j, (u32)RANK, acquire(done), (u32)WORKERS)) == STOPPED) break;
    release_set(done, 0);
  }
  sync_consumers();
  meet_ranks(j, 1, epoch);
}
