// The parser's state; private to this component. The parser calls the builder as it reads, so every error has the position of its text. There is no
// syntax tree.
//
//   tile_lex.c    tokens                              tile_names.c   scopes, the nearest name to a wrong one
//   parse_ex.c    integer expressions                 parse_type.c   tuples, levels, types, tilers, annotations
//   parse_view.c  views, groups, indices()            parse_stmt.c   specs, loops, conditions, blocks
//   tile_parse.c  files, kernels, directives          tile_print.c, print_text.c   the way back
#ifndef MICA_TILE_PARSE_H
#define MICA_TILE_PARSE_H

#include "tile/tile.h"

enum {
  TILE_BYTES = 1 << 20, // of a file
  TILE_DEEP = 100,      // parentheses within parentheses, tuples within tuples
  TILE_CHAIN = 32,      // suffixes of one view: %v.tile(..)[..]
  TILE_NAME = 64,       // characters of a name
  TILE_SOME = 64,       // parameters; kernels of a file; items of a tuple, a pattern or an index
};
#define TILE_INT ((int64_t)1 << 40) // bound on integer literals

// ---- tile_lex.c ----
enum tile_token_kind { // other tokens are their character
  TILE_END = 256,
  TILE_WORD,
  TILE_NUMBER,
  TILE_ARROW,
  TILE_OPEN,
  TILE_CLOSE, // <- <<< >>>
  TILE_LE,
  TILE_GE,
  TILE_EQ,
  TILE_NE,
  TILE_BOTH,
  TILE_EITHER,
  TILE_PLUS_EQ,
  TILE_SHR,
  TILE_BAD
};
struct tile_token {
  int kind;
  struct loc at;
  const char *p; // its text, n bytes
  int n;
  bool glued;      // no space before it
  int64_t value;   // of TILE_NUMBER
  const char *why; // of TILE_BAD: what is wrong with it
};
struct tile_lexer {
  const char *p, *end, *line_start, *file;
  int line;
};
void tile_lex_open(struct tile_lexer *l, const char *text, size_t n, const char *file);
struct tile_token tile_lex(struct tile_lexer *l);
void tile_lex_back(struct tile_lexer *l, const struct tile_token *t, int n); // continues n bytes after the start of t
struct tile_token tile_lex_op(struct tile_lexer *l);                         // an operator's name, of letters, digits, '.', '_', or one of + - * / <
struct tile_token tile_lex_decimal(struct tile_lexer *l, double *value);     // of Init
bool tile_is(const struct tile_token *t, const char *word);
const char *tile_token_text(char out[64], const struct tile_token *t); // for messages

// ---- tile_names.c: one namespace for each sigil; '@' is used for all scalars ----
struct tile_name {
  char sigil;
  const char *name;
  struct loc at;
  int index; // of a view or group
  ex var;    // of a scalar
  int next;  // in its bucket, plus 1
};
enum { TILE_BUCKETS = 1024 };
struct tile_scope {
  struct arena *mem;
  struct tile_name *names;
  int n, cap, start;        // first name of the innermost scope
  int bucket[TILE_BUCKETS]; // plus 1
};
int tile_scope_open(struct tile_scope *s); // returns the value for tile_scope_close
void tile_scope_close(struct tile_scope *s, int mark);
const struct tile_name *tile_scope_find(const struct tile_scope *s, char sigil, const char *p, int n);
void tile_scope_add(struct tile_scope *s, struct tile_name name);
const char *tile_scope_near(const struct tile_scope *s, char sigil, const char *word); // or NULL

struct tile_nearest { // the nearest word of a table
  const char *word, *best;
  int distance;
};
struct tile_nearest tile_nearest(const char *word);
void tile_nearest_try(struct tile_nearest *n, const char *candidate);

// ---- tile_parse.c ----
struct reader {
  struct tile_lexer lex;
  struct tile_token t; // the next token
  struct arena *mem;
  struct err *e;
  struct tile_program *p;
  struct builder b;
  struct tile_scope scope;
  bool row;          // row-major order for omitted strides
  int depth;         // nesting of expressions and tuples
  bool in_arguments; // of <...>
  int nset;
  struct tile_setting *set;
};
#define READ(x)                                  \
  do {                                           \
    int read_status_ = (x);                      \
    if (read_status_ != OK) return read_status_; \
  } while (0)
#define TILE_AT(r, place, call) ((r)->b.at = (place), (call)) // calls the builder with a source position
void read_next(struct reader *r);
bool read_take(struct reader *r, int kind);
bool read_word(struct reader *r, const char *word);
int read_expect(struct reader *r, int kind, const char *what);
int read_close(struct reader *r, int kind, int opening, struct loc opened);
int read_unexpected(struct reader *r, const char *wanted);
int read_number(struct reader *r, int64_t lo, int64_t hi, const char *what, int64_t *out);
// A name after its sigil ('%', '#', '@'; with `bare`, scalars need no '@').
int read_name(struct reader *r, char sigil, struct tile_token *name);
int read_scalar_name(struct reader *r, struct tile_token *name);
char *read_text(struct reader *r, const struct tile_token *t);
int read_define(struct reader *r, char sigil, const struct tile_token *name, int index, ex var);
int read_use(struct reader *r, char sigil, const struct tile_token *name, const struct tile_name **out);

// ---- parse_ex.c ----
int read_ex(struct reader *r, ex *out);
int read_argument(struct reader *r, ex *out);        // within <...>: a `>` outside of parentheses ends it
int read_too_large(struct reader *r, struct loc at); // an error if a number has become too large

// ---- parse_type.c ----
struct tile_levels {
  int n;
  struct lay level[TILE_LEVELS];
  bool strided[TILE_LEVELS]; // strides were given
};
struct tile_written { // a type as written
  struct loc at;
  struct tile_levels l;
  enum tile_type type;
  enum tile_mem mem;
  struct swizzle swizzle;
  enum group_kind kind;
};
int read_type(struct reader *r, struct tile_written *w); // of a tensor
int read_group_type(struct reader *r, struct tile_written *w);
int read_level(struct reader *r, struct tile_levels *l);               // appends
int read_tiler(struct reader *r, int rank, struct lay *out);           // a tiler of a level with that many dimensions
void tile_compact(struct lay_ctx *c, bool row, struct tile_levels *l); // sets the omitted strides of levels
int read_check_view(struct reader *r, const struct tile_written *w, int view);
int read_check_group(struct reader *r, const struct tile_written *w, int group);

// ---- parse_view.c ----
int read_view(struct reader *r, int *out);                                  // an operand
int read_view_suffixes(struct reader *r, const char *name, int *view);      // `name`: the name of the last view
int read_tensor_statement(struct reader *r, const struct tile_token *name); // called after %name, at ':' or '='
int read_group_statement(struct reader *r);
int read_let(struct reader *r);
bool read_at_pattern(const struct reader *r);

// ---- parse_stmt.c ----
int read_spec(struct reader *r, const struct tile_token *first); // first: a %name that was already read, or NULL
int read_kernel_spec(struct reader *r);

// ---- print_text.c ----
struct tile_printer {
  const struct tile_program *p;
  const struct tile_kernel *k;
  struct str *out;
  struct tile_scope scope; // scalars; index 1: written with '@'
};
void tile_put_ex(struct tile_printer *o, ex x);
void tile_put_levels(struct tile_printer *o, int n, const struct lay *level, bool strides);
void tile_put_levels_as(struct tile_printer *o, int n, const struct lay *level, const bool *strides); // a level
bool tile_put_visible(const struct tile_printer *o, int n, const struct lay *level);                  // every name in it still has the same meaning
// prints a name; for a definition, or a view without a name, the expression that makes it
void tile_put_view(struct tile_printer *o, int view, bool define);
void tile_put_group(struct tile_printer *o, int group, bool define);
void tile_put_spec(struct tile_printer *o, int spec);

#endif
