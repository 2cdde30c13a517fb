// lsp: a language server for programs, graphs (.mica) and tile kernels (.tile): JSON-RPC over two streams, as editors speak it. Positions
// in messages count lines and UTF-16 units from 0; places in texts are bytes.
//
//   lsp_wire.c    messages of a stream: a head with the length, then JSON
//   lsp_text.c    open documents; positions to bytes and back; the word at a place
//   lsp_check.c   what is wrong with a document
//   lsp_hover.c   what is known of the word under the pointer
//   lsp_list.c    completion: operators, attributes, types, specs, names of the document
//   lsp_serve.c   requests, a row a method
#ifndef MICA_LSP_LSP_H
#define MICA_LSP_LSP_H

#include "base/doc.h"
#include "ir/ir.h"

#include <stdio.h>

struct lsp_document {
  char *uri, *text; // lasting
  size_t n;
  struct lsp_document *next;
};
struct lsp_server {
  FILE *in, *out;
  struct lsp_document *documents;
  bool shut; // `shutdown` was asked for
};

// ---- lsp_wire.c ----
enum { LSP_BYTES = 1 << 24 }; // of a message at most
enum lsp_got { LSP_MESSAGE, LSP_END, LSP_BROKEN };
enum lsp_got lsp_read(FILE *in, char **body, size_t *n); // *body: of malloc
int lsp_write(FILE *out, json_t *message);               // takes the message; 0, or -1 where nobody reads

// ---- lsp_text.c ----
const struct lsp_document *lsp_find(const struct lsp_server *s, const char *uri);
void lsp_open(struct lsp_server *s, const char *uri, const char *text); // or in place of the older text
void lsp_close(struct lsp_server *s, const char *uri);
bool lsp_is_tile(const struct lsp_document *d);
size_t lsp_byte(const struct lsp_document *d, int64_t line, int64_t character); // within the text, whatever is asked for
json_t *lsp_position(const struct lsp_document *d, size_t byte);
json_t *lsp_range(const struct lsp_document *d, size_t from, size_t to);
size_t lsp_place(const struct lsp_document *d, const struct loc *at); // the byte of a place of an error or node
struct lsp_word {
  size_t from, to;
  char text[64]; // its beginning; "" where there is none
};
struct lsp_word lsp_word_at(const struct lsp_document *d, size_t byte);
// The name before the bracket that `byte` is in, "" outside of brackets.
struct lsp_word lsp_call_at(const struct lsp_document *d, size_t byte);

// ---- lsp_check.c, lsp_hover.c, lsp_list.c: results of requests, or NULL ----
json_t *lsp_diagnostics(const struct lsp_document *d);
json_t *lsp_hover(const struct lsp_document *d, size_t byte);
json_t *lsp_completion(const struct lsp_document *d, size_t byte);
json_t *lsp_formatting(const struct lsp_document *d);

// ---- lsp_serve.c ----
// Serves until the client ends. OK, or NO where it ended without `shutdown`; USER where the stream has no messages.
int lsp_serve(FILE *in, FILE *out, struct err *e);

#endif
