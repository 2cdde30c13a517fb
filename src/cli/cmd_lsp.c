// mica lsp: the language server, on standard input and output.
#include "cli/cli.h"
#include "lsp/lsp.h"

int cmd_lsp(struct cli *c) { return lsp_serve(stdin, stdout, &c->err); }
