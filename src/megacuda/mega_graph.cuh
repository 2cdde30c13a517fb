// The same task bodies as a CUDA graph with a launch for each node, to compare with the persistent launch. Compiled with -DMEGA_GRAPH. In one of two
// graphs a launch may begin before the previous one has ended, as soon as there is room for its blocks. Its producer then loads weights at once. All
// other reads wait for the end of the previous launch, because tasks of one worker have no event between them. Each of several ranks has its own
// graph, and launches exchange words with launches of other ranks.
#ifdef MEGA_GRAPH

struct one_node {
  int n;
  DEV int begin() const { return n; }
  DEV int end() const { return n + 1; }
};

// Rows of the tables are loaded first, because otherwise they would wait for the copies of weights.
KERNEL mega_node_kernel(moment j)
{
  one_node nodes = {j.n};
  const node_row &r = S.node[j.n];
  launch_dependents();
  load_rows(S.node + j.n, M.node + WORKER * NODES + j.n, 1);
  sync_block();
  load_rows(S.wait + r.wait, M.wait + WORKER * WAITS + r.wait, r.nwaits);
  load_rows(S.publish + r.publish, M.publish + WORKER * PUBLISHES + r.publish, r.npublish);
  if (TID == 0) S.traced = 0;
  begin_block();
  if (TID < THREADS || !WEIGHTS[r.op].tiles) wait_for_previous_launch();
  if (TID < THREADS)
    consume_step(nodes, j, 0);
  else if (TID == THREADS)
    produce_all(nodes, j, 1);
  else if (TID == THREADS + 32)
    publish_all(nodes, j.step, 1);
#if PANELS
  else if (TID == THREADS + 64)
    wait_for_previous_launch(), feed_all(nodes, j, 1);
#endif
}

#ifdef MEGA_SHIM

// Calls after(node) after each launch.
template <class F> static void run_nodes(int steps, F after)
{
  for (int s = 0; s < steps; s++)
    for (int n = 0; n < NODES; n++) {
      shim_run(WORLD * WORKERS, BLOCK_THREADS, sizeof(block_memory), [=] { mega_node_kernel(later({0, 0, CONTEXT, 0}, s, n)); });
      after(n);
    }
}

#else

static const char *const GRAPH_NAME[] = {"a graph of launches", "a graph of launches that begin early"};

// Records all launches of steps 0 .. steps - 1. early: each may begin before the previous one has ended. Calls after(node, stream) after each launch.
template <class F> static cudaGraphExec_t record_steps(int steps, bool early, F after)
{
  cudaGraph_t graph;
  cudaGraphExec_t made;
  cudaStream_t stream;
  cudaLaunchAttribute begins = {};
  begins.id = cudaLaunchAttributeProgrammaticStreamSerialization, begins.val.programmaticStreamSerializationAllowed = 1;
  MUST(cudaFuncSetAttribute(mega_node_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(block_memory)));
  MUST(cudaStreamCreate(&stream));
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int s = 0; s < steps; s++)
    for (int n = 0; n < NODES; n++) {
      moment j = later({0, 0, CONTEXT, 0}, s, n);
      cudaLaunchConfig_t how = {dim3(WORKERS), dim3(BLOCK_THREADS), sizeof(block_memory), stream, &begins, early};
      void *args[] = {&j};
      MUST(cudaLaunchKernelExC(&how, (const void *)mega_node_kernel, args));
      after(n, stream);
    }
  MUST(cudaStreamEndCapture(stream, &graph));
  MUST(cudaGraphInstantiate(&made, graph, 0));
  MUST(cudaGraphUpload(made, stream)); // uploaded now, because at launch the kernels of other ranks are running
  MUST(cudaStreamSynchronize(stream));
  MUST(cudaGraphDestroy(graph));
  MUST(cudaStreamDestroy(stream));
  return made;
}

#endif

static bool print_graph(bool fine) { return printf("graph: %d launches a step, and the tokens are %s\n", NODES, fine ? "the same" : "WRONG"), fine; }

#if WORLD == 1

#ifdef MEGA_SHIM

static bool check_graph(program &p, const std::vector<int> &tokens, int steps, int)
{
  reset_epochs(p), restore(p), M = p.m;
  run_nodes(steps, [](int) {});
  p.step = (u32)steps;
  return print_graph(!print_fault(p) && tokens_of(p, steps) == tokens);
}

#else

static void from_step_0(program &p) { reset_epochs(p), restore(p); }

static bool time_graph(program &p, const std::vector<int> &tokens, int steps, int repeats, bool early)
{
  cudaGraphExec_t graph = record_steps(steps, early, [](int, cudaStream_t) {});
  bool fine = true;
  time_runs(
      GRAPH_NAME[early], steps, repeats, [&] { begin_again(p, from_step_0); },
      [&] { MUST(cudaGraphLaunch(graph, 0)); }, [&] { fine = fine && !print_fault(p) && tokens_of(p, steps) == tokens; });
  p.step = (u32)steps;
  MUST(cudaGraphExecDestroy(graph));
  return print_graph(fine);
}

static bool check_graph(program &p, const std::vector<int> &tokens, int steps, int repeats)
{
  return time_graph(p, tokens, steps, repeats, false) && time_graph(p, tokens, steps, repeats, true);
}

#endif

#endif

#else

template <class P> static bool check_graph(P &, const std::vector<int> &, int, int) { return printf("graph: compile with -DMEGA_GRAPH\n"), false; }
#if WORLD > 1
template <class P> static bool check_nccl(P &p, const std::vector<int> &tokens, int, int) { return check_graph(p, tokens, 0, 0); }
#endif

#endif
