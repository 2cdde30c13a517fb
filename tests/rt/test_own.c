// Checksums, with the examples of FIPS 180-4 and RFC 4231, and files that are written atomically.
#include "base/own.h"
#include "folder.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void sums(void **state)
{
  (void)state;
  static const struct {
    const char *text, *sum;
  } rows[] = {{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
              {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
              {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"}};
  char text[2 * SHA256 + 1];
  for (size_t i = 0; i < COUNT(rows); i++) {
    sha256_text(rows[i].text, strlen(rows[i].text), text);
    assert_string_equal(text, rows[i].sum);
  }
}

// In pieces of any size it is the same: a million times "a".
static void in_pieces(void **state)
{
  (void)state;
  struct sha256 s;
  char piece[257];
  uint8_t sum[SHA256];
  memset(piece, 'a', sizeof piece);
  sha256_open(&s);
  for (size_t left = 1000000, n = 1; left; left -= n) n = MIN(left, (n * 7 + 3) % sizeof piece), sha256_add(&s, piece, n);
  sha256_close(&s, sum);
  static const uint8_t known[] = {0xcd, 0xc7, 0x6e, 0x5c, 0x99, 0x14, 0xfb, 0x92};
  assert_memory_equal(sum, known, sizeof known);
}

static void with_a_key(void **state)
{
  (void)state;
  struct sha256 s;
  uint8_t key[SHA256] = {0x4a, 0x65, 0x66, 0x65}, sum[SHA256], other[SHA256]; // "Jefe", filled up with zeros
  static const uint8_t known[] = {0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e};
  hmac_open(&s, key), sha256_add(&s, "what do ya want for nothing?", 28), hmac_close(&s, key, sum);
  assert_memory_equal(sum, known, sizeof known);
  hmac_open(&s, key), hmac_add(&s, "ab", 2), hmac_add(&s, "c", 1), hmac_close(&s, key, sum);
  hmac_open(&s, key), hmac_add(&s, "a", 1), hmac_add(&s, "bc", 2), hmac_close(&s, key, other);
  assert_memory_not_equal(sum, other, sizeof sum);
}

static void made_once(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  char real[OWN_PATH], *text;
  int fd;
  size_t n;
  assert_int_equal(own_folder(arena_printf(&mem, "%s/a/../a/./b", folder), false, &fd, real, &e), ENV);
  assert_int_equal(e.id, ERR_FILE);
  e = (struct err){0};
  if (own_folder(arena_printf(&mem, "%s/a/b", folder), true, &fd, real, &e)) fail_msg("%s", e.text);
  assert_string_equal(real, arena_printf(&mem, "%s/a/b", folder));
  assert_int_equal(own_create(fd, "x", "one", 3, &e), OK);
  assert_int_equal(own_create(fd, "x", "two", 3, &e), NO);
  close(fd);
  assert_int_equal(file_read(&mem, arena_printf(&mem, "%s/a/b/x", folder), &text, &n, &e), OK);
  assert_string_equal(text, "one");
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(sums), cmocka_unit_test(in_pieces), cmocka_unit_test(with_a_key), cmocka_unit_test(made_once)};
  return cmocka_run_group_tests(tests, folder_enter, folder_leave);
}
