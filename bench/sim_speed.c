// How fast the interpreter of tile kernels is, all checks on: sim_speed FILE [NAME=VALUE,...] [FRESH,...]
// runs the first kernel on random inputs and prints errors, counts and element operations a second.
#include "../tests/sim/tiles.h"

int main(int argc, char **argv)
{
  struct arena mem = {0};
  struct err e = {0};
  char *text;
  size_t n;
  if (argc < 2) return fputs("usage: sim_speed FILE [NAME=VALUE,...] [OUTPUT,...]\n", stderr), 2;
  if (file_read(&mem, argv[1], &text, &n, &e)) return err_print(stderr, &e), (int)e.status;
  struct tile_run t;
  tile_open(&t, argv[1], text, argc > 2 ? argv[2] : "");
  tile_fill(&t, 1, argc > 3 ? argv[3] : "");
  if (tile_go(&t)) return err_print(stderr, &t.e), (int)t.e.status;
  struct str out = {0};
  sim_print_errors(&t.r, &out);
  sim_print_counts(&t.r, &out);
  printf("%s  %lld errors; %lld element operations in %.3f s: %.1f million a second\n", str_text(&out), (long long)t.r.found,
         (long long)t.r.counts.elements, t.r.seconds, (double)t.r.counts.elements / t.r.seconds / 1e6);
  str_free(&out);
  tile_close(&t);
  arena_close(&mem);
  return t.r.found > 0;
}
