// The kernel: a producer thread that fills the pipeline in the plan's order, consumer warps that run the tasks, and a thread that publishes their
// events. OPERATORS lists the operators.

// The nodes of a step that a launch runs: all nodes.
struct all_nodes {
  DEV int begin() const { return 0; }
  DEV int end() const { return NODES; }
};
HOST_TOO moment later(moment from, int steps, int n) { return {from.step + (u32)steps, n, from.position + steps, from.at + steps}; }

// ---- the producer, one thread ----

// Waits for a stage for piece `made`, and for earlier copies so that few are in flight: other accesses queue behind them in memory. At most FLIGHTS
// copies are in flight while the consumers use pieces of this node. Otherwise the limit is CALM_FLIGHTS: then the block waits for an input, or other
// blocks still need pieces of an earlier node.
DEV u32 fill(moment j, u32 made, int bytes)
{
  u32 flight = S.urgent == (u32)j.n + 1 ? FLIGHTS : CALM_FLIGHTS, slot = made % STAGES, before = made - flight;
  if (made >= flight) wait_stage(&S.full[before % STAGES], before / STAGES & 1, j, made);
  wait_stage(&S.empty[slot], (made / STAGES & 1) ^ 1, j, made);
  stage_expect(&S.full[slot], bytes);
  return slot;
}

#if PANELS
// Loads the weights of groups of tiles that are multiplied together: all their first pieces, then all their second pieces, and so on.
DEV u32 produce_groups(moment j, u32 made, const char *p)
{
  const node_row &r = S.node[j.n];
  const weights_row &w = WEIGHTS[r.op];
#pragma unroll 1
  for (int first = r.lo, end; first < r.hi && !S.dead; p += (end - first) * w.tile_bytes, first = end) {
    end = end_of_group(first, r.hi, w.group, w.ragged ? w.tiles : 0);
    bool last = first == w.tiles - 1;
    int width = last ? w.last_width : w.width, bytes = last ? w.last_bytes : w.bytes, end_bytes = last ? w.last_end_bytes : w.end_bytes;
    long long at = 0;
#pragma unroll 1
    for (int from = 0; from < w.k; from += width, at += bytes) {
      int n = from + width < w.k ? bytes : end_bytes;
#pragma unroll 1
      for (int tile = first; tile < end; tile++, made++) {
        u32 slot = fill(j, made, n);
        stage_copy(S.ring[slot], p + (tile - first) * w.tile_bytes + at, n, &S.full[slot], true);
      }
    }
  }
  return made;
}
#endif

// Loads weights, whose pieces are contiguous in the order of the tiles. One loop serves all operators; their shapes are rows of a table.
DEV u32 produce_weights(moment j, u32 made)
{
  const node_row &r = S.node[j.n];
  const weights_row &w = WEIGHTS[r.op];
  const char *p = M.packed[r.op] + r.layer * w.layer_bytes + r.lo * w.tile_bytes;
  int hi = r.hi, tiles = w.tiles, k = w.k;
  if (w.gain >= 0 && WORKER == j.n % WORKERS) prefetch_l2((const char *)M.tensor[w.gain] + r.layer * w.gain_bytes, w.gain_bytes);
#if PANELS
  if (w.group > 1) return produce_groups(j, made, p);
#endif
#pragma unroll 1
  for (int tile = r.lo; tile < hi && !S.dead; tile++) {
    bool last = tile == tiles - 1;
    int width = last ? w.last_width : w.width, bytes = last ? w.last_bytes : w.bytes, end_bytes = last ? w.last_end_bytes : w.end_bytes;
#pragma unroll 1
    for (int from = 0; from < k; from += width, made++) {
      int n = from + width < k ? bytes : end_bytes;
      u32 slot = fill(j, made, n);
      stage_copy(S.ring[slot], p, n, &S.full[slot], true);
      p += n;
    }
  }
  return made;
}

// Calls f(keys, bytes) for the pieces of the cache that a task reads, until it returns false; values are SLOTS rows further. The positions are those
// before this one; for requests, those that earlier launches and earlier steps of this launch wrote.
template <class O, class P, class F> DEV void each_piece(moment j, F f)
{
  const node_row &r = S.node[j.n];
#pragma unroll 1
  for (int i = r.lo; i < r.hi; i++) {
    int tile = O::STREAM == STREAM_PAGES ? served_tile(i) : i;
    seat s = {true, 0, 0, 0};
    if constexpr (O::STREAM == STREAM_PAGES) s = seat_of(P::row(tile), j.at);
    int all = O::STREAM == STREAM_PAGES ? s.past : j.position, end = P::end(tile, all);
#pragma unroll 1
    for (int at = P::first(tile, all), n; at < end && !S.dead; at += n) {
      n = min(P::WIDTH, min(end - at, P::SLOTS - at % P::SLOTS));
      const typename P::tensor::type *keys;
      if constexpr (O::STREAM == STREAM_PAGES)
        keys = served_at<P>(s, r.layer, tile, at);
      else
        keys = cached<P>(r.layer, tile, at);
      if (!f(keys, n * cache_row<P>::bytes)) return;
    }
  }
}

// Reads the experts of a tile's choices into S.expert. All words are requested at once.
template <class O, class E, class W> DEV void read_choices(moment j, int tile)
{
  using T = typename E::tensor;
  constexpr int B = W::CHOICES < 8 ? W::CHOICES : 8;
  int layer = S.node[j.n].layer, row = E::lo0(layer, tile), slot = E::lo1(layer, tile);
  u32 epoch = epoch_of<E>(j);
#pragma unroll 1
  for (int from = 0; from < W::CHOICES; from += B) {
    uint4 v[B];
    auto at = [&](int k) { return slot + min(from + k, W::CHOICES - 1); };
    if constexpr (T::TAGGED) {
      await_words<B>(words_of<T>(epoch, row), at, epoch + 1, j, T::ID, v);
    } else {
#pragma unroll
      for (int k = 0; k < B; k++) v[k].x = float_bits(load_relaxed((const float *)plain_of<T>(T::VERSIONS > 1 ? epoch : 0, row) + 2 * at(k)));
    }
#pragma unroll
    for (int k = 0; k < B; k++) {
      int expert = (int)bits_float(v[k].x);
      bool known = expert >= 0 && expert < W::EXPERTS;
      if (!known && !S.dead) record_fault(BAD_CHOICE, j, T::ID, (u32)expert, W::EXPERTS);
      if (from + k < W::CHOICES) S.expert[from + k] = known ? expert : 0;
    }
  }
}

// Loads the weights of a row's chosen experts, in the order of the choices.
template <class O> DEV u32 produce_experts(moment j, u32 made)
{
  using W = typename O::streamed;
  const node_row &r = S.node[j.n];
  int hi = r.hi, known = -1;
  for (int i = r.wait; i < r.wait + r.nwaits; i++)
    if (S.wait[i].stream) wait_row_of(S.wait[i], j);
#pragma unroll 1
  for (int tile = r.lo; tile < hi && !S.dead; tile++) {
    int column = tile % W::TILES, width = W::width(tile), lines = W::SLICES * W::columns(tile);
    if (tile / W::TILES != known) known = tile / W::TILES, read_choices<O, typename O::decider, W>(j, tile);
#pragma unroll 1
    for (int c = 0; c < W::CHOICES; c++) {
      const char *p = M.packed[O::ID] + W::tile_at(r.layer * W::EXPERTS + S.expert[c], column);
#pragma unroll 1
      for (int from = 0, n; from < W::K; from += width, p += n, made++) {
        n = lines * W::pitch(min(width, W::K - from));
        u32 slot = fill(j, made, n);
        stage_copy(S.ring[slot], p, n, &S.full[slot], true);
      }
    }
  }
  return made;
}

// Loads the pieces of an operator; for a cache, keys and then values.
template <class O> DEV u32 produce(moment j, u32 made)
{
  if constexpr (O::STREAM == STREAM_EXPERTS) return produce_experts<O>(j, made);
  if constexpr (O::STREAM == STREAM_CACHE || O::STREAM == STREAM_PAGES) {
    using P = typename O::streamed;
    const node_row &r = S.node[j.n];
    for (int i = r.wait; i < r.wait + r.nwaits; i++)
      if (S.wait[i].stream) wait_row_of(S.wait[i], j), fence_proxy();
    each_piece<O, P>(j, [&](const typename P::tensor::type *p, int bytes) {
      u32 slot = fill(j, made, 2 * bytes);
      stage_copy(S.ring[slot], p, bytes, &S.full[slot], true);
      stage_copy(S.ring[slot] + bytes, p + P::SLOTS * P::DIM, bytes, &S.full[slot], true);
      made++;
      return true;
    });
  }
  return made;
}

// With one row, its first pages are prefetched into L2 before the weights of the product ahead of attention. Pages are read once per step, so the
// first access to them takes some microseconds for the address translation. More pages would be evicted from L2 before use, and read twice.
enum { PAGES_AHEAD = 64 << 10 }; // bytes prefetched by a block
template <class O> DEV void fetch_pages(moment j)
{
  if constexpr (O::STREAM == STREAM_CACHE || O::STREAM == STREAM_PAGES) {
    using P = typename O::streamed;
    int left = PAGES_AHEAD;
    each_piece<O, P>(j, [&](const typename P::tensor::type *p, int bytes) {
      prefetch_l2(p, bytes), prefetch_l2(p + P::SLOTS * P::DIM, bytes);
      return (left -= 2 * bytes) > 0;
    });
  }
}
// Prefetches the pages of the nodes after j.n, up to the next node that streams weights.
template <class R> DEV void fetch_ahead(R nodes, moment j)
{
#pragma unroll 1
  while (++j.n < nodes.end() && !WEIGHTS[S.node[j.n].op].tiles) {
    if (S.node[j.n].lo == S.node[j.n].hi) continue;
    switch (S.node[j.n].op) {
#define OPERATOR(name, layer) \
  case name::ID: fetch_pages<name>(j); break;
      OPERATORS
#undef OPERATOR
    }
  }
}

// Waits for all copies that were started, at most a number of polls. None may complete after the block has ended.
DEV void drain(u32 made)
{
  for (u32 i = made < STAGES ? 0 : made - STAGES; i < made; i++)
    for (int tries = 0; tries < 1 << 22 && !stage_passed(&S.full[i % STAGES], i / STAGES & 1); tries++) {
    }
}

template <class R> APART void produce_all(R nodes, moment from, int steps)
{
  u32 made = 0;
#pragma unroll 1
  for (int s = 0; s < steps && !S.dead; s++)
#pragma unroll 1
    for (int n = nodes.begin(); n < nodes.end() && !S.dead; n++) {
      moment j = later(from, s, n);
      if (S.node[n].lo == S.node[n].hi) continue;
      if (WEIGHTS[S.node[n].op].tiles) {
        if (ROWS == 1) fetch_ahead(nodes, j);
        made = produce_weights(j, made);
        continue;
      }
      switch (S.node[n].op) {
#define OPERATOR(name, layer) \
  case name::ID: made = produce<name>(j, made); break;
        OPERATORS
#undef OPERATOR
      }
    }
  drain(made);
}

#if PANELS
template <class R> APART void feed_all(R nodes, moment from, int steps)
{
  feeding f = {0, 0};
#pragma unroll 1
  for (int s = 0; s < steps && !S.dead; s++)
#pragma unroll 1
    for (int n = nodes.begin(); n < nodes.end() && !S.dead; n++) {
      if (S.node[n].lo == S.node[n].hi) continue;
      switch (S.node[n].op) {
#define OPERATOR(name, layer) \
  case name::ID: feed_node<name>(later(from, s, n), f); break;
        OPERATORS
#undef OPERATOR
      }
    }
  for (u32 i = f.made < PANEL_SLOTS ? 0 : f.made - PANEL_SLOTS; i < f.made; i++)
    for (int tries = 0; tries < 1 << 22 && !stage_passed(&S.panel_full[i % PANEL_SLOTS], i / PANEL_SLOTS & 1); tries++) {
    }
}
#endif

// ---- consumers ----

template <class R> DEV u32 consume_step(R nodes, moment j, u32 taken)
{
#pragma unroll 1
  for (j.n = nodes.begin(); j.n < nodes.end(); j.n++) {
    if (S.node[j.n].lo == S.node[j.n].hi) continue;
    mark(j, BEGUN);
    await_input();
    switch (S.node[j.n].op) {
#define OPERATOR(name, layer) \
  case name::ID: taken = body_##layer<name>(j, taken); break;
      OPERATORS
#undef OPERATOR
    }
    mark(j, ENDED);
  }
  return taken;
}

DEV void consume_all(u32 first, int position, int steps)
{
  u32 taken = 0;
  if (WORLD > 1) meet_ranks({first, 0, position, 0}, 0, first + 1);
#pragma unroll 1
  for (int s = 0; s < steps; s++) {
    if (TID == 0) S.traced = M.trace && s == steps - 1;
    taken = consume_step(all_nodes{}, later({first, 0, position, 0}, s, 0), taken);
    sync_consumers();
    u32 dead = S.dead;
    sync_consumers();
    if (dead) return;
  }
  if (WORLD > 1) end_rank({first + (u32)steps - 1, NODES - 1, position, 0}, first + (u32)steps);
}

// ---- the publisher, one thread ----

template <class R> APART void publish_all(R nodes, u32 first, int steps)
{
  u32 done = 0;
#pragma unroll 1
  for (int s = 0; s < steps; s++)
#pragma unroll 1
    for (int n = nodes.begin(); n < nodes.end(); n++) {
      const node_row &r = S.node[n];
      if (r.lo == r.hi || !r.npublish) continue;
      done += WARPS;
      while ((int)(done_look(&S.done) - done) < 0) {
        if (S.dead) return;
        sleep_briefly();
      }
#pragma unroll 1
      for (int i = r.publish; i < r.publish + r.npublish; i++) {
        u32 *w = &M.word[S.publish[i].word * 32];
        if (S.publish[i].add)
          release_add(w, S.publish[i].add);
        else
          release_set(w, first + (u32)s + 1);
      }
    }
}

template <class T> DEV void load_rows(T *to, const T *from, int n)
{
  for (int i = TID; i < n * (int)(sizeof(T) / sizeof(u32)); i += BLOCK_THREADS) ((u32 *)to)[i] = ((const u32 *)from)[i];
}

// Initializes a block whose tables have been loaded.
DEV void begin_block()
{
  if (TID == 0) {
    S.dead = S.done = S.urgent = 0;
    for (int i = 0; i < STAGES; i++) stage_init(&S.full[i], 1), stage_init(&S.empty[i], WARPS);
#if PANELS
    for (int i = 0; i < PANEL_SLOTS; i++) stage_init(&S.panel_full[i], 1), stage_init(&S.panel_empty[i], WARPS);
    stage_init(&S.panel_free, WARPS), S.feeds = 0;
#endif
    stage_inits_end();
  }
  sync_block();
}

// Runs steps first .. first + steps - 1; the first one is at this position.
KERNEL mega_kernel(u32 first, int position, int steps)
{
  load_rows(S.node, M.node + WORKER * NODES, NODES);
  load_rows(S.wait, M.wait + WORKER * WAITS, WAITS);
  load_rows(S.publish, M.publish + WORKER * PUBLISHES, PUBLISHES);
  begin_block();
  if (uniform(TID / 32) < WARPS)
    consume_all(first, position, steps);
  else if (TID == THREADS)
    produce_all(all_nodes{}, {first, 0, position, 0}, steps);
  else if (TID == THREADS + 32)
    publish_all(all_nodes{}, first, steps);
#if PANELS
  else if (TID == THREADS + 64)
    feed_all(all_nodes{}, {first, 0, position, 0}, steps);
#endif
}
