// The nearest name to a mistyped one, by edit distance with swaps of neighbours. A name that differs too much gives no hint.
#include "front/parse.h"

#include <ctype.h>
#include <string.h>

enum { LONGEST = 32 };

static int distance(const char *a, const char *b)
{
  int na = (int)strlen(a), nb = (int)strlen(b), d[LONGEST + 1][LONGEST + 1];
  if (na > LONGEST || nb > LONGEST) return LONGEST;
  for (int i = 0; i <= na; i++) d[i][0] = i;
  for (int j = 0; j <= nb; j++) d[0][j] = j;
  for (int i = 1; i <= na; i++)
    for (int j = 1; j <= nb; j++) {
      int same = tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 1]);
      d[i][j] = MIN(MIN(d[i - 1][j], d[i][j - 1]) + 1, d[i - 1][j - 1] + !same);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) d[i][j] = MIN(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[na][nb];
}

struct near near_start(const char *word) { return (struct near){.word = word, .distance = MAX(2, (int)strlen(word) / 3 + 1)}; }

void near_try(struct near *n, const char *candidate)
{
  int d = distance(n->word, candidate);
  if (d < n->distance && d < (int)strlen(candidate)) n->distance = d, n->best = candidate;
}
