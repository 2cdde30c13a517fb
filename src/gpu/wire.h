// wire: messages between the two sides. Private to gpu. Numbers are 64 bits in this machine's byte order: both sides are the same build on the same
// machine, which the first request verifies.
#ifndef MICA_GPU_WIRE_H
#define MICA_GPU_WIRE_H

#include "base/child.h"
#include "gpu/gpu.h"

extern const char build_fingerprint[]; // of all sources, made by the build

// ---- wire.c ----
struct wire {
  struct str s;
  size_t at; // position of the next read
  bool bad;  // a read went past the end
};
void wire_free(struct wire *w);
void wire_put(struct wire *w, int64_t x);
void wire_put_real(struct wire *w, double x);
void wire_put_bytes(struct wire *w, const void *p, size_t n);
void wire_put_text(struct wire *w, const char *s);
int64_t wire_get(struct wire *w); // 0 if bad
int64_t wire_get_count(struct wire *w,
                       size_t each); // number of following items, each of at least that many bytes; 0 if bad
double wire_get_real(struct wire *w);
const void *wire_get_bytes(struct wire *w, size_t *n); // points into the message
const char *wire_get_text(struct arena *mem, struct wire *w);
void wire_put_error(struct wire *w, const struct err *e);
void wire_get_error(struct wire *w, struct err *e);

// A message on a socket: a kind, bytes, and possibly a file descriptor (-1: none). seconds < 0: no limit. ENV if the other side is gone, NO at the
// time limit.
int wire_send(int fd, int64_t kind, const struct wire *w, int carry, struct err *e);
// Waits until a message can be received. NO at the time limit, STOPPED after a stop.
int wire_wait(int fd, const struct patience *p, struct err *e);
int wire_receive(int fd, int64_t *kind, struct wire *w, int *carried, double seconds, struct err *e);

// ---- code_wire.c ----
void wire_put_code(struct wire *w, const struct code *c);
int wire_get_code(struct arena *mem, struct wire *w, struct code *out, struct err *e);

// ---- memory shared by both sides ----
enum { PAGE = 4096, GUARD = 256 };
// Offsets of the inputs, and of the two results of a run.
struct shared_map {
  int nin, nout;
  const int64_t *in_bytes, *out_bytes;
  int64_t *in, *first, *other; // for each input and output
  int64_t bytes;
};
void shared_layout(struct arena *mem, int nin, const int64_t *in_bytes, int nout, const int64_t *out_bytes, struct shared_map *m);
// Offsets of consecutive tensors, with a guard before, between and after them; returns the total bytes.
int64_t guarded_layout(int n, const int64_t *bytes, int64_t *offset);

// ---- requests; each answer begins with status and error ----
enum request {
  ASK_HELLO,   // fingerprint, device -> facts, free memory
  ASK_PROBLEM, // sizes and masks, sets; the shared memory -> sets
  ASK_LOAD,    // number, code -> algorithms of products
  ASK_DROP,    // number -> nothing
  ASK_COMPARE, // kernel, comparison; shared memory with the expected values -> nothing
  ASK_RUN,     // number, repeats, whether outputs are compared on the device, whether they stay there -> differs, seconds, comparison
  ASK_OUTPUTS, // number -> nothing; outputs of its one run go to the shared memory
  ASK_FIRST,   // nothing -> nothing; outputs of the first compared run go to the shared memory
  ASK_TIME,    // struct time_request -> seconds
  ASK_BUILD,   // fingerprint -> nothing; for a compiler process
  ASK_COMPILE, // architecture, name, source -> registers, spilled, machine code
};

// ---- serve.c: handles a request on the worker's side, also without a process ----
struct stage;
struct stage *stage_new(void);
void stage_free(struct stage *s);
// Reads `in` and writes the answer to `out`. `carried` belongs to the caller.
void stage_serve(struct stage *s, int64_t kind, struct wire *in, int carried, struct wire *out);
_Noreturn void stage_serve_all(struct stage *s, int fd); // until the other side is gone; then the process ends

// ---- identity.c ----
bool identity_by_files(const char *root, char out[160]); // from the driver's files, in "/proc/driver/nvidia"

// ---- process.c ----
bool process_start(const char *path, char **env, struct child *c, int *fd); // fd: this side's end of the socket
void process_end(struct child *c, int fd);

// ---- find.c ----
// The path of a worker's executable; false: there is none, with the reason.
bool worker_find(const char *given, char out[512], char why[200]);

#endif
