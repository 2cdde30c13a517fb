// emit: functions that all schemes use to write tile text.
//
//   text.c        indented lines of a tile program; names and declarations of a kernel
//   fill.c        several lines, from templates with named holes
//   lower_walk.c  addresses along axes
//   pointwise.c   an elementwise operator on register tensors, as one or several specs
#ifndef MICA_LOWER_EMIT_H
#define MICA_LOWER_EMIT_H

#include "kern/kern.h"
#include "lower/lower.h"

// The i-th memory access: of value i, or after all values of a save. False: the value is not a live load.
struct kern_use {
  const struct kern_access *at;
  axis_set axes;
  bool save;
};
static inline int kern_uses(const struct kern *k) { return k->nvalues + k->nsaves; }
static inline bool kern_use(const struct kern *k, int i, struct kern_use *out)
{
  if (i < k->nvalues)
    *out = (struct kern_use){&k->v[i].at, k->v[i].axes, false};
  else
    *out = (struct kern_use){&k->save[i - k->nvalues].at, k->save[i - k->nvalues].axes, true};
  return out->save || (k->v[i].live && kern_loads(&k->v[i]));
}

struct text_mark {
  size_t at; // position in the text from which it applies
  bool tail;
  int node; // of the scheme's block graph of the kernel or its tail; -1: none
};
struct text_marks {
  struct arena *mem;
  const struct graph *block; // the block graph of the nodes
  int n, cap;
  struct text_mark *mark; // ordered by position
};
// Marks the following lines as text of a node, numbered as in kern_value.about, or of none (0). See line_about in lower.h.
void text_about(struct text *t, int about);
void about_lines(struct arena *mem, const struct graph *kernels, const struct text_marks *m, struct launch *l); // about.c
// At the end of the enclosing C block: closes all text blocks opened since, and restores the node of text_about.
#define TEXT_SCOPE(t) TEXT_SCOPE_AT(t, __LINE__)
#define TEXT_SCOPE_AT(t, line) TEXT_SCOPE_OF(t, line)
#define TEXT_SCOPE_OF(t, line) __attribute__((cleanup(text_scope_end))) const struct text_scope text_scope_##line = text_scope(t)
#define TEXT_ABOUT(t, about) \
  TEXT_SCOPE(t);             \
  text_about(t, about)
struct text_scope {
  struct text *t;
  int indent, about;
};
struct text_scope text_scope(struct text *t);
void text_scope_end(const struct text_scope *s);
// Prints lines of a template (below), formatted like printf instead of with holes.
void text_line(struct text *t, const char *fmt, ...) PRINTF(2, 3); // blocks that it opens are closed at its end
int text_open(struct text *t, const char *fmt, ...) PRINTF(2, 3);  // blocks stay open; returns the previous indentation, for text_until
void text_close(struct text *t);                                   // "}"
int text_if(struct text *t, const char *condition); // "if (...) {" if there is a condition; returns the previous indentation, for text_until
// Returns the list with separator and item appended; of an empty list, only the item.
const char *text_join(struct arena *mem, const char *list, const char *separator, const char *item, ...) PRINTF(4, 5);

// Templates. A template has several lines of tile text:
//   $name, ${name}             the hole of that name
//   ?name LINE, ?!name LINE    the line is printed only if the hole is not (is) 0 or empty text
//   each s:2 n:$tiles          nested unrolled loops over s and n
//   HEAD {                     opens a block, such as for or if
//   }                          closes the last HEAD, or all loops of the last `each`
//   %x:[4].fp32.RF <- OP(%y)   the declaration of %x, then the spec
//   OP#lanes(%y)               executed by #lanes; by #me if no group is given
struct hole { // a number, or a text if s is not NULL
  const char *name;
  int64_t n;
  const char *s;
  const struct hole *outer; // in the last entry, which has no name: the list in which the lookup continues
};
#define INT(id, value)        \
  {                           \
    .name = #id, .n = (value) \
  }
#define STR(id, text)        \
  {                          \
    .name = #id, .s = (text) \
  }
// A list of these holes, then those of `more`; valid within the enclosing C block.
#define HOLES(more, ...) ((const struct hole[]){__VA_ARGS__, {.outer = (more)}})
#define KEPT_HOLES(mem, ...) ((const struct hole *)arena_copy((mem), HOLES(__VA_ARGS__), sizeof HOLES(__VA_ARGS__))) // allocated in mem
void text_fill(struct text *t, const char *template, const struct hole *holes);         // blocks that it opens are closed at its end
void text_begin(struct text *t, const char *template, const struct hole *holes);        // blocks stay open
void text_until(struct text *t, int indent);                                            // closes blocks down to this indentation
const char *text_of(struct arena *mem, const char *template, const struct hole *holes); // a text with filled holes; allocated in mem
const char *text_number(struct arena *mem, double x);                                   // as tile text, exact to the last bit

// Prints "order row" and "kernel NAME {", and the directive `target` if the GPU has one of the capabilities in may_use.
void text_kernel(struct text *t, const char *name, const char *comment, const struct target *gpu, uint32_t may_use);
// Declares a buffer with these names for each tensor that the kernel loads and saves, except existing arguments and results of a tail's head. Adds
// arguments to `out`, and names to the lists.
void emit_arguments(struct text *t, struct arena *mem, const struct kern *k, const char **name, struct lower_out *out, struct str *ins,
                    struct str *outs);
// Declares groups of blocks and threads with these extents, and prints the head of the kernel's spec with these arguments, whose lists it frees.
void emit_head(struct text *t, const char *blocks, const char *threads, struct str *ins, struct str *outs);
void emit_frame(struct text *t, struct arena *mem, const struct kern *k, const char **name, int64_t cluster, const char *blocks, const char *threads,
                struct lower_out *out); // calls emit_arguments() and emit_head(); cluster: blocks of a cluster
// Declares `name`, the number of the block's work tile. With more tiles than workers it opens a loop, which text_until closes. The loop must end with
// emit_tiles_end(), since the next tile reuses the shared memory.
void emit_tiles(struct text *t, const struct target *gpu, int64_t tiles, const char *name);
void emit_tiles_end(struct text *t, const struct target *gpu, int64_t tiles);
// Unique names for tensors, allocated in mem: those of the graph if they are identifiers. Names that a scheme may use itself get the prefix g_:
// lower-case names with digits, all names, or lower-case names.
enum text_apart { TEXT_NUMBERED, TEXT_ALL, TEXT_LOWER };
const char **text_names(struct arena *mem, const struct graph *g, enum text_apart apart);

// ---- lower_walk.c: sums of (index / d % m) * stride ----
enum { WALK_AXES = MAX_LETTERS };
struct lower_walk {
  int n;
  int64_t extent[WALK_AXES], stride[WALK_AXES]; // slowest first
};
bool walk_add(struct lower_walk *w, int64_t extent, int64_t stride);            // adds a faster axis; false: there is no room
void walk_text(const struct lower_walk *w, const char *index, struct str *out); // " + ..." for each term; the index must bind like a product
struct lower_space {                                                            // axes that are counted together by one index, slowest first
  int n;
  int64_t size; // 0: nothing was added
  int8_t axis[WALK_AXES];
};
void space_push(struct lower_space *s, const int64_t *extent, int axis); // adds a faster axis, unless it is there already
axis_set space_axes(const struct lower_space *s);
static inline int64_t space_size(const struct lower_space *s) { return MAX(s->size, 1); }
// The walk of memory along the space, in units of `unit` elements. One step of the index is `by` elements of the fastest axis.
// Returns false if a unit is not contiguous in memory.
bool space_walk(const struct lower_space *s, const int64_t *extent, const int64_t *stride, int unit, int by, struct lower_walk *out);

const char *tile_dtype(enum dtype t); // "fp16"

// out = op(in...) over register tensors in fp32 (names with indices, without the %; extents of 1 in the second broadcast), executed by one thread
// ("<<<#grid, #me>>>").
void emit_unary(struct text *t, const char *name, const char *out, const char *x);
void emit_binary(struct text *t, const char *name, const char *out, const char *x, const char *y);
bool emit_has_pointwise(enum op op);
// lower_values.c: values of a job's kernel, rewritten by these rules except those switched off. NO with the reason in why.
int lower_values(const struct lower_job *j, unsigned rules, struct kern *out, char why[160]);
const char *fold_operator(enum kern_kind kind); // in the tile language, of sums, maxima and products over axes
const char *fold_neutral(enum kern_kind kind);  // its neutral element
void emit_map(struct text *t, const struct kern_value *v, const char *out, const char *x, const char *y); // prints a KERN_MAP

#endif
