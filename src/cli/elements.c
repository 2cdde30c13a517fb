// Elements of device tensors, from and to doubles.
#include "cli/cli.h"

#include <string.h>

static float bf16_to_float(uint16_t x)
{
  uint32_t bits = (uint32_t)x << 16;
  float f;
  return memcpy(&f, &bits, 4), f;
}

static uint16_t float_to_bf16(float x)
{
  uint32_t bits;
  memcpy(&bits, &x, 4);
  if (x != x) return 0x7fc0;
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void cli_encode(enum dtype t, const double *x, void *to, int64_t n)
{
  for (int64_t i = 0; i < n; i++) switch (t) {
    case F16: ((_Float16 *)to)[i] = (_Float16)x[i]; break;
    case BF16: ((uint16_t *)to)[i] = float_to_bf16((float)x[i]); break;
    case F32:
    case DTYPES: ((float *)to)[i] = (float)x[i]; break;
    }
}

void cli_decode(enum dtype t, const void *from, double *x, int64_t n)
{
  for (int64_t i = 0; i < n; i++) switch (t) {
    case F16: x[i] = (double)((const _Float16 *)from)[i]; break;
    case BF16: x[i] = (double)bf16_to_float(((const uint16_t *)from)[i]); break;
    case F32:
    case DTYPES: x[i] = (double)((const float *)from)[i]; break;
    }
}
