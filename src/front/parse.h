// Private to this component: the parser's state. It builds the graph while it reads, so that every error of shapes is
// found at the place where it was written; there is no syntax tree.
#ifndef MICA_FRONT_PARSE_H
#define MICA_FRONT_PARSE_H

#include "front/front.h"
#include "ir/print.h"

// ---- lex.c ---------------------------------------------------------------------------------------
enum {
  TOK_END = 256,
  TOK_LINE,
  TOK_NAME,
  TOK_NUMBER,
  TOK_BAD,
  TOK_LESS_EQUAL,
  TOK_GREATER_EQUAL,
  TOK_EQUAL,
  TOK_NOT_EQUAL,
  TOK_FLOOR_DIV
}; // other tokens are their character

// A number that is known while parsing. Integers stay exact; `lost` says why one is none any more.
enum lost { WHOLE, DECIMAL, INEXACT, OVERFLOWED };
struct number {
  double real;
  int64_t whole; // while lost == WHOLE
  enum lost lost;
  bool cut; // an integer beyond 64 bits that its double does not keep
};

struct token {
  int kind;
  struct loc at;
  const char *p; // its text, n bytes
  int n;
  struct number number;
  const char *why; // of TOK_BAD: what is wrong with it
};

struct lexer {
  struct arena *mem;
  const char *p, *end, *line_start;
  const char *file;
  int line;
  int inside; // open parentheses and brackets, in which line ends do not count
};
void lex_open(struct lexer *l, struct arena *mem, const char *text, size_t n, const char *file);
struct token lex_next(struct lexer *l);
bool lex_is(const struct token *t, const char *word); // the token is this name
void lex_text(char out[64], const struct token *t);   // for messages: "`matmul`", "the end of the line"

// ---- scope.c: names ------------------------------------------------------------------------------
struct front_value {
  enum { NUMBER, TENSORS } kind;
  struct loc at;
  struct number number;
  int first, count; // tensors first .. first + count - 1 of the graph
};
struct name {
  const char *id;
  int next; // in its bucket, plus 1
  struct front_value value;
};
enum { BUCKETS = 512 };
struct front_scope {
  struct front_scope *above;
  struct graph *g;
  struct name *names;
  int n, cap, bucket[BUCKETS]; // first name of each bucket, plus 1
  struct loc opened;           // its `{`
  int *from;                   // tensors of the graph above that iterators read, in their order
  int nfrom, from_cap;
};

struct parser {
  struct lexer lex;
  struct token t, ahead; // the token to be read, and the one after it
  struct arena *mem;
  struct err *e;
  struct front_scope *scope; // innermost
  int depth;                 // of nested expressions
  int tensors;               // built so far, in all graphs
  bool blocks;               // `graph`, so block statements are legal
  bool masks;                // padding of run-time extents is masked where it is read
  const char *text;          // all of it
  size_t size;
  struct loc world; // of its statement; line 0: there is none
};

int scope_define(struct parser *p, const struct token *id, const struct front_value *v);
int scope_value(struct parser *p, const struct token *id, struct front_value *v);                      // a name in an expression
int scope_rebind(struct parser *p, const struct token *id, int tensor);                                // the name means that tensor from here on
int scope_outer(struct parser *p, const struct token *id, int *tensor);                                // iter's first argument
int scope_name_results(struct parser *p, int n, const struct token *ids, const struct front_value *v); // `a, b = v`

// ---- near.c --------------------------------------------------------------------------------------
struct near {
  const char *word; // that was written
  const char *best; // nearest so far, or NULL
  int distance;
};
struct near near_start(const char *word);
void near_try(struct near *n, const char *candidate);

// ---- number.c ------------------------------------------------------------------------------------
struct number number_of(int64_t x);
int number_by_zero(struct err *e, struct loc at);
int number_op(struct err *e, struct loc at, int op, struct number a, struct number b, struct number *r); // + - * / %
int number_fold(struct err *e, struct loc at, enum op op, const struct attrs *a, int n, const struct number *x,
                struct number *r);            // an elementwise operator, by its row
bool number_neutral(enum op op, double *out); // of a reduction, by its row: folded in, it changes nothing; it may be infinite
int number_real(struct err *e, struct loc at, const struct number *x, double *out); // as a constant; an error where it is not exact
int number_whole(struct err *e, enum errid id, struct loc at, const struct number *x, const char *what, int64_t lo, int64_t hi,
                 int64_t *out); // an integer in [lo, hi], or error `id`

// ---- front_expr.c, call.c, block.c, parse.c ------------------------------------------------------------
int expr_parse(struct parser *p, struct front_value *v);
int expr_plain(struct parser *p, struct front_value *v); // without comparisons
int expr_whole(struct parser *p, enum errid id, const char *what, int64_t lo, int64_t hi, int64_t *out);
int expr_binary(struct parser *p, enum op op, struct loc at, const struct front_value *a, const struct front_value *b,
                struct front_value *v);                                          // ADD SUB MUL DIV and the other elementwise rows of two arguments
int expr_tensor(struct parser *p, struct front_value *v, int *t);                // one tensor; a number becomes a constant
int call_parse(struct parser *p, const struct token *id, struct front_value *v); // after the name, at '('
// With its tensors given; the parser stands at its attributes and reads them up to the end.
int call_outside(struct parser *p, const struct token *id, int n, const int *tensors, struct front_value *v);
int call_add(struct parser *p, enum op op, int n, const int *in, const struct attrs *a, struct loc at, struct front_value *v);
// ---- extent.c: run-time extents
int extent_define(struct parser *p, int extent);                // its name in the innermost scope, where it has one
int extent_statement(struct parser *p, const struct token *id); // n: dim >= 1 <= 4096, at the word `dim`
// An extent: a number, or a run-time extent, whose number is *runs then (0: it is none) and whose bound is *out.
int expr_extent(struct parser *p, enum errid id, const char *what, int64_t lo, int64_t hi, int64_t *out, uint8_t *runs);
int extent_of(const struct parser *p, const struct front_value *v);           // the run-time extent that this value is; 0: it is none
int extent_runs(struct parser *p, int t, const uint8_t *runs, struct loc at); // dimensions of t that were written with run-time extents
// ---- masks.c
node_adder masks_add; // graph_add for programs with run-time extents
// ---- items.c: subscripts
int items_take(struct parser *p, struct front_value *v); // at `[`, behind an expression
bool items_update_starts(struct parser *p);
int items_update(struct parser *p); // K[at] = y
bool block_starts(const struct parser *p);
int block_parse(struct parser *p, struct front_value *v);

// ---- entry.c
int model_parse(struct parser *p, int nset, const struct setting *set); // at `model`
const char *model_entry(int nset, const struct setting *set);           // that a setting names, or NULL

int parse_check_text(const char *text, size_t n, const char *file, struct err *e); // it is text, and no more than FRONT_BYTES
int parse_parameters(struct parser *p, int nset, const struct setting *set);
int parse_returned(struct parser *p, const struct token *id, struct loc end, bool returned);
int parse_statement(struct parser *p, bool *returned);
int parse_end(struct parser *p);                                           // of a statement
void parse_lines(struct parser *p);                                        // skips ends of lines
int parse_statements(struct parser *p, struct loc opened, bool *returned); // up to the `}`
int parse_bound(struct parser *p, int64_t *out);                           // of a range, behind its sign
void parse_next(struct parser *p);
bool parse_take(struct parser *p, int kind);
int parse_expect(struct parser *p, int kind, const char *what);
int parse_close(struct parser *p, int kind, int opening, struct loc opened); // `)` and its kin
int parse_unexpected(struct parser *p, const char *wanted);
int parse_duplicate(struct parser *p, struct loc at, const char *id, struct loc first);

#endif
