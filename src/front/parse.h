// Private to this component: the parser's state. The parser builds the graph while it reads, so an error of shapes is
// reported at its place in the text. There is no syntax tree.
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
}; // any other token is its character

// A number that is known while parsing. Integers stay exact; `lost` tells why a number is not an exact integer.
enum lost { WHOLE, DECIMAL, INEXACT, OVERFLOWED };
struct number {
  double real;
  int64_t whole; // its value if lost == WHOLE
  enum lost lost;
  bool cut; // an integer beyond 64 bits that a double does not represent exactly
};

struct token {
  int kind;
  struct loc at;
  const char *p; // its text, n bytes
  int n;
  struct number number;
  const char *why; // TOK_BAD: the error message
};

struct lexer {
  struct arena *mem;
  const char *p, *end, *line_start;
  const char *file;
  int line;
  int inside; // number of open parentheses and brackets; line ends inside them are no tokens
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
  int next; // next name of the same bucket, plus 1
  struct front_value value;
};
enum { BUCKETS = 512 };
struct front_scope {
  struct front_scope *above;
  struct graph *g;
  struct name *names;
  int n, cap, bucket[BUCKETS]; // first name of each bucket, plus 1
  struct loc opened;           // its `{`
  int *from;                   // tensors of the enclosing graph that iterators read, in order
  int nfrom, from_cap;
};

struct parser {
  struct lexer lex;
  struct token t, ahead; // the token to be read, and the one after it
  struct arena *mem;
  struct err *e;
  struct front_scope *scope; // innermost
  int depth;                 // nesting of expressions
  int tensors;               // built so far, in all graphs
  bool blocks;               // the text is a `graph`, in which block statements are allowed
  bool masks;                // padding of run-time extents is masked where it is read
  const char *text;          // the whole text, `size` bytes
  size_t size;
  struct loc world; // location of the `world` statement; line 0: there is none
};

int scope_define(struct parser *p, const struct token *id, const struct front_value *v);
int scope_value(struct parser *p, const struct token *id, struct front_value *v);                      // a name in an expression
int scope_rebind(struct parser *p, const struct token *id, int tensor);                                // the name means that tensor from here on
int scope_outer(struct parser *p, const struct token *id, int *tensor);                                // iter's first argument
int scope_name_results(struct parser *p, int n, const struct token *ids, const struct front_value *v); // `a, b = v`

// ---- near.c --------------------------------------------------------------------------------------
struct near {
  const char *word; // the mistyped name
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
bool number_neutral(enum op op, double *out); // neutral element of a reduction, from its row; it may be infinite
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
// A call with the given tensors; the parser is at the attributes and reads them up to the end.
int call_outside(struct parser *p, const struct token *id, int n, const int *tensors, struct front_value *v);
int call_add(struct parser *p, enum op op, int n, const int *in, const struct attrs *a, struct loc at, struct front_value *v);
// ---- extent.c: run-time extents
int extent_define(struct parser *p, int extent);                // defines the extent's name, if it has one, in the innermost scope
int extent_statement(struct parser *p, const struct token *id); // `n: dim >= 1 <= 4096`; the parser is at `dim`
// An extent: a number *out, with *runs 0; or a run-time extent with index *runs, from 1, and bound *out.
int expr_extent(struct parser *p, enum errid id, const char *what, int64_t lo, int64_t hi, int64_t *out, uint8_t *runs);
int extent_of(const struct parser *p, const struct front_value *v);           // index of the run-time extent that this value is; 0 for other values
int extent_runs(struct parser *p, int t, const uint8_t *runs, struct loc at); // sets the run-time extents of t's dimensions
// ---- masks.c
node_adder masks_add; // graph_add for programs with run-time extents
// ---- items.c: subscripts
int items_take(struct parser *p, struct front_value *v); // at the `[` after an expression
bool items_update_starts(struct parser *p);
int items_update(struct parser *p); // K[at] = y
bool block_starts(const struct parser *p);
int block_parse(struct parser *p, struct front_value *v);

// ---- entry.c
int model_parse(struct parser *p, int nset, const struct setting *set); // at `model`
const char *model_entry(int nset, const struct setting *set);           // the name of a setting `entry=`, or NULL

int parse_check_text(const char *text, size_t n, const char *file, struct err *e); // an error unless it is text of at most FRONT_BYTES
int parse_parameters(struct parser *p, int nset, const struct setting *set);
int parse_returned(struct parser *p, const struct token *id, struct loc end, bool returned);
int parse_statement(struct parser *p, bool *returned);
int parse_end(struct parser *p);                                           // the end of a statement
void parse_lines(struct parser *p);                                        // skips ends of lines
int parse_statements(struct parser *p, struct loc opened, bool *returned); // up to the `}`
int parse_bound(struct parser *p, int64_t *out);                           // a bound of a range, after its comparison sign
void parse_next(struct parser *p);
bool parse_take(struct parser *p, int kind);
int parse_expect(struct parser *p, int kind, const char *what);
int parse_close(struct parser *p, int kind, int opening, struct loc opened); // a closing bracket, such as `)`
int parse_unexpected(struct parser *p, const char *wanted);
int parse_duplicate(struct parser *p, struct loc at, const char *id, struct loc first);

#endif
