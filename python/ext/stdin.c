// Used in wheels that archives are linked into (MICA_STATIC). Debian's libjansson.a is position-independent but for one reference, to stdin, which it
// compares a stream with to name it in messages; a shared object cannot reach libc's in that way. This one, seen by this object
// alone, answers: no stream of ours is stdin.
#include <stdio.h>

extern __attribute__((visibility("hidden"))) FILE *stdin;
FILE *stdin;
