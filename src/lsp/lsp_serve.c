// Requests and notifications, with a row for each method. Each is served under its own guard: if it is invalid or runs out of memory, it is
// answered with an error, and the next one is served.
#include "lsp/lsp.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { PARSE_ERROR = -32700, INVALID_REQUEST = -32600, NO_METHOD = -32601, INVALID_PARAMS = -32602 };

// ---- parameters ----

static const json_t *at(const json_t *o, const char *a, const char *b) { return json_object_get(json_object_get(o, a), b); }
static const char *uri_of(const json_t *params) { return json_string_value(at(params, "textDocument", "uri")); }

// The document of a request, and the byte of its position.
static const struct lsp_document *document(const struct lsp_server *s, const json_t *params, size_t *byte)
{
  const struct lsp_document *d = lsp_find(s, uri_of(params));
  if (d) *byte = lsp_byte(d, json_integer_value(at(params, "position", "line")), json_integer_value(at(params, "position", "character")));
  return d;
}

// ---- methods ----

static json_t *initialize(struct lsp_server *s, const json_t *params)
{
  (void)s, (void)params;
  return json_pack("{s:{s:i, s:b, s:b, s:{s:[s, s, s]}}, s:{s:s}}", "capabilities", "textDocumentSync", 1, "hoverProvider", 1,
                   "documentFormattingProvider", 1, "completionProvider", "triggerCharacters", "(", ",", " ", "serverInfo", "name", "mica");
}

static json_t *shutdown_asked(struct lsp_server *s, const json_t *params)
{
  (void)params;
  return s->shut = true, NULL;
}

static json_t *hover(struct lsp_server *s, const json_t *params)
{
  size_t byte;
  const struct lsp_document *d = document(s, params, &byte);
  return d ? lsp_hover(d, byte) : NULL;
}

static json_t *completion(struct lsp_server *s, const json_t *params)
{
  size_t byte;
  const struct lsp_document *d = document(s, params, &byte);
  return d ? lsp_completion(d, byte) : NULL;
}

static json_t *formatting(struct lsp_server *s, const json_t *params)
{
  size_t byte;
  const struct lsp_document *d = document(s, params, &byte);
  return d ? lsp_formatting(d) : NULL;
}

static void publish(struct lsp_server *s, const char *uri, json_t *list)
{
  lsp_write(s->out, json_pack("{s:s, s:s, s:{s:s, s:o}}", "jsonrpc", "2.0", "method", "textDocument/publishDiagnostics", "params", "uri", uri,
                              "diagnostics", list));
}

static void take(struct lsp_server *s, const char *uri, const char *text)
{
  if (!uri || !text) return;
  lsp_open(s, uri, text);
  publish(s, uri, lsp_diagnostics(lsp_find(s, uri)));
}

static json_t *did_open(struct lsp_server *s, const json_t *params)
{
  return take(s, uri_of(params), json_string_value(at(params, "textDocument", "text"))), NULL;
}

static json_t *did_change(struct lsp_server *s, const json_t *params)
{
  const json_t *changes = json_object_get(params, "contentChanges"); // each has the whole text; the last one is the newest
  const size_t n = json_array_size(changes);
  const json_t *last = n ? json_array_get(changes, n - 1) : NULL;
  if (lsp_find(s, uri_of(params)) && !json_object_get(last, "range")) take(s, uri_of(params), json_string_value(json_object_get(last, "text")));
  return NULL;
}

static json_t *did_close(struct lsp_server *s, const json_t *params)
{
  const char *uri = uri_of(params);
  if (!lsp_find(s, uri)) return NULL;
  publish(s, uri, json_array());
  return lsp_close(s, uri), NULL;
}

static const struct lsp_method {
  const char *name;
  json_t *(*serve)(struct lsp_server *s, const json_t *params); // the result of a request; NULL stands for null
  bool places;                                                  // its parameters must name a document
} methods[] = {
    {"initialize", initialize, false},
    {"shutdown", shutdown_asked, false},
    {"textDocument/didOpen", did_open, true},
    {"textDocument/didChange", did_change, true},
    {"textDocument/didClose", did_close, true},
    {"textDocument/hover", hover, true},
    {"textDocument/completion", completion, true},
    {"textDocument/formatting", formatting, true},
};

// ---- messages ----

static int answer(const struct lsp_server *s, const json_t *id, json_t *result)
{
  return lsp_write(s->out, json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "result", result ? result : json_null()));
}

static int refuse(const struct lsp_server *s, const json_t *id, int code, const char *why)
{
  return lsp_write(s->out,
                   json_pack("{s:s, s:O, s:{s:i, s:s}}", "jsonrpc", "2.0", "id", id ? id : json_null(), "error", "code", code, "message", why));
}

static int request(struct lsp_server *s, const char *method, const json_t *id, const json_t *params)
{
  for (size_t i = 0; i < COUNT(methods); i++) {
    if (strcmp(methods[i].name, method)) continue;
    if (methods[i].places && !uri_of(params)) return id ? refuse(s, id, INVALID_PARAMS, "the parameters name no document") : 0;
    json_t *result = methods[i].serve(s, params);
    if (id) return answer(s, id, result);
    return json_decref(result), 0;
  }
  return id ? refuse(s, id, NO_METHOD, "mica lsp has no such method") : 0;
}

static bool is_id(const json_t *id) { return json_is_string(id) || json_is_integer(id); }

// Serves a message. False: the client has sent `exit` or closed the stream.
static bool message(struct lsp_server *s, const json_t *m)
{
  const json_t *id = json_object_get(m, "id");
  const char *method = json_string_value(json_object_get(m, "method"));
  if (!json_is_object(m) || (id && !is_id(id))) return !refuse(s, NULL, INVALID_REQUEST, "a message is an object, and its id a string or an integer");
  if (!method)
    return id && (json_object_get(m, "result") || json_object_get(m, "error")) ? true : !refuse(s, id, INVALID_REQUEST, "there is no method");
  if (!strcmp(method, "exit")) return false;
  if (s->shut) return id ? !refuse(s, id, INVALID_REQUEST, "the server is shut down") : true;
  return !request(s, method, id, json_object_get(m, "params"));
}

static const char no_memory[] = "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32603,\"message\":\"there is no memory for it\"}}";

static bool guarded(struct lsp_server *s, const char *body, size_t n)
{
  struct guard g;
  volatile bool more = true;
  guard_open(&g);
  if (!setjmp(g.back)) {
    json_error_t why;
    json_t *m = json_loadb(body, n, 0, &why);
    more = m ? message(s, m) : !refuse(s, NULL, PARSE_ERROR, why.text);
    json_decref(m);
    guard_leave(&g);
  } else {
    guard_fail(&g);
    more = fprintf(s->out, "Content-Length: %zu\r\n\r\n%s", strlen(no_memory), no_memory) >= 0 && !fflush(s->out);
  }
  return more;
}

int lsp_serve(FILE *in, FILE *out, struct err *e)
{
  struct lsp_server s = {.in = in, .out = out};
  enum lsp_got got;
  char *body;
  size_t n;
  bool more = true;
  while (more && (got = lsp_read(in, &body, &n)) == LSP_MESSAGE) {
    more = guarded(&s, body, n);
    free(body);
  }
  while (s.documents) lsp_close(&s, s.documents->uri);
  if (more && got == LSP_BROKEN)
    return err_set(e, ERR_SYNTAX, NOWHERE, "standard input has no message of the Language Server Protocol"),
           err_hint(e, "an editor starts `mica lsp`; a message is Content-Length: N, an empty line and N bytes of JSON, at most %d", LSP_BYTES),
           (int)e->status;
  return s.shut ? OK : NO;
}
