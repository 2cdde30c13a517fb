// The kernel: a producer that fills the pipeline in the order of the plan, and consumers that run the tasks. OPERATORS lists the operators.

// ---- the producer, one thread ----

DEV u32 fill(moment j, u32 made, int bytes)
{
  u32 slot = made % STAGES;
  wait_stage(&S.empty[slot], (made / STAGES & 1) ^ 1, j, made);
  stage_expect(&S.full[slot], bytes);
  return slot;
}

// Weights: tiles lie one after another in the order of the pieces.
template <class O, class W> DEV u32 produce_weights(moment j, u32 made)
{
  const node_row &r = S.node[j.n];
#pragma unroll 1
  for (int tile = r.lo; tile < r.hi && !S.dead; tile++) {
    const char *p = M.packed[O::ID] + W::tile_at(r.layer, tile);
    int columns = W::columns(tile), width = W::width(tile);
#pragma unroll 1
    for (int from = 0; from < W::K && !S.dead; from += width, made++) {
      int bytes = W::SLICES * columns * W::pitch(min(width, W::K - from));
      u32 slot = fill(j, made, bytes);
      stage_copy(S.ring[slot], p, bytes, &S.full[slot], true);
      p += bytes;
    }
  }
  return made;
}

// Pages of the cache before this position: keys, then values.
template <class O, class P> DEV u32 produce_pages(moment j, u32 made)
{
  const node_row &r = S.node[j.n];
  for (int i = r.wait; i < r.wait + r.nwaits; i++)
    if (S.wait[i].stream) wait_row_of(S.wait[i], j), fence_proxy();
#pragma unroll 1
  for (int tile = r.lo; tile < r.hi; tile++)
#pragma unroll 1
    for (int at = 0, n; at < j.position && !S.dead; at += n, made++) {
      n = min(P::WIDTH, min(j.position - at, P::SLOTS - at % P::SLOTS));
      const typename P::tensor::type *p = cached<P>(r.layer, tile, at);
      int bytes = n * P::DIM * (int)sizeof *p;
      u32 slot = fill(j, made, 2 * bytes);
      stage_copy(S.ring[slot], p, bytes, &S.full[slot], false);
      stage_copy(S.ring[slot] + bytes, p + P::SLOTS * P::DIM, bytes, &S.full[slot], false);
    }
  return made;
}

template <class O> DEV u32 produce(moment j, u32 made)
{
  if constexpr (O::STREAM == 1) return produce_weights<O, typename O::streamed>(j, made);
  if constexpr (O::STREAM == 2) return produce_pages<O, typename O::streamed>(j, made);
  if constexpr (O::STREAM == 3) return produce_served<O, typename O::streamed>(j, made);
  return made;
}

// What was begun is waited for: no copy may end after the block has.
DEV void drain(u32 made)
{
  for (u32 i = made < STAGES ? 0 : made - STAGES; i < made; i++)
    for (int tries = 0; tries < 1 << 22 && !stage_passed(&S.full[i % STAGES], i / STAGES & 1); tries++) {
    }
}

DEV void produce_all(u32 first, int position, int steps)
{
  u32 made = 0;
#pragma unroll 1
  for (int s = 0; s < steps && !S.dead; s++)
#pragma unroll 1
    for (int n = 0; n < NODES && !S.dead; n++) {
      moment j = {first + (u32)s, n, position + s, s};
      if (S.node[n].lo == S.node[n].hi) continue;
      switch (S.node[n].op) {
#define OPERATOR(name, layer) \
  case name::ID: made = produce<name>(j, made); break;
        OPERATORS
#undef OPERATOR
      }
    }
  drain(made);
}

// ---- consumers ----

DEV u32 consume_step(moment j, u32 taken, bool last)
{
#pragma unroll 1
  for (j.n = 0; j.n < NODES; j.n++) {
    if (S.node[j.n].lo == S.node[j.n].hi) continue;
    switch (S.node[j.n].op) {
#define OPERATOR(name, layer) \
  case name::ID: taken = body_##layer<name>(j, taken); break;
      OPERATORS
#undef OPERATOR
    }
    if (last && M.trace && TID == 0) M.trace[WORKER * NODES + j.n] = now_ns();
  }
  return taken;
}

DEV void consume_all(u32 first, int position, int steps)
{
  u32 taken = 0;
  if (WORLD > 1) meet_ranks({first, 0, position, 0}, 0, first + 1);
#pragma unroll 1
  for (int s = 0; s < steps; s++) {
    taken = consume_step({first + (u32)s, 0, position + s, s}, taken, s == steps - 1);
    consumers();
    u32 dead = S.dead;
    consumers();
    if (dead) return;
  }
  if (WORLD > 1) end_rank({first + (u32)steps - 1, NODES - 1, position, 0}, first + (u32)steps);
}

template <class T> DEV void load_rows(T *to, const T *from, int n)
{
  for (int i = TID; i < n * (int)(sizeof(T) / sizeof(u32)); i += BLOCK_THREADS) ((u32 *)to)[i] = ((const u32 *)from)[i];
}

// Steps first .. first + steps - 1, of which the first is at this position.
KERNEL mega_kernel(u32 first, int position, int steps)
{
  load_rows(S.node, M.node + WORKER * NODES, NODES);
  load_rows(S.wait, M.wait + WORKER * WAITS, WAITS);
  load_rows(S.publish, M.publish + WORKER * PUBLISHES, PUBLISHES);
  if (TID == 0) {
    S.dead = 0;
    for (int i = 0; i < STAGES; i++) stage_init(&S.full[i], 1), stage_init(&S.empty[i], WARPS);
    stage_inits_end();
  }
  all_threads();
  if (TID < THREADS)
    consume_all(first, position, steps);
  else if (TID == THREADS)
    produce_all(first, position, steps);
}
