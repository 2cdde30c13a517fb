// The sizes of products in the text of kernels. The support code calls a microkernel for each size, and a compiler optimizes all functions that are
// called before constants show which calls are dead. With M_PRODUCTS it sees only the functions that the products need: mica_cpu.h.
#include "gen/gen_driver.h"

#include <stdlib.h>
#include <string.h>

static const char SEPARATOR[] = " \\\n ";
enum { LISTED = 24 }; // more products need nearly all sizes

// The kinds of mica_cpu.h. Functions that have no microkernel of mica_cpu.h have no kind.
static const struct {
  const char *function, *kind;
} kinds[] = {{"m_product(", "GEMM"},     {"m_gemm(", "GEMM"},          {"m_gemm_packed(", "GEMM"}, {"m_gemm_stream(", "STREAM"},
             {"m_gemm_pairs(", "PAIRS"}, {"m_gemm_blocks(", "BLOCKS"}, {"m_gemm_words_", "WORDS"}, {"m_gemm_few_", NULL},
             {"m_gemm_bt(", NULL},       {"m_gemm_bt_", NULL}};

// The first two arguments: rows and columns. 0: it is not known how many.
static void arguments(const char *call, long long out[2])
{
  const char *at = strchr(call, '(') + 1;
  out[0] = out[1] = 0;
  for (int i = 0; i < 2; i++, at++) {
    char *end;
    out[i] = strtoll(at, &end, 10);
    if (end == at || *end != ',') out[i] = 0;
    if (!out[i]) return;
    at = end;
  }
}

void sizes_print(struct arena *mem, const char *kernels, struct str *source)
{
  struct str list = {0};
  bool known = true;
  int n = 0;
  for (const char *at = kernels; known && (at = strstr(at, "m_")); at++) {
    size_t i = 0;
    long long size[2];
    if (strncmp(at, "m_gemm", 6) && strncmp(at, "m_product", 9)) continue;
    while (i < COUNT(kinds) && strncmp(at, kinds[i].function, strlen(kinds[i].function))) i++;
    known = i < COUNT(kinds) && strchr(at, '(');
    if (!known || !kinds[i].kind) continue;
    arguments(at, size);
    // The number of columns of a streamed product is an expression. Its last part may end within a vector, as one column does.
    known = size[0] > 0 && (size[1] > 0 || !strcmp(kinds[i].kind, "STREAM"));
    const char *entry = arena_printf(mem, "%sX(%s, %lld, %lld, mr, nv)", SEPARATOR, kinds[i].kind, size[0], MAX(1, size[1]));
    if (!strstr(str_text(&list), entry)) str_add(&list, "%s", entry), n++;
  }
  if (known && n && n <= LISTED) str_add(source, "#define M_PRODUCTS(X, mr, nv)%s\n", str_text(&list));
  str_free(&list);
}
