// The host program of several ranks: one process with a GPU for each rank, which must be able to access each other's memory. All kernels run at once.
// Their tokens must be the same, and so must the bits of sums over the ranks.

struct world {
  program rank[WORLD];
  peer_memory peers[WORLD];
};

#ifdef MEGA_SHIM

static void begin_world() {}

static void launch_world(const world &w, u32 first, int steps)
{
  for (int r = 0; r < WORLD; r++) M_of[r] = w.rank[r].m, PEERS_of[r] = w.peers[r];
  shim_run(WORLD * WORKERS, BLOCK_THREADS, sizeof(block_memory), [=] { mega_kernel(first, CONTEXT, steps); });
}

#else

static void begin_world()
{
  int devices = 0;
  MUST(cudaGetDeviceCount(&devices));
  if (devices < WORLD) fprintf(stderr, "%s is for %d GPUs, and there are %d\n", MODEL, WORLD, devices), exit(3);
  for (int r = 0; r < WORLD; r++) {
    use_rank(r);
    begin_device();
    for (int k = 0; k < WORLD; k++) {
      int can = 0;
      if (k == r) continue;
      MUST(cudaDeviceCanAccessPeer(&can, r, k));
      if (!can) fprintf(stderr, "GPU %d cannot access the memory of GPU %d: `nvidia-smi topo -p2p r` shows who can\n", r, k), exit(3);
      MUST(cudaDeviceEnablePeerAccess(k, 0));
    }
  }
}

static void set_world(const world &w)
{
  for (int r = 0; r < WORLD; r++) {
    use_rank(r);
    MUST(cudaMemcpyToSymbol(M, &w.rank[r].m, sizeof w.rank[r].m));
    MUST(cudaMemcpyToSymbol(PEERS, &w.peers[r], sizeof w.peers[r]));
    MUST(cudaDeviceSynchronize());
  }
}

static void launch_world(const world &w, u32 first, int steps)
{
  set_world(w);
  for (int r = 0; r < WORLD; r++) use_rank(r), launch_cooperative(first, CONTEXT, steps);
  for (int r = 0; r < WORLD; r++) {
    use_rank(r);
    MUST(cudaDeviceSynchronize());
  }
}

#endif

static void select_rank(int rank) { use_rank(rank), at_rank = rank; }

static world prepare_world(int positions, u64 deadline)
{
  world w = {};
  for (int r = 0; r < WORLD; r++) {
    select_rank(r);
    w.rank[r] = prepare(positions, deadline), w.peers[r].rank = r;
    u32 *met = (u32 *)device_room((2 * WORLD + 1) * 128);
    zero_device(met, (2 * WORLD + 1) * 128);
    for (int k = 0; k < WORLD; k++) {
      w.peers[k].stop[r] = w.rank[r].m.stop, w.peers[k].met[r] = met;
      for (int t = 0; t < TENSORS; t++) w.peers[k].tensor[r][t] = TENSOR[t].slots > 1 ? w.rank[r].m.tensor[t] : NULL;
    }
  }
  return w;
}

static void reset_world_epochs(world &w)
{
  for (int r = 0; r < WORLD; r++) select_rank(r), reset_epochs(w.rank[r]), zero_device(w.peers[r].met[r], (2 * WORLD + 1) * 128);
}

static void restore_world(world &w)
{
  for (int r = 0; r < WORLD; r++) select_rank(r), restore(w.rank[r]);
}

// Runs steps; true if there was no fault on any rank.
static bool run_world(world &w, int steps)
{
  bool fine = true;
  launch_world(w, w.rank[0].step, steps);
  for (int r = 0; r < WORLD; r++) {
    u32 stop = 0;
    select_rank(r);
    w.rank[r].step += (u32)steps;
    from_device(&stop, w.rank[r].m.stop, 4);
    if (stop) print_fault(w.rank[r]), fine = false;
  }
  return fine;
}

// Whether an output of add_slots has the same bits on all ranks, epochs included.
static bool same_bits(const world &w, int t)
{
  std::vector<char> a(bytes_of(t)), b(bytes_of(t));
  for (int r = 0; r < WORLD; r++) {
    select_rank(r);
    from_device(r ? b.data() : a.data(), w.rank[r].m.tensor[t], a.size());
    if (r && a != b) return printf("%s has other bits on rank %d than on rank 0\n", TENSOR[t].name, r), false;
  }
  return true;
}
static bool all_same_bits(const world &w)
{
  bool fine = true;
#define OPERATOR(name, layer) \
  if (!strcmp(#layer, "add_slots")) fine &= same_bits(w, WRITTEN[name::ID][0]);
  OPERATORS
#undef OPERATOR
  return fine;
}

static bool run_world_again(world &w, int steps, std::vector<int> &tokens)
{
  restore_world(w);
  if (!run_world(w, steps)) return false;
  for (int r = 0; r < WORLD; r++) {
    select_rank(r);
    std::vector<int> own = tokens_of(w.rank[r], steps);
    if (r && own != tokens) return printf("rank %d has other tokens than rank 0\n", r), false;
    tokens = own;
  }
  return all_same_bits(w);
}

// ---- checks ----

// After an operator that writes slots: copies the slots of all ranks to all ranks.
static void exchange(plain_tensors *m, int t)
{
  size_t n = (size_t)(TENSOR[t].elements * TENSOR[t].bytes);
  std::vector<char> all(n * WORLD);
  for (int r = 0; r < WORLD; r++) select_rank(r), from_device(all.data() + (size_t)r * n, m[r].t[t], n);
  for (int r = 0; r < WORLD; r++) select_rank(r), to_device(m[r].t[t], all.data(), all.size());
}

static void plain_world_step(plain_tensors *m, int position)
{
  for (int n = 0; n < NODES; n++) {
    for (int r = 0; r < WORLD; r++) select_rank(r), plain_node(m[r], position, n);
    for (const int *t = WRITTEN[NODE[n].op]; *t >= 0; t++)
      if (TENSOR[*t].slots > 1) exchange(m, *t);
  }
}

static void open_plain(const world &w, plain_tensors *m)
{
  for (int r = 0; r < WORLD; r++) {
    select_rank(r), m[r] = {}, m[r].rank = r;
    for (int t = 0; t < TENSORS; t++) {
      const program &p = w.rank[r];
      size_t bytes = (size_t)(TENSOR[t].elements * TENSOR[t].bytes * TENSOR[t].slots);
      m[r].t[t] = TENSOR[t].kind == 'w' ? p.m.tensor[t] : device_room(bytes);
      if (TENSOR[t].kind == 'i') zero_device(m[r].t[t], bytes);
      if (p.first[(size_t)t]) copy_device(m[r].t[t], p.first[(size_t)t], bytes_of(t));
    }
  }
}

// The error of this step's logits, over all ranks.
static double error_of_logits(const world &w, const plain_tensors *m, int logits)
{
  std::vector<float> a((size_t)TENSOR[logits].elements), b(a.size());
  double diff = 0, norm = 0;
  for (int r = 0; r < WORLD; r++) {
    select_rank(r);
    from_device(a.data(), w.rank[r].m.tensor[logits], a.size() * 4), from_device(b.data(), m[r].t[logits], b.size() * 4);
    for (size_t i = 0; i < a.size(); i++) diff += (a[i] - b[i]) * (double)(a[i] - b[i]), norm += b[i] * (double)b[i];
  }
  return std::sqrt(diff / norm);
}

// Compares the kernels with the plain model, which continues with the kernel's tokens.
static bool check_plain_world(world &w, const std::vector<int> &tokens, int steps)
{
  plain_tensors m[WORLD];
  int token = tensor_named("token"), logits = tensor_named("logits"), agree = 0;
  double worst = 0;
  if (logits < 0 || token < 0) return true;
  open_plain(w, m);
  for (int s = 0; s < steps; s++) {
    std::vector<int> now(ROWS), kernel;
    plain_world_step(m, CONTEXT + s);
    select_rank(0);
    from_device(now.data(), m[0].t[token], ROWS * 4);
    for (int r = 0; r < ROWS; r++) agree += now[(size_t)r] == tokens[(size_t)(s * ROWS + r)];
    for (int r = 0; r < WORLD; r++) select_rank(r), to_device(m[r].t[token], &tokens[(size_t)(s * ROWS)], ROWS * 4);
    if (!run_world_again(w, s + 1, kernel)) return false;
    worst = larger(worst, error_of_logits(w, m, logits));
  }
  printf("plain: %d of %d tokens agree, relative error of logits at most %.3g\n", agree, steps * ROWS, worst);
  return agree == steps * ROWS && worst < 0.01;
}

// Checks a run with a counter that never completes on the last rank: all ranks must end as hung, and the next run must be right.
static bool check_hang_world(world &w, int steps, const std::vector<int> &tokens)
{
  std::vector<int> now;
  int stopped = 0;
  select_rank(WORLD - 1), plant(w.rank[WORLD - 1], awaited_event()), restore_world(w);
  bool hung = !run_world(w, steps);
  for (int r = 0; r < WORLD; r++) {
    u32 stop = 0;
    select_rank(r), from_device(&stop, w.rank[r].m.stop, 4), stopped += stop != 0;
  }
  select_rank(WORLD - 1), plant(w.rank[WORLD - 1], -1), reset_world_epochs(w);
  bool fine = run_world_again(w, steps, now) && now == tokens;
  printf("planted: %s, %d of %d ranks were stopped, and the next run is %s\n", hung ? "found" : "NOT found", stopped, WORLD,
         fine ? "right" : "WRONG");
  return hung && stopped == WORLD && fine;
}

static bool check_many_world(world &w, int steps, int launches, const std::vector<int> &tokens)
{
  std::vector<int> now;
  for (int i = 0; i < launches; i++)
    if (!run_world_again(w, steps, now) || now != tokens) return printf("launch %d of %d steps: WRONG\n", i, steps), false;
  printf("%d launches of %d steps: no fault, all tokens the same, the same bits on all ranks\n", launches, steps);
  return true;
}

#ifdef MEGA_SHIM

static void print_world_times(world &, int, int) {}
static bool write_world_trace(world &, int, const char *) { return true; }

#else

// Calls f(rank) for each rank. For graphs, each call has its own thread: launching a graph with NCCL kernels may wait for launches of other ranks.
template <class F> static void each_rank(F f)
{
#ifdef MEGA_GRAPH
  std::thread threads[WORLD];
  for (int r = 0; r < WORLD; r++) threads[r] = std::thread([&f, r] { use_rank(r), f(r); });
  for (auto &t : threads) t.join();
#else
  for (int r = 0; r < WORLD; r++) use_rank(r), f(r);
#endif
}

// Prints the time per step, in microseconds, of the work that run(rank) queues in the stream of each rank; the slowest rank counts. start() is called
// before it and end() after, both untimed.
template <class A, class B, class C> static void time_world(const char *what, int steps, int repeats, A start, B run, C end)
{
  cudaEvent_t a[WORLD], b[WORLD];
  std::vector<double> us;
  for (int r = 0; r < WORLD; r++) {
    use_rank(r);
    MUST(cudaEventCreate(&a[r]));
    MUST(cudaEventCreate(&b[r]));
  }
  for (int i = 0; i < repeats + 3; i++) {
    float most = 0;
    start();
    each_rank([&](int r) {
      MUST(cudaEventRecord(a[r]));
      run(r);
      MUST(cudaEventRecord(b[r]));
    });
    for (int r = 0; r < WORLD; r++) {
      float ms;
      use_rank(r);
      MUST(cudaEventSynchronize(b[r]));
      MUST(cudaEventElapsedTime(&ms, a[r], b[r]));
      most = std::max(most, ms);
    }
    end();
    if (i >= 3) us.push_back(1e3 * most / steps);
  }
  std::sort(us.begin(), us.end());
  printf("time,%s on %d GPUs,%s,%d,%d,%.1f,%.1f,%.1f,%zu\n", MODEL, WORLD, what, CONTEXT, steps, us[us.size() / 2], us.front(), us.back(), us.size());
}

static void time_launches(world &w, const char *what, int steps, int repeats)
{
  auto run = [&](int r) { launch_cooperative(w.rank[r].step, CONTEXT, steps), w.rank[r].step += (u32)steps; };
  time_world(what, steps, repeats, [&] { restore_world(w), set_world(w); }, run, [] {});
}

static void print_world_times(world &w, int steps, int repeats)
{
  printf("time,model,what,context,steps,median us,least,most,repeats\n");
  time_launches(w, "steps in one launch", steps, repeats);
  time_launches(w, "one step a launch", 1, repeats);
}

// Writes the times at which the tasks of the last step reached a phase, for each rank in the form of mega_time.cuh, in ns after the rank's first.
static bool write_world_trace(world &w, int steps, const char *path)
{
  size_t n = (size_t)(WORKERS * NODES * PHASES);
  FILE *f = fopen(path, "w");
  if (!f) return fprintf(stderr, "%s cannot be written\n", path), false;
  for (int r = 0; r < WORLD; r++) select_rank(r), w.rank[r].m.trace = (u64 *)device_room(n * 8), zero_device(w.rank[r].m.trace, n * 8);
  restore_world(w);
  bool fine = run_world(w, steps);
  for (int r = 0; r < WORLD; r++) {
    std::vector<u64> t(n);
    u64 zero = ~0ull;
    select_rank(r), from_device(t.data(), w.rank[r].m.trace, n * 8), w.rank[r].m.trace = NULL;
    for (u64 x : t)
      if (x) zero = std::min(zero, x);
    fprintf(f, "# rank %d\nnode,phase,workers,earliest ns,median,latest\n", r);
    for (int i = 0; i < NODES; i++)
      for (int k = 0; k < PHASES; k++) write_phase(f, t, i, k, zero);
  }
  return fclose(f) == 0 && fine;
}

#endif

// ---- a graph of launches on each rank ----

#ifdef MEGA_GRAPH

static bool graph_was_right(world &w, const std::vector<int> &tokens, int steps)
{
  bool fine = true;
  for (int r = 0; r < WORLD; r++) {
    select_rank(r), w.rank[r].step = (u32)steps;
    fine &= !print_fault(w.rank[r]) && tokens_of(w.rank[r], steps) == tokens;
  }
  return fine && all_same_bits(w);
}

#ifdef MEGA_SHIM

static bool check_graph(world &w, const std::vector<int> &tokens, int steps, int)
{
  reset_world_epochs(w), restore_world(w);
  for (int r = 0; r < WORLD; r++) M_of[r] = w.rank[r].m, PEERS_of[r] = w.peers[r];
  run_nodes(steps, [](int) {});
  return print_graph(graph_was_right(w, tokens, steps));
}

#else

// Times the graphs of all ranks, and destroys them.
template <class F> static void time_graphs(world &w, const char *what, cudaGraphExec_t (&graph)[WORLD], int steps, int repeats, F end)
{
  time_world(
      what, steps, repeats, [&] { reset_world_epochs(w), restore_world(w), set_world(w); }, [&](int r) { MUST(cudaGraphLaunch(graph[r], 0)); }, end);
  for (int r = 0; r < WORLD; r++) {
    use_rank(r);
    MUST(cudaGraphExecDestroy(graph[r]));
  }
}

static bool check_graph(world &w, const std::vector<int> &tokens, int steps, int repeats)
{
  bool fine = true;
  for (int early = 0; early < 2; early++) {
    cudaGraphExec_t graph[WORLD];
    for (int r = 0; r < WORLD; r++) use_rank(r), graph[r] = record_steps(steps, early, [](int, cudaStream_t) {});
    time_graphs(w, GRAPH_NAME[early], graph, steps, repeats, [&] { fine &= graph_was_right(w, tokens, steps); });
  }
  return print_graph(fine);
}

#endif

static bool check_nccl(world &w, const std::vector<int> &tokens, int steps, int repeats);

#endif

// ---- the host program ----

int main(int argc, char **argv)
{
  program_options o;
  bool fine = true;
  int status = read_options(argc, argv, o);
  if (status) return status;
  setvbuf(stdout, NULL, _IOLBF, 1 << 12);
  begin_world();
  world w = prepare_world(CONTEXT + MOST_STEPS, o.deadline * 1000000);
  for (int r = 0; r < WORLD; r++) select_rank(r), set_flight((u32)o.flight, (u32)o.calm);
  std::vector<int> tokens;
  printf("%s: %d ranks of %d workers, %d rows, %d positions, %d nodes a step\n", MODEL, WORLD, WORKERS, ROWS, CONTEXT, NODES);
  print_machine();
  if (!run_world_again(w, o.steps, tokens)) return 1;
  print_tokens(tokens, o.steps);
  if (o.plain) fine &= check_plain_world(w, tokens, o.plain);
  if (o.hang) fine &= check_hang_world(w, o.steps, tokens);
  fflush(stdout);
  if (o.times && fine) print_world_times(w, o.steps, o.times);
  if (o.many && fine) fine &= check_many_world(w, o.steps, o.many, tokens);
  if (o.trace && fine) fine &= write_world_trace(w, o.steps, o.trace);
  for (int r = 0; r < WORLD && (o.graph || o.nccl); r++) select_rank(r), set_flight((u32)o.flight, (u32)o.flight); // as in mega_main.cuh
  if (o.graph && fine) fine &= check_graph(w, tokens, o.steps, o.graph);
  if (o.nccl && fine) fine &= check_nccl(w, tokens, o.steps, o.nccl);
  return !fine;
}
