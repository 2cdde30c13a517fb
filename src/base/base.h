// base: used by every component. Arenas own memory by lifetime. `struct err` carries one error to the caller that reports it. The rest is small:
// growable arrays, strings, hashing, random numbers.
//
//   arena.c   bump allocation with mark and reset; a returned pointer lives in its arena argument
//   memory.c  allocation, and unwinding to the caller if it fails (memory.h)
//   doc.c     JSON documents that unwinding frees (doc.h)
//   json_text.c  JSON documents as text, numbers in their shortest form
//   err.c     one error: status, place, message, hint (rows in err.def);   err_source.c  the line that it is about
//   str.c     growable text, used by every printer
//   num.c     element types (dtype.def), their numbers and bits (num.h, float_bits.h)
//   rational.c  the exact number that a constant stands for (rational.h)
//   file.c    whole files in, whole files out (written aside, then renamed)
//   here.c    the folder in which this code is installed
//   own.c     files and folders that nobody else can change; checksums of them (own.h)
//   pool.c    a thread pool whose results do not depend on the number of threads
//   large.c   copies and comparisons of large memory, by several threads
//   trace.c   spans of time of a job, by thread (trace.h);   range.c  the same for profilers (range.h)
//   child.c   child processes; scratch.c their temporary folders (child.h)
#ifndef MICA_BASE_H
#define MICA_BASE_H

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define COUNT(a) (sizeof(a) / sizeof(*(a)))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define PRINTF(f, a) __attribute__((format(printf, f, a)))

// Aborts at a bug of Mica; no input reaches it. CHECK is in all builds, ASSERT in debug builds.
_Noreturn void base_bug(const char *file, int line, const char *what);
#define CHECK(x) ((x) ? (void)0 : base_bug(__FILE__, __LINE__, #x))
#ifdef NDEBUG
#define ASSERT(x) ((void)0)
#else
#define ASSERT(x) CHECK(x)
#endif

// ---- arena.c: memory by lifetime --------------------------------------------------------------

struct arena_block;
struct arena {
  struct arena_block *head;  // newest block; it links to older ones
  struct arena_block *spare; // an empty block, kept for reuse; or NULL
  size_t used;               // bytes allocated since open, for reports
  bool lasting;              // it outlives a failing call of the library (memory.h)
};
struct arena_mark {
  struct arena_block *head;
  size_t fill, used;
};

void arena_close(struct arena *a);                // frees everything; a zeroed arena is open and empty
void *arena_alloc(struct arena *a, size_t bytes); // zeroed, 16-byte aligned, never NULL
void *arena_try(struct arena *a, size_t bytes);   // the same for large sizes: NULL if there is no memory
struct arena_mark arena_mark(struct arena *a);
void arena_reset(struct arena *a, struct arena_mark m); // frees allocations made after the mark
char *arena_strdup(struct arena *a, const char *s);
char *arena_printf(struct arena *a, const char *fmt, ...) PRINTF(2, 3);
void *arena_copy(struct arena *a, const void *p, size_t bytes);
void *arena_grow(struct arena *a, void *old, size_t old_bytes, size_t new_bytes);

#define NEW(a, type) ((type *)arena_alloc((a), sizeof(type)))
#define NEWS(a, type, n) ((type *)arena_alloc((a), sizeof(type) * (size_t)(n)))

// Append to a growable array { p, n, cap } kept in an arena: PUSH(a, v->items, v->n, v->cap) = item;
#define PUSH(a, p, n, cap) (*(VEC_ROOM(a, p, n, cap), &(p)[(n)++]))
#define VEC_ROOM(a, p, n, cap)                                                                                                  \
  ((n) < (cap) ? (void)0                                                                                                        \
               : (void)((p) = arena_grow((a), (p), sizeof(*(p)) * (size_t)(n), sizeof(*(p)) * (size_t)((cap) ? 2 * (cap) : 8)), \
                        (cap) = (cap) ? 2 * (cap) : 8))

// ---- err.c: one error --------------------------------------------------------------------------

// Exit statuses of the command and return values of the library.
// UNSURE: only for `verify --strict`.
enum status { OK = 0, NO = 1, USER = 2, ENV = 3, UNSURE = 4 };

enum errid {
#define ERR(id, status, name, hint) ERR_##id,
#include "base/err.def"
#undef ERR
  ERR_N
};

struct loc {
  const char *file; // or NULL
  int line, col;    // from 1; 0 when unknown
};

enum { ERR_SOURCE = 160 }; // bytes of a source line below a message
struct err {
  enum status status;
  enum errid id;
  struct loc at;
  char text[768];          // what happened, with the shapes, the operator, the file
  char hint[512];          // what to do
  char source[ERR_SOURCE]; // the line that `at` names, or the part of it around the column; "": unknown
  int mark;                // the byte of `source` that `at` names, or -1
};

// Sets *e (the first error wins) and returns its status, so that `return err_set(...)` reads well.
int err_set(struct err *e, enum errid id, struct loc at, const char *fmt, ...) PRINTF(4, 5);
void err_hint(struct err *e, const char *fmt, ...) PRINTF(2, 3); // replaces the row's hint
const char *err_name(enum errid id);                             // stable name, "shape-mismatch"
const char *err_usual_hint(enum errid id);                       // the row's hint
enum { ERR_TEXT = 6000 };                                        // bytes of the longest message, with a path of 4096
void err_text(char *out, size_t n, const struct err *e);         // "file:line:col: error: ...", hint on a line of its own
void err_print(FILE *f, const struct err *e);
void err_source(struct err *e, const char *text, size_t n);    // takes the line of the error from the source text
int err_source_text(char *out, size_t n, const struct err *e); // the line and a mark under its column, or ""
static const struct loc NOWHERE = {0};
// Returns the status of a failed call.
#define TRY(x)                                 \
  do {                                         \
    int try_status_ = (x);                     \
    if (try_status_ != OK) return try_status_; \
  } while (0)

// ---- str.c: growable text ------------------------------------------------------------------------

struct str {
  char *p; // NUL-terminated after the first addition; from mem_more
  size_t n, cap;
};
void str_add(struct str *s, const char *fmt, ...) PRINTF(2, 3);
void str_raw(struct str *s, const char *p, size_t n);
void str_free(struct str *s);
const char *str_text(const struct str *s);        // never NULL
char *str_keep(struct arena *mem, struct str *s); // copies the text to mem; frees s
// The shortest decimal text that parses to x ("0.125", "1e-05", "inf").
void str_double(char out[32], double x);

// ---- file.c ---------------------------------------------------------------------------------------

// Reads a whole regular file; the text is NUL-terminated and lives in the arena.
int file_read(struct arena *a, const char *path, char **text, size_t *n, struct err *e);
// Writes a temporary file and renames it: a reader sees the old file or the new one, never a part.
int file_write(const char *path, const char *text, size_t n, struct err *e);
int file_mkdirs(const char *path, struct err *e);
bool file_here(char *out, size_t n); // the folder of the library or command that contains this code; false: unknown

// ---- hash.c: xxHash behind two names; rng: splitmix64 --------------------------------------------

uint64_t hash_bytes(const void *p, size_t n, uint64_t seed);
static inline uint64_t hash_mix(uint64_t h, uint64_t x)
{
  h ^= x + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
  h ^= h >> 33, h *= 0xff51afd7ed558ccdu, h ^= h >> 33, h *= 0xc4ceb9fe1a85ec53u;
  return h ^ h >> 33;
}
struct rng {
  uint64_t s;
};
static inline uint64_t rng_next(struct rng *r)
{
  uint64_t z = r->s += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}
static inline uint64_t rng_below(struct rng *r, uint64_t n) { return (uint64_t)((unsigned __int128)rng_next(r) * n >> 64); }
static inline double rng_unit(struct rng *r) { return (double)(rng_next(r) >> 11) * 0x1p-53; } // [0, 1)
double rng_normal(struct rng *r);                                                              // mean 0, variance 1

double now_seconds(void); // monotonic

// ---- pool.c ----------------------------------------------------------------------------------------

// Runs job(arg, i, worker) for every i in [0, n) on `threads` threads; worker in [0, threads).
void pool_run(int threads, int n, void (*job)(void *arg, int i, int worker), void *arg);
int pool_cores(void); // cores this process may use
// The number of `wanted` threads that can run at once, including this one; at most POOL_MOST, or twice the cores if that is more.
int pool_most(int wanted);
enum { POOL_MOST = 256, POOL_STACK = 8 << 20 };
// pthread_create with a stack of POOL_STACK bytes, independent of this process's limits.
int pool_thread(pthread_t *t, void *(*f)(void *), void *arg);

// ---- large.c ----------------------------------------------------------------------------------------
void large_copy(void *to, const void *from, size_t bytes);
bool large_same(const void *x, const void *y, size_t bytes);
void large_fill(void *to, char byte, size_t bytes);

// Set by SIGINT and SIGTERM in the command; long work polls it.
typedef const volatile int *stop_flag; // may be NULL; set by a signal or by another thread
static inline bool stop_set(stop_flag f) { return f && __atomic_load_n(f, __ATOMIC_RELAXED); }

// Limits of a wait. NULL: none.
struct patience {
  stop_flag stop, drop; // a wait ends soon after one of them is set
  double until;         // a value of now_seconds(); 0: no limit
};
static inline bool patience_over(const struct patience *p)
{
  return p && (stop_set(p->stop) || stop_set(p->drop) || (p->until > 0 && now_seconds() >= p->until));
}

#endif
