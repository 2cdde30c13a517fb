// emit: inside lower, what schemes share in writing tile text.
//
// text.c: lines of a tile program, indented; the frame of a kernel.
// fill.c: several lines, from templates with named holes.
// lower_walk.c: addresses.
// pointwise.c: an elementwise operator over register tensors of one shape, as one or several specs.
#ifndef MICA_LOWER_EMIT_H
#define MICA_LOWER_EMIT_H

#include "kern/kern.h"
#include "lower/lower.h"

// The i-th access to memory, of a live load or a save; false: value i is none.
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
  size_t at; // from that place in the text on
  bool tail;
  int node; // of the block graph of the kernel or its tail, as the scheme has it; -1: none
};
struct text_marks {
  struct arena *mem;
  const struct graph *block; // whose nodes are meant
  int n, cap;
  struct text_mark *mark; // in order of places
};
struct text {
  struct str *out;
  int indent;
  int fresh;                // numbers given to temporaries so far
  struct text_marks *marks; // or NULL
  bool tail;                // what is written is of the tail
  int about;                // node + 1 that it is about
};
// The following lines compute, load or save this node, or none (-1): for people who look at the text beside the graph (line_about in
// lower.h). Returns what it was about before.
int text_about(struct text *t, int node);
void about_lines(struct arena *mem, const struct graph *kernels, const struct text_marks *m, struct launch *l); // about.c
// At the end of the enclosing C block, closes all text blocks that were opened since, and restores the node of text_about.
#define TEXT_SCOPE(t) TEXT_SCOPE_AT(t, __LINE__)
#define TEXT_SCOPE_AT(t, line) TEXT_SCOPE_OF(t, line)
#define TEXT_SCOPE_OF(t, line) __attribute__((cleanup(text_scope_end))) const struct text_scope text_scope_##line = text_scope(t)
#define TEXT_ABOUT(t, node) \
  TEXT_SCOPE(t);            \
  text_about(t, node)
struct text_scope {
  struct text *t;
  int indent, about;
  bool tail;
};
struct text_scope text_scope(struct text *t);
void text_scope_end(const struct text_scope *s);
// Lines of a template (below), with the values of a format in place of holes.
void text_line(struct text *t, const char *fmt, ...) PRINTF(2, 3); // what is left open is closed at the end
int text_open(struct text *t, const char *fmt, ...) PRINTF(2, 3);  // it stays open; returns the indentation before, for text_until
void text_close(struct text *t);                                   // "}"
int text_if(struct text *t, const char *condition); // "if (...) {" where there is a condition; returns the indentation before, for text_until
// list, separator, item; the item alone where the list is empty
const char *text_join(struct arena *mem, const char *list, const char *separator, const char *item, ...) PRINTF(4, 5);

// Templates. A template has several lines of tile text:
//   $name, ${name}            the hole of that name
//   ?name LINE, ?!name LINE   the line stands only where the hole is (is not) 0 or empty text
//   each s:2 n:$tiles         unrolled loops over s and n, within one another
//   HEAD {                    opens, as for and if do
//   }                         closes the last HEAD, or all loops of the last `each`
//   %x:[4].fp32.RF <- OP(%y)  the declaration of %x, and then the spec
//   OP#lanes(%y)              done by #lanes; by #me where nothing is said
struct hole { // a number, or a text where s is not NULL
  const char *name;
  int64_t n;
  const char *s;
  const struct hole *outer; // at the end of a list, which has no name: the list in which the search goes on
};
#define INT(id, value)        \
  {                           \
    .name = #id, .n = (value) \
  }
#define STR(id, text)        \
  {                          \
    .name = #id, .s = (text) \
  }
// A list: these holes, then those of `more`; it lives as long as the block in which it is written.
#define HOLES(more, ...) ((const struct hole[]){__VA_ARGS__, {.outer = (more)}})
#define KEPT_HOLES(mem, ...) ((const struct hole *)arena_copy((mem), HOLES(__VA_ARGS__), sizeof HOLES(__VA_ARGS__))) // lives in mem
void text_fill(struct text *t, const char *template, const struct hole *holes);         // what is left open is closed at the end
void text_begin(struct text *t, const char *template, const struct hole *holes);        // it stays open
void text_until(struct text *t, int indent);                                            // closes down to this indentation
const char *text_of(struct arena *mem, const char *template, const struct hole *holes); // a text with its holes filled; lives in mem
const char *text_number(struct arena *mem, double x);                                   // as tile text has it, to the last bit

// "order row", "kernel NAME {"; the directive `target` where the kernel may use capabilities that not every GPU has, and this one does.
void text_kernel(struct text *t, const char *name, const char *comment, const struct target *gpu, uint32_t may_use);
// Declares a buffer for each tensor that the kernel loads and saves, by these names, but for arguments that are there already and what the head
// of a tail has left. Adds arguments to `out`, and names to the lists.
void emit_arguments(struct text *t, struct arena *mem, const struct kern *k, const char **name, struct lower_out *out, struct str *ins,
                    struct str *outs);
// Groups of blocks and threads of these extents, and the head of the kernel's spec with these arguments, whose lists it frees.
void emit_head(struct text *t, const char *blocks, const char *threads, struct str *ins, struct str *outs);
void emit_frame(struct text *t, struct arena *mem, const struct kern *k, const char **name, int64_t cluster, const char *blocks, const char *threads,
                struct lower_out *out); // clusters of so many blocks, emit_arguments(), emit_head()
// The number of the work tile that the block does; `name` is it. If there are more tiles than workers this is a loop, which text_until
// closes; tiles_end() comes last within it, since shared memory of one tile becomes that of the next.
void emit_tiles(struct text *t, const struct target *gpu, int64_t tiles, const char *name);
void emit_tiles_end(struct text *t, const struct target *gpu, int64_t tiles);
// Names for tensors: those of the graph where they are identifiers, made unique; lives in mem. Names that could be a scheme's own get g_:
// lower case with digits, lower case, or all names.
enum text_apart { TEXT_NUMBERED, TEXT_ALL, TEXT_LOWER };
const char **text_names(struct arena *mem, const struct graph *g, enum text_apart apart);

// ---- lower_walk.c: sums of (index / d % m) * stride ----
enum { WALK_AXES = MAX_LETTERS };
struct lower_walk {
  int n;
  int64_t extent[WALK_AXES], stride[WALK_AXES]; // slowest first
};
bool walk_add(struct lower_walk *w, int64_t extent, int64_t stride);            // a faster axis; false: there is no room
void walk_text(const struct lower_walk *w, const char *index, struct str *out); // " + ..." for each term; the index binds like a product

const char *tile_dtype(enum dtype t); // "fp16"

// out = op(in...) over register tensors in fp32 (names with their indices, without the %; extents of 1 in the second are broadcast), by the
// executing thread ("<<<#grid, #me>>>").
void emit_unary(struct text *t, const char *name, const char *out, const char *x);
void emit_binary(struct text *t, const char *name, const char *out, const char *x, const char *y);
bool emit_has_pointwise(enum op op);
// lower_values.c: of the kernel of a job, rewritten by these rules but those that are off. NO with the reason in why.
int lower_values(const struct lower_job *j, unsigned rules, struct kern *out, char why[160]);
const char *fold_operator(enum kern_kind kind); // in the tile language, of sums, maxima and products over axes
const char *fold_neutral(enum kern_kind kind);  // what changes nothing there
void emit_map(struct text *t, const struct kern_value *v, const char *out, const char *x, const char *y); // of a KERN_MAP

#endif
