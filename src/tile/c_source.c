// Names in generated code. Names of tensors and variables come from users' files and may be any text. Characters other than letters, digits and _ are
// replaced. A name that C++, the prelude, an instruction's text or an earlier declaration uses gets a number. Words of instructions are read from
// their texts, so no list of them is kept.
#include "tile/c_source.h"

#include <ctype.h>
#include <string.h>

enum { OWN = 48 }; // characters of a user's name that are kept

// Keywords of C++17, what NVRTC defines without a header, macros of compilers, the prelude's types.
static const char *const reserved[] = {"alignas",   "alignof",   "and",      "and_eq",    "asm",          "auto",          "bitand",
                                       "bitor",     "bool",      "break",    "case",      "catch",        "char",          "char16_t",
                                       "char32_t",  "class",     "compl",    "const",     "const_cast",   "constexpr",     "continue",
                                       "decltype",  "default",   "delete",   "do",        "double",       "dynamic_cast",  "else",
                                       "enum",      "explicit",  "export",   "extern",    "false",        "float",         "for",
                                       "friend",    "goto",      "if",       "inline",    "int",          "long",          "mutable",
                                       "namespace", "new",       "noexcept", "not",       "not_eq",       "nullptr",       "operator",
                                       "or",        "or_eq",     "private",  "protected", "public",       "register",      "reinterpret_cast",
                                       "return",    "short",     "signed",   "sizeof",    "static",       "static_assert", "static_cast",
                                       "struct",    "switch",    "template", "this",      "thread_local", "throw",         "true",
                                       "try",       "typedef",   "typeid",   "typename",  "typeof",       "union",         "unsigned",
                                       "using",     "virtual",   "void",     "volatile",  "wchar_t",      "while",         "xor",
                                       "xor_eq",    "threadIdx", "blockIdx", "blockDim",  "gridDim",      "warpSize",      "dim3",
                                       "min",       "max",       "abs",      "exp",       "log",          "sqrt",          "clock",
                                       "printf",    "malloc",    "free",     "memcpy",    "memset",       "assert",        "main",
                                       "std",       "unix",      "linux",    "NULL",      "NAN",          "INFINITY",      "u8",
                                       "u16",       "u32",       "u64",      "i64",       "uint64_t",     "uint2",         "uint4",
                                       "float2"};

bool c_says(const char *text, const char *word)
{
  size_t n = strlen(word);
  for (const char *at = text; (at = strstr(at, word)); at += n) {
    bool starts = at == text || !(isalnum((unsigned char)at[-1]) || at[-1] == '_' || at[-1] == '$'); // $n is an operand
    bool ends = !(isalnum((unsigned char)at[n]) || at[n] == '_');
    if (starts && ends) return true;
  }
  return false;
}

static bool used(const struct c_source *w, const char *name)
{
  bool compilers = strstr(name, "__") || (name[0] == '_' && isupper((unsigned char)name[1]));
  if (compilers || !strncmp(name, "mica_", 5)) return true;
  for (size_t i = 0; i < COUNT(reserved); i++)
    if (!strcmp(reserved[i], name)) return true;
  for (int i = 0; i < w->ntaken; i++)
    if (!strcmp(w->taken[i], name)) return true;
  int n;
  const struct instr *rows = instr_rows(&n);
  for (int i = 0; i < n; i++)
    if (strncmp(rows[i].text, "asm", 3) && c_says(rows[i].text, name)) return true;
  return false;
}

const char *c_name(struct c_source *w, const char *own, const char *or_else)
{
  char word[OWN + 2];
  size_t n = 0;
  for (; own && *own && n < OWN; own++) {
    char c = isalnum((unsigned char)*own) && (unsigned char)*own < 128 ? *own : '_';
    if (c == '_' && n && word[n - 1] == '_') continue; // double underscores are reserved for the compiler
    word[n++] = c;
  }
  word[n] = 0;
  bool letters = false;
  for (size_t i = 0; i < n; i++) letters |= isalnum((unsigned char)word[i]);
  const char *name = letters ? word : or_else;
  if (isdigit((unsigned char)*name)) name = arena_printf(w->mem, "%c%s", *or_else, name);
  const char *stem = *name == '_' || !strncmp(name, "mica_", 5) ? arena_printf(w->mem, "x%s", name) : name;
  const char *gap = isdigit((unsigned char)stem[strlen(stem) - 1]) ? "_" : "";
  for (int i = 2; used(w, name); i++) name = arena_printf(w->mem, "%s%s%d", stem, gap, i);
  name = arena_strdup(w->mem, name);
  PUSH(w->mem, w->taken, w->ntaken, w->taken_cap) = name;
  return name;
}

enum { COLUMNS = 120 };

static void indent(struct c_source *w, int more)
{
  for (int i = 0; i < w->depth + more; i++) str_raw(w->out, "  ", 2);
}

// The position at which a long line is broken: the last space outside of quotes after a comma or similar that is not too far to the right; if there
// is none, the first one. 0: no position.
static size_t break_at(const char *text, size_t room)
{
  size_t best = 0;
  bool quoted = false;
  for (size_t i = 0; text[i] && (i < room || !best); i++) {
    if (text[i] == '"' && (i == 0 || text[i - 1] != '\\')) quoted = !quoted;
    if (!quoted && text[i] == ' ' && i && strchr(",=:;{", text[i - 1])) best = i;
  }
  return best;
}

static void wrapped(struct c_source *w, const char *text)
{
  bool whole = *text == '#' || !strncmp(text, "//", 2);
  for (int more = 0;; more = 2) {
    indent(w, *text ? more : 0);
    size_t room = (size_t)MAX(COLUMNS - 2 * (w->depth + more), 40), cut = whole || strlen(text) <= room ? 0 : break_at(text, room);
    str_raw(w->out, text, cut ? cut : strlen(text));
    str_raw(w->out, "\n", 1);
    if (!cut) return;
    text += cut + 1;
  }
}

void c_line(struct c_source *w, const char *fmt, ...)
{
  char small[512], *text = small;
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(small, sizeof small, fmt, ap);
  va_end(ap);
  if (n >= (int)sizeof small) {
    text = arena_alloc(w->mem, (size_t)n + 1);
    va_start(ap, fmt);
    vsnprintf(text, (size_t)n + 1, fmt, ap);
    va_end(ap);
  }
  wrapped(w, text);
}

// A line comment ends with its line; a backslash at its end would continue it.
void c_comment(struct c_source *w, const char *text)
{
  char *safe = arena_strdup(w->mem, text);
  for (char *c = safe; *c; c++)
    if ((unsigned char)*c < 32 || *c == 127 || *c == '\\' || *c == '?') *c = ' ';
  c_line(w, "// %s", safe);
}
