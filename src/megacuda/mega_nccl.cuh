// A graph of launches with NCCL calls between them, in place of words to other ranks. NCCL adds up partial sums, and gathers the slots of other
// shared tensors. The library is loaded when it is needed. Each rank records its graph in a thread of its own, because NCCL waits for the other
// ranks.
#if defined(MEGA_GRAPH) && WORLD > 1

#ifdef MEGA_SHIM
#define LIBRARY "the host in NCCL's place"
#else
#define LIBRARY "NCCL"
#endif

static bool adds_up(int t) // whether add_slots reads the tensor
{
  bool adds = false;
#define OPERATOR(name, layer) adds |= !strcmp(#layer, "add_slots") && name::a0::tensor::ID == t;
  OPERATORS
#undef OPERATOR
  return adds;
}

static nccl_memory make_sums(int rank)
{
  nccl_memory b = {};
  select_rank(rank), b.on = 1;
  for (int t = 0; t < TENSORS; t++)
    if (adds_up(t)) b.sums[t] = (float *)device_room((size_t)(TENSOR[t].elements * TENSOR[t].bytes));
  return b;
}

static size_t slot_bytes(int t) { return (size_t)(TENSOR[t].room / TENSOR[t].versions / WORLD); }
static char *slots_of(const world &w, int rank, int t, int version) { return (char *)w.rank[rank].m.tensor[t] + version * WORLD * slot_bytes(t); }

static bool print_nccl(bool fine)
{
  int sums = 0, gathers = 0;
  for (int n = 0; n < NODES; n++)
    for (const int *t = WRITTEN[NODE[n].op]; *t >= 0; t++)
      if (TENSOR[*t].slots > 1) ++(adds_up(*t) ? sums : gathers);
  printf("%s, %d all-reduces and %d gathers a step, ", LIBRARY, sums, gathers);
  return print_graph(fine);
}

#ifdef MEGA_SHIM

static void set_nccl(int rank, const nccl_memory &b) { BY_NCCL_of[rank] = b; }

static void exchange_node(const world &w, const nccl_memory *b, int n)
{
  for (const int *t = WRITTEN[NODE[n].op]; *t >= 0; t++) {
    if (TENSOR[*t].slots == 1) continue;
    for (long long i = 0; i < TENSOR[*t].elements && b[0].sums[*t]; i++) {
      float sum = 0;
      for (int r = 0; r < WORLD; r++) sum += b[r].sums[*t][i];
      for (int r = 0; r < WORLD; r++) b[r].sums[*t][i] = sum;
    }
    for (int v = 0; v < TENSOR[*t].versions && !b[0].sums[*t]; v++)
      for (int r = 0; r < WORLD; r++)
        for (int k = 0; k < WORLD; k++) {
          size_t n = slot_bytes(*t);
          memcpy(slots_of(w, r, *t, v) + k * n, slots_of(w, k, *t, v) + k * n, n);
        }
  }
}

static bool check_nccl(world &w, const std::vector<int> &tokens, int steps, int)
{
  nccl_memory b[WORLD];
  for (int r = 0; r < WORLD; r++) b[r] = make_sums(r), set_nccl(r, b[r]);
  reset_world_epochs(w), restore_world(w);
  run_nodes(steps, [&](int n) { exchange_node(w, b, n); });
  for (int r = 0; r < WORLD; r++) set_nccl(r, {});
  return print_nccl(graph_was_right(w, tokens, steps));
}

#else

enum { NCCL_BYTES = 0, NCCL_FLOAT = 7, NCCL_SUM = 0 };
struct nccl_library {
  int (*init_all)(void **comms, int n, const int *devices);
  int (*all_reduce)(const void *from, void *to, size_t n, int type, int op, void *comm, cudaStream_t stream);
  int (*all_gather)(const void *from, void *to, size_t n, int type, void *comm, cudaStream_t stream);
  int (*get_version)(int *version);
  const char *(*text)(int code);
  void *comm[WORLD];
};
static void must_nccl(const nccl_library &l, int code)
{
  if (code) fprintf(stderr, "NCCL: %s\n", l.text(code)), _exit(3); // other threads may wait in NCCL
}

// NCCL has no deadline, so an alarm ends the program. The last line of each rank on stderr says what it did last.
enum { NCCL_SECONDS = 15 };
static void report_progress(int rank, const char *what) { fprintf(stderr, "NCCL: rank %d: %s\n", rank, what), alarm(NCCL_SECONDS); }
static void end_program(int)
{
  static const char what[] = "NCCL: no rank made progress for 15 seconds\n";
  _exit(write(STDERR_FILENO, what, sizeof what - 1) < 0 ? 2 : 3);
}

// Returns false if there is no NCCL.
static bool open_nccl(nccl_library &l)
{
  void *so = dlopen("libnccl.so.2", RTLD_NOW);
  int version = 0, devices[WORLD];
  const struct {
    const char *name;
    void **at;
  } functions[] = {{"ncclCommInitAll", (void **)&l.init_all},
                   {"ncclAllReduce", (void **)&l.all_reduce},
                   {"ncclAllGather", (void **)&l.all_gather},
                   {"ncclGetVersion", (void **)&l.get_version},
                   {"ncclGetErrorString", (void **)&l.text}};
  for (auto &f : functions)
    if (!so || !(*f.at = dlsym(so, f.name))) return printf("graph: no libnccl.so.2, and so no graph with NCCL\n"), false;
  setenv("NCCL_NVLS_ENABLE", "0", 0);     // no multicast
  setenv("NCCL_GRAPH_REGISTER", "0", 0); // no registration of buffers: it would be done for each call in the graph and synchronize all ranks
  for (int r = 0; r < WORLD; r++) devices[r] = r;
  must_nccl(l, l.get_version(&version)), must_nccl(l, l.init_all(l.comm, WORLD, devices));
  return printf("NCCL %d\n", version), true;
}

static void set_nccl(int rank, const nccl_memory &b)
{
  use_rank(rank);
  MUST(cudaMemcpyToSymbol(BY_NCCL, &b, sizeof b));
}

static void exchange_node(const nccl_library &l, const world &w, const nccl_memory &b, int rank, int n, cudaStream_t stream)
{
  for (const int *t = WRITTEN[NODE[n].op]; *t >= 0; t++) {
    if (TENSOR[*t].slots == 1) continue;
    if (b.sums[*t])
      must_nccl(l, l.all_reduce(b.sums[*t], b.sums[*t], (size_t)TENSOR[*t].elements, NCCL_FLOAT, NCCL_SUM, l.comm[rank], stream));
    for (int v = 0; v < TENSOR[*t].versions && !b.sums[*t]; v++) {
      char *all = slots_of(w, rank, *t, v);
      must_nccl(l, l.all_gather(all + rank * slot_bytes(*t), all, slot_bytes(*t), NCCL_BYTES, l.comm[rank], stream));
    }
  }
}

// NCCL connects ranks at the first transfer of a size, which is not possible while a graph is recorded. So transfers are made before.
static cudaGraphExec_t record_with_nccl(const nccl_library &l, const world &w, const nccl_memory &b, int rank, int steps, bool early)
{
  cudaStream_t stream;
  report_progress(rank, "connects");
  MUST(cudaStreamCreate(&stream));
  for (int n = 0; n < NODES; n++) exchange_node(l, w, b, rank, n, stream);
  MUST(cudaStreamSynchronize(stream));
  MUST(cudaStreamDestroy(stream));
  report_progress(rank, "records a graph");
  cudaGraphExec_t graph = record_steps(steps, early, [&](int n, cudaStream_t s) { exchange_node(l, w, b, rank, n, s); });
  report_progress(rank, "has a graph");
  return graph;
}

static bool check_nccl(world &w, const std::vector<int> &tokens, int steps, int repeats)
{
  static const char *const name[] = {"a graph of launches and NCCL", "a graph of launches that begin early and NCCL"};
  nccl_library l;
  nccl_memory b[WORLD];
  bool fine = true;
  signal(SIGALRM, end_program), report_progress(0, "opens the library");
  if (!open_nccl(l)) return false;
  for (int r = 0; r < WORLD; r++) b[r] = make_sums(r), set_nccl(r, b[r]);
  for (int early = 0; early < 2; early++) {
    cudaGraphExec_t graph[WORLD];
    each_rank([&](int r) { graph[r] = record_with_nccl(l, w, b[r], r, steps, early); });
    time_graphs(w, name[early], graph, steps, repeats, [&] { report_progress(0, "has run"), fine &= graph_was_right(w, tokens, steps); });
  }
  for (int r = 0; r < WORLD; r++) set_nccl(r, {});
  alarm(0);
  return print_nccl(fine);
}

#endif

#endif
