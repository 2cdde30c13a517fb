// compiler: what the files that start a C compiler share. compiler.c: a source becomes a shared object; parsed.c: a header that is parsed once.
#ifndef MICA_COMPILER_H
#define MICA_COMPILER_H

#include "base/child.h"
#include "base/own.h"

enum { MAX_ARGS = 64 }; // of the compiler's command line
enum { KILLED = -1, ENDED = -2, NOT_STARTED = -3 };

// ---- compiler.c ----
struct workshop {
  struct scratch in;
  char c[340], so[340], said[340];
};
int workshop_open(struct workshop *w, struct err *e);
// Runs argv; what it says goes into a file of the folder, and so do its temporary files. The exit status; KILLED by a
// signal; ENDED where patience was over; NOT_STARTED, with the reason in errno.
int compiler_run(char *const *argv, const struct workshop *w, const struct patience *p);
bool compiler_find(const char *name, char out[512]); // an executable of that name: a path, or the first in PATH
// w->so from source. ERR_COMPILER, ERR_STOPPED, or ERR_FILE and ERR_MEMORY for what the compiler lacked.
int compile_c(const char *source, const char *flags, const struct patience *p, const struct workshop *w, struct arena *mem, struct err *e);

// ---- parsed.c ----
#define PARSED_LINE "#include <immintrin.h>"
// A file for -include by which the compiler argv[0], with n words in all, reads <immintrin.h> as it was once parsed. False: there is none.
bool parsed_header(char *const *argv, int n, const struct workshop *w, const struct patience *p, char out[OWN_PATH]);
void parsed_refused(const char *path); // the compiler fails with it, and not without

#endif
