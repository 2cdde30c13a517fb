// lsp: a language server for programs, graphs (.mica) and tile kernels (.tile): the Language Server Protocol, JSON-RPC over two streams.
// Positions in messages are lines and UTF-16 units from 0; offsets in texts are in bytes.
//
//   lsp_wire.c    messages of a stream: a header with the length, then JSON
//   lsp_text.c    open documents; positions to bytes and back; the word at an offset
//   lsp_check.c   diagnostics and formatting
//   lsp_hover.c   information on the word under the pointer
//   lsp_list.c    completion: operators, attributes, types, specs, names of the document
//   lsp_serve.c   requests, with a row for each method
#ifndef MICA_LSP_LSP_H
#define MICA_LSP_LSP_H

#include "base/doc.h"
#include "ir/ir.h"

#include <stdio.h>

struct lsp_document {
  char *uri, *text; // allocated with mem_lasting
  size_t n;
  struct lsp_document *next;
};
struct lsp_server {
  FILE *in, *out;
  struct lsp_document *documents;
  bool shut; // `shutdown` has been requested
};

// ---- lsp_wire.c ----
enum { LSP_BYTES = 1 << 24 }; // most bytes of a message
enum lsp_got { LSP_MESSAGE, LSP_END, LSP_BROKEN };
enum lsp_got lsp_read(FILE *in, char **body, size_t *n); // *body: allocated with malloc
int lsp_write(FILE *out, json_t *message);               // consumes the message; 0, or -1 if the stream is closed

// ---- lsp_text.c ----
const struct lsp_document *lsp_find(const struct lsp_server *s, const char *uri);
void lsp_open(struct lsp_server *s, const char *uri, const char *text); // replaces an older text of the same document
void lsp_close(struct lsp_server *s, const char *uri);
bool lsp_is_tile(const struct lsp_document *d);
size_t lsp_byte(const struct lsp_document *d, int64_t line, int64_t character); // clamped to the text
json_t *lsp_position(const struct lsp_document *d, size_t byte);
json_t *lsp_range(const struct lsp_document *d, size_t from, size_t to);
size_t lsp_place(const struct lsp_document *d, const struct loc *at); // the byte offset of an error or node
struct lsp_word {
  size_t from, to;
  char text[64]; // its first characters; "" if there is no word
};
struct lsp_word lsp_word_at(const struct lsp_document *d, size_t byte);
// The name before the bracket that encloses `byte`; "" outside of brackets.
struct lsp_word lsp_call_at(const struct lsp_document *d, size_t byte);

// ---- lsp_check.c, lsp_hover.c, lsp_list.c: results of requests, or NULL ----
json_t *lsp_diagnostics(const struct lsp_document *d);
json_t *lsp_hover(const struct lsp_document *d, size_t byte);
json_t *lsp_completion(const struct lsp_document *d, size_t byte);
json_t *lsp_formatting(const struct lsp_document *d);

// ---- lsp_serve.c ----
// Serves until the client ends. Returns OK; NO if it ended without `shutdown`; USER if the stream has no messages of the protocol.
int lsp_serve(FILE *in, FILE *out, struct err *e);

#endif
