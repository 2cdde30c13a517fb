// Random numbers for sampling, computed with integers, so they are the same on every machine. The text is C and also a part of the CUDA source.
#ifndef NOISE
#define NOISE static inline
#endif
typedef unsigned long long noise_word;

NOISE noise_word noise_high(noise_word a, noise_word b) // the upper half of the product
{
#ifdef __CUDA_ARCH__
  return __umul64hi(a, b);
#else
  return (noise_word)((unsigned __int128)a * b >> 64);
#endif
}

NOISE noise_word noise_mix(noise_word x)
{
  x ^= x >> 30, x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27, x *= 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

// log2(x) of x > 0, rounded down to this number of binary digits after the point, by squaring the mantissa.
NOISE noise_word noise_log2(noise_word x, int digits)
{
  noise_word whole = 63, log = 0;
  while (!(x >> 63)) x <<= 1, whole--;
  for (int i = 0; i < digits; i++) {
    x = noise_high(x, x);
    log <<= 1;
    if (x >> 63)
      log |= 1;
    else
      x <<= 1;
  }
  return (whole << digits) + log;
}

// -log(-log(u)) except for a constant, with u between 0 and 1 from seed, position and token. The largest sum of a logit and this noise is a sample.
NOISE float noise_gumbel(noise_word seed, noise_word position, noise_word token)
{
  noise_word u = noise_mix(noise_mix(noise_mix(seed) + position * 0x9e3779b97f4a7c15ull) + token * 0xd1342543de82ef95ull) | 1;
  noise_word e = (64ull << 40) - noise_log2(u, 40); // -log2(u), 40 digits
  int g = (int)((40ll << 20) - (long long)noise_log2(e, 20));
  return (float)g * (0.6931471805599453f / (1 << 20));
}

// A settings row: inverse temperature (0: take the largest logit), number of largest logits to choose from (0: all), the seed in words of 16 bits.
enum { NOISE_INVERSE, NOISE_TOP, NOISE_SEED, NOISE_SETTINGS = NOISE_SEED + 4 };

NOISE noise_word noise_seed(const float *settings)
{
  noise_word s = 0;
  for (int i = 0; i < 4; i++) s = s << 16 | (noise_word)settings[NOISE_SEED + i];
  return s;
}

NOISE float noise_key(float logit, const float *settings, noise_word position, noise_word token)
{
  if (!(settings[NOISE_INVERSE] > 0)) return logit;
  return fmaf(logit, settings[NOISE_INVERSE], noise_gumbel(noise_seed(settings), position, token));
}
