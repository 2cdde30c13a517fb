// Options of the emitted program, for one rank and for several.
struct program_options {
  int steps, many, plain, times, graph, nccl; // steps of a launch; number of launches; steps of the plain model; repeats of timings
  int flight, calm;              // most copies of a block in flight: for pieces that its consumers need now; for others
  bool hang;
  u64 deadline; // milliseconds
  const char *trace;
};

// Returns 0, or prints a message and returns the exit status.
static int read_options(int argc, char **argv, program_options &o)
{
  o = {8, 0, 0, 0, 0, 0, FLIGHT, CALM, false, 2000, NULL};
  for (int i = 1; i < argc; i++) {
    const char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : "0";
    if (!strcmp(a, "--hang")) {
      o.hang = true;
      continue;
    }
    i++;
    if (!strcmp(a, "--steps")) o.steps = atoi(v);
    else if (!strcmp(a, "--launches")) o.many = atoi(v);
    else if (!strcmp(a, "--plain")) o.plain = atoi(v);
    else if (!strcmp(a, "--time")) o.times = atoi(v);
    else if (!strcmp(a, "--graph")) o.graph = atoi(v);
    else if (!strcmp(a, "--nccl") && WORLD > 1) o.nccl = atoi(v);
    else if (!strcmp(a, "--deadline")) o.deadline = (u64)atoi(v);
    else if (!strcmp(a, "--trace")) o.trace = v;
    else if (!strcmp(a, "--flight")) o.flight = atoi(v);
    else if (!strcmp(a, "--calm")) o.calm = atoi(v);
    else
      return fprintf(stderr, "%s: options are --steps N, --plain STEPS, --hang, --launches N, --time N, --graph N, --deadline MS, --trace FILE, "
                             "--flight N, --calm N%s\n",
                     argv[0], WORLD > 1 ? ", --nccl N" : ""), 2;
  }
  if (o.steps < 1 || o.steps > MOST_STEPS || o.plain > o.steps)
    return fprintf(stderr, "%s: --steps takes 1 to %d, and --plain at most as many\n", argv[0], MOST_STEPS), 2;
  if (o.flight < 1 || o.flight > STAGES || o.calm < 1 || o.calm > STAGES)
    return fprintf(stderr, "%s: --flight and --calm take 1 to %d\n", argv[0], STAGES), 2;
  return 0;
}

static void print_tokens(const std::vector<int> &tokens, int steps)
{
  for (int r = 0; r < ROWS && tensor_named("token") >= 0; r++) {
    printf("row %d:", r);
    for (int s = 0; s < steps; s++) printf(" %d", tokens[(size_t)(s * ROWS + r)]);
    printf("\n");
  }
  fflush(stdout);
}
