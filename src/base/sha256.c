// SHA-256 (FIPS 180-4), and HMAC with it (RFC 2104): checksums of files that are saved, and keyed ones of what a database holds.
#include "base/own.h"

#include <string.h>

enum { BLOCK = 64 };

static const uint32_t k[BLOCK] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turn(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void block(uint32_t h[8], const uint8_t *p)
{
  uint32_t w[BLOCK], v[8];
  for (int i = 0; i < 16; i++) w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
  for (int i = 16; i < BLOCK; i++) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[i - 7] + (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
  }
  memcpy(v, h, sizeof v);
  for (int i = 0; i < BLOCK; i++) {
    const uint32_t a = v[0], e = v[4];
    const uint32_t one = v[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & v[5]) ^ (~e & v[6])) + k[i] + w[i];
    const uint32_t two = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
    memmove(v + 1, v, 7 * sizeof *v);
    v[4] += one, v[0] = one + two;
  }
  for (int i = 0; i < 8; i++) h[i] += v[i];
}

void sha256_open(struct sha256 *s)
{
  *s = (struct sha256){.h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void sha256_add(struct sha256 *s, const void *p, size_t n)
{
  const uint8_t *from = p;
  for (size_t have = s->n % BLOCK, part; n; from += part, n -= part, have = s->n % BLOCK) {
    part = MIN(n, BLOCK - have);
    memcpy(s->rest + have, from, part);
    s->n += part;
    if (have + part == BLOCK) block(s->h, s->rest);
  }
}

void sha256_close(struct sha256 *s, uint8_t out[SHA256])
{
  const uint64_t bits = 8 * s->n;
  const size_t zeros = (2 * BLOCK - 9 - s->n % BLOCK) % BLOCK;
  uint8_t end[2 * BLOCK] = {0x80};
  for (size_t i = 0; i < 8; i++) end[1 + zeros + i] = (uint8_t)(bits >> (56 - 8 * i));
  sha256_add(s, end, 9 + zeros);
  for (size_t i = 0; i < SHA256; i++) out[i] = (uint8_t)(s->h[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256_text(const void *p, size_t n, char out[2 * SHA256 + 1])
{
  struct sha256 s;
  uint8_t sum[SHA256];
  sha256_open(&s), sha256_add(&s, p, n), sha256_close(&s, sum);
  for (int i = 0; i < SHA256; i++) snprintf(out + 2 * i, 3, "%02x", sum[i]);
}

// ---- with a key ----

static void padded(struct sha256 *s, const uint8_t key[SHA256], uint8_t with)
{
  uint8_t pad[BLOCK];
  memset(pad, with, sizeof pad);
  for (int i = 0; i < SHA256; i++) pad[i] ^= key[i];
  sha256_open(s), sha256_add(s, pad, sizeof pad);
}

void hmac_open(struct sha256 *s, const uint8_t key[SHA256]) { padded(s, key, 0x36); }

// Its length goes ahead of each piece, so that the same bytes cut elsewhere are something else.
void hmac_add(struct sha256 *s, const void *p, size_t n)
{
  const uint64_t length = n;
  sha256_add(s, &length, sizeof length);
  if (n) sha256_add(s, p, n);
}

void hmac_close(struct sha256 *s, const uint8_t key[SHA256], uint8_t out[SHA256])
{
  uint8_t inner[SHA256];
  sha256_close(s, inner);
  padded(s, key, 0x5c);
  sha256_add(s, inner, sizeof inner), sha256_close(s, out);
}
