// Fuzz targets. Any bytes must give a graph, or an error with a text and a hint, without a crash, a leak or a long run. Each target calls the functions
// that the command calls. Graphs that were read are printed and read again.
//
//   targets.def   a row for each target: its function, and the folders of its seeds
//   fuzz_*.c      the targets
//   fuzz_main.c   libFuzzer's entry to the target named by -DMICA_FUZZ=... (scripts/fuzz.sh builds it with clang)
//   test_replay.c runs earlier findings (found/TARGET/*) and mutants of the seeds, with any compiler
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include "front/front.h"

typedef bool fuzz_target(const uint8_t *data, size_t n); // false: a promise was broken
#define FUZZ(name, ...) fuzz_target fuzz_##name;
#include "targets.def"
#undef FUZZ

// Says what broke on standard error; false.
bool fuzz_broken(const char *what);
// What holds of an answer: a graph and no error, or an error that says something.
bool fuzz_answer(int status, const struct graph *g, const struct err *e);
// What holds of a graph that was read: it is well-formed, and its text and its JSON are read back as the same graph.
bool fuzz_graph(struct arena *mem, const struct graph *g);

#endif
