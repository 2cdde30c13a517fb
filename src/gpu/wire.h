// wire: inside gpu, what goes between the two sides. Numbers are 64 bits, in this machine's order: both sides are the
// same build on the same machine, which the first request makes sure of.
#ifndef MICA_GPU_WIRE_H
#define MICA_GPU_WIRE_H

#include "base/child.h"
#include "gpu/gpu.h"

extern const char build_fingerprint[]; // of all sources, made by the build

// ---- wire.c ----
struct wire {
  struct str s;
  size_t at; // of what is read next
  bool bad;  // something was read that is not there
};
void wire_free(struct wire *w);
void wire_put(struct wire *w, int64_t x);
void wire_put_real(struct wire *w, double x);
void wire_put_bytes(struct wire *w, const void *p, size_t n);
void wire_put_text(struct wire *w, const char *s);
int64_t wire_get(struct wire *w); // 0 where bad
int64_t wire_get_count(struct wire *w,
                       size_t each); // of things that follow, of at least so many bytes each; 0 where bad
double wire_get_real(struct wire *w);
const void *wire_get_bytes(struct wire *w, size_t *n); // inside the message
const char *wire_get_text(struct arena *mem, struct wire *w);
void wire_put_error(struct wire *w, const struct err *e);
void wire_get_error(struct wire *w, struct err *e);

// A message on a socket: a kind, bytes, perhaps a file descriptor (-1: none). seconds < 0: waits for ever. ENV where
// the other side is gone, NO where the time is over.
int wire_send(int fd, int64_t kind, const struct wire *w, int carry, struct err *e);
// Until there is something to receive. NO where the time is over, STOPPED after a stop.
int wire_wait(int fd, const struct patience *p, struct err *e);
int wire_receive(int fd, int64_t *kind, struct wire *w, int *carried, double seconds, struct err *e);

// ---- code_wire.c ----
void wire_put_code(struct wire *w, const struct code *c);
int wire_get_code(struct arena *mem, struct wire *w, struct code *out, struct err *e);

// ---- memory that both sides see ----
enum { PAGE = 4096, GUARD = 256 };
// Offsets of inputs and of the two results of a run in it.
struct shared_map {
  int nin, nout;
  const int64_t *in_bytes, *out_bytes;
  int64_t *in, *first, *other; // by input, by output
  int64_t bytes;
};
void shared_layout(struct arena *mem, int nin, const int64_t *in_bytes, int nout, const int64_t *out_bytes, struct shared_map *m);
// Offsets of tensors one after the other with a guard before, between and after; returns the bytes of all.
int64_t guarded_layout(int n, const int64_t *bytes, int64_t *offset);

// ---- requests; status and error go ahead of each answer ----
enum request {
  ASK_HELLO,   // fingerprint, device -> facts, free memory
  ASK_PROBLEM, // sizes, sets; the shared memory -> sets
  ASK_LOAD,    // number, code -> algorithms of products
  ASK_DROP,    // number ->
  ASK_COMPARE, // kernel, what is compared; shared memory with the expected values ->
  ASK_RUN,     // number, repeats, whether outputs are compared there, whether they stay there -> differs, seconds, what was compared
  ASK_OUTPUTS, // number -> ; outputs of its one run come to the shared memory
  ASK_FIRST,   // -> ; outputs of the first of the runs that were compared there come to the shared memory
  ASK_TIME,    // struct time_request -> seconds
  ASK_BUILD,   // fingerprint ->; of a process that compiles
  ASK_COMPILE, // architecture, name, source -> registers, spilled, machine code
};

// ---- serve.c: a request on the worker's side, also without a process ----
struct stage;
struct stage *stage_new(void);
void stage_free(struct stage *s);
// `in` is read, the answer written to `out`. `carried`: belongs to the caller.
void stage_serve(struct stage *s, int64_t kind, struct wire *in, int carried, struct wire *out);
_Noreturn void stage_serve_all(struct stage *s, int fd); // until the other side is gone; then the process ends

// ---- identity.c ----
bool identity_by_files(const char *root, char out[160]); // of the driver, "/proc/driver/nvidia"

// ---- process.c ----
bool process_start(const char *path, char **env, struct child *c, int *fd); // fd: this side's end of the socket
void process_end(struct child *c, int fd);

// ---- find.c ----
// The path of an executable that is a worker; false: there is none, and why.
bool worker_find(const char *given, char out[512], char why[200]);

#endif
