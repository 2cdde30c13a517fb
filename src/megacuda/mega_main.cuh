// The host program of one rank.
int main(int argc, char **argv)
{
  program_options o;
  bool fine = true;
  int status = read_options(argc, argv, o);
  if (status) return status;
  setvbuf(stdout, NULL, _IOLBF, 1 << 12);
  printf("%s: %d workers, %d rows, %d positions, %d nodes a step\n", MODEL, WORKERS, ROWS, CONTEXT, NODES);
  begin_device();
  program p = prepare(CONTEXT + MOST_STEPS, o.deadline * 1000000);
  set_flight((u32)o.flight, (u32)o.calm);
  std::vector<int> tokens;
  print_machine();
  if (!run_again(p, o.steps, tokens)) return 1;
  print_tokens(tokens, o.steps);
  if (o.plain) fine &= check_plain(p, tokens, o.plain);
  if (o.hang) fine &= check_hang(p, o.steps, tokens);
  fflush(stdout);
  if (o.times && fine) print_times(p, o.steps, o.times, restore);
  if (o.many && fine) fine &= check_many(p, o.steps, o.many, tokens);
  if (o.trace && fine) fine &= write_trace(p, o.steps, o.trace, restore);
  if (o.graph) set_flight((u32)o.flight, (u32)o.flight); // in a graph, weights are loaded at the full rate while the consumers wait for an input
  if (o.graph && fine) fine &= check_graph(p, tokens, o.steps, o.graph);
  return !fine;
}
