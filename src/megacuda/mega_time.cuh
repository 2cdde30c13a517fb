// Times of steps, and a trace of the last step: times of each worker's tasks.
#ifdef MEGA_SHIM

#if WORLD == 1
static void print_times(program &, int, int, void (*)(program &)) {}
static bool write_trace(program &, int, const char *, void (*)(program &)) { return true; }
#endif

#else

// Writes a line with the times at which the tasks of the last step reached a phase: earliest, median and latest worker, in ns after `zero`.
static void write_phase(FILE *f, const std::vector<u64> &t, int n, int phase, u64 zero)
{
  static const char *const name[PHASES] = {"begun", "input", "sums", "ended"};
  std::vector<u64> when;
  for (int w = 0; w < WORKERS; w++)
    if (u64 x = t[(size_t)((w * NODES + n) * PHASES + phase)]) when.push_back(x - zero);
  std::sort(when.begin(), when.end());
  if (!when.empty())
    fprintf(f, "%s,%s,%zu,%llu,%llu,%llu\n", NODE_NAME[n], name[phase], when.size(), (unsigned long long)when.front(),
            (unsigned long long)when[when.size() / 2], (unsigned long long)when.back());
}

#if WORLD == 1

// Prints the time per step, in microseconds, of the work that run() queues in the stream. start() is called before it and end() after, both untimed.
template <class A, class B, class C> static double time_runs(const char *what, int steps, int repeats, A start, B run, C end)
{
  cudaEvent_t a, b;
  std::vector<double> us;
  MUST(cudaEventCreate(&a));
  MUST(cudaEventCreate(&b));
  for (int i = 0; i < repeats + 3; i++) {
    float ms;
    start();
    MUST(cudaDeviceSynchronize());
    MUST(cudaEventRecord(a));
    run();
    MUST(cudaEventRecord(b));
    MUST(cudaEventSynchronize(b));
    MUST(cudaEventElapsedTime(&ms, a, b));
    end();
    if (i >= 3) us.push_back(1e3 * ms / steps);
  }
  std::sort(us.begin(), us.end());
  printf("time,%s,%s,%d,%d,%.1f,%.1f,%.1f,%zu\n", MODEL, what, CONTEXT, steps, us[us.size() / 2], us.front(), us.back(), us.size());
  return us[us.size() / 2];
}

static void begin_again(program &p, void (*start)(program &))
{
  start(p);
  MUST(cudaMemcpyToSymbol(M, &p.m, sizeof p.m));
}

static double time_launches(program &p, const char *what, int steps, int repeats, void (*start)(program &))
{
  return time_runs(
      what, steps, repeats, [&] { begin_again(p, start); }, [&] { launch_cooperative(p.step, CONTEXT, steps); }, [&] { p.step += (u32)steps; });
}

static void print_times(program &p, int steps, int repeats, void (*start)(program &))
{
  printf("time,model,what,context,steps,median us,least,most,repeats\n");
  double us = time_launches(p, "steps in one launch", steps, repeats, start), bound = (double)STEP_BYTES / (1e3 * COPY_GB);
  time_launches(p, "one step a launch", 1, repeats, start);
  printf("bound,%s,%.3f GB of weights a step,%.1f us at %d GB/s,%.1f%% of the time\n", MODEL, 1e-9 * (double)STEP_BYTES, bound, COPY_GB,
         100 * bound / us);
}

static bool write_trace(program &p, int steps, const char *path, void (*start)(program &))
{
  std::vector<u64> t((size_t)(WORKERS * NODES * PHASES));
  FILE *f = fopen(path, "w");
  if (!f) return fprintf(stderr, "%s cannot be written\n", path), false;
  p.m.trace = (u64 *)device_room(t.size() * 8);
  zero_device(p.m.trace, t.size() * 8);
  start(p);
  launch(p.m, p.step, CONTEXT, steps);
  p.step += (u32)steps;
  from_device(t.data(), p.m.trace, t.size() * 8);
  p.m.trace = NULL;
  u64 zero = ~0ull;
  for (u64 x : t)
    if (x) zero = std::min(zero, x);
  fprintf(f, "node,phase,workers,earliest ns,median,latest\n");
  for (int n = 0; n < NODES; n++)
    for (int k = 0; k < PHASES; k++) write_phase(f, t, n, k, zero);
  return fclose(f) == 0;
}

#endif

#endif
