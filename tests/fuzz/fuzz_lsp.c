// The language server: the bytes are all messages of a client.
#include "fuzz.h"
#include "lsp/lsp.h"

bool fuzz_lsp(const uint8_t *data, size_t n)
{
  struct err e = {0};
  if (!n) return true;
  FILE *in = fmemopen((void *)(uintptr_t)data, n, "r"), *out = fopen("/dev/null", "w");
  const int status = in && out ? lsp_serve(in, out, &e) : OK;
  if (in) fclose(in);
  if (out) fclose(out);
  return status == USER ? e.id == ERR_SYNTAX && *e.hint : (status == OK || status == NO) && e.id == ERR_NONE;
}
