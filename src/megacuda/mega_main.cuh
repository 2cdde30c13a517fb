// The host program's options.
int main(int argc, char **argv)
{
  int steps = 8, many = 0, plain = 0, times = 0;
  bool hang = false, fine = true;
  u64 deadline = 2000;
  const char *trace = NULL;
  int flight = FLIGHT, ahead = AHEAD;
  for (int i = 1; i < argc; i++) {
    const char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : "0";
    if (!strcmp(a, "--hang")) hang = true;
    else if (!strcmp(a, "--steps")) steps = atoi(v), i++;
    else if (!strcmp(a, "--launches")) many = atoi(v), i++;
    else if (!strcmp(a, "--plain")) plain = atoi(v), i++;
    else if (!strcmp(a, "--time")) times = atoi(v), i++;
    else if (!strcmp(a, "--deadline")) deadline = (u64)atoi(v), i++;
    else if (!strcmp(a, "--trace")) trace = v, i++;
    else if (!strcmp(a, "--flight")) flight = atoi(v), i++;
    else if (!strcmp(a, "--ahead")) ahead = atoi(v), i++;
    else return fprintf(stderr, "%s: options are --steps N, --plain STEPS, --hang, --launches N, --time N, --deadline MS, --trace FILE, --flight N, --ahead N\n", argv[0]), 2;
  }
  if (steps < 1 || steps > MOST_STEPS || plain > steps) return fprintf(stderr, "%s: 1 to %d steps; --plain takes no more\n", argv[0], MOST_STEPS), 2;
  if (flight < 1 || flight > STAGES || ahead < 0 || ahead > 1024) return fprintf(stderr, "%s: --flight takes 1 to %d, --ahead 0 to 1024\n", argv[0], STAGES), 2;
  begin_device();
  program p = prepare(CONTEXT + MOST_STEPS, deadline * 1000000);
  set_pace({(u32)flight, (u32)(ahead * STAGE_ROOM), PACE});
  std::vector<int> tokens;
  printf("%s: %d workers, %d rows, %d positions, %d nodes a step\n", MODEL, WORKERS, ROWS, CONTEXT, NODES);
  print_machine();
  if (!again(p, steps, tokens)) return 1;
  for (int r = 0; r < ROWS && tensor_named("token") >= 0; r++) {
    printf("row %d:", r);
    for (int s = 0; s < steps; s++) printf(" %d", tokens[(size_t)(s * ROWS + r)]);
    printf("\n");
  }
  fflush(stdout);
  if (plain) fine &= check_plain(p, tokens, plain);
  if (hang) fine &= check_hang(p, steps, tokens);
  fflush(stdout);
  if (times && fine) print_times(p, steps, times, restore);
  if (many && fine) fine &= check_many(p, steps, many, tokens);
  if (trace && fine) fine &= write_trace(p, steps, trace, restore);
  return !fine;
}
