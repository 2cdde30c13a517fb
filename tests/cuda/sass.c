// Since sm_70 an instruction has 16 bytes. Its lowest 9 bits are the operation, independent of operands.
#include "sass.h"

#include <elf.h>
#include <string.h>

static bool integer(unsigned op)
{
  static const unsigned ops[] = {0x00c /* ISETP */,  0x010 /* IADD3 */, 0x011 /* LEA */,   0x012 /* LOP3 */,  0x017 /* IMNMX */,  0x019 /* SHF */,
                                 0x024 /* IMAD */,   0x025 /* wide */,  0x027 /* high */,  0x036 /* VIADD */, 0x048 /* VIMNMX */, 0x08c /* UISETP */,
                                 0x090 /* UIADD3 */, 0x091 /* ULEA */,  0x092 /* ULOP3 */, 0x099 /* USHF */,  0x0a4 /* UIMAD */,  0x0a5 /* wide */};
  for (size_t i = 0; i < COUNT(ops); i++)
    if (ops[i] == op) return true;
  return false;
}

struct sass sass_count(const struct cubin *c)
{
  enum { NOP = 0x118, LDG = 0x181, LDGSTS = 0x1ae, ACQBULK = 0x02e };
  struct sass s = {-1, -1, 0, 0};
  const char *bytes = c->bytes;
  const Elf64_Ehdr *h = c->bytes;
  if (c->n < sizeof *h || memcmp(h->e_ident, ELFMAG, SELFMAG)) return s;
  const Elf64_Shdr *sections = (const void *)(bytes + h->e_shoff);
  const char *names = bytes + sections[h->e_shstrndx].sh_offset;
  for (int i = 0; i < h->e_shnum; i++) {
    if (strncmp(names + sections[i].sh_name, ".text.", 6)) continue;
    s.all = s.integer = 0;
    for (size_t at = 0; at + 16 <= sections[i].sh_size; at += 16) {
      uint64_t word, high;
      memcpy(&word, bytes + sections[i].sh_offset + at, sizeof word);
      memcpy(&high, bytes + sections[i].sh_offset + at + 8, sizeof high);
      unsigned op = word & 0x1ff;
      if (op == NOP) continue;
      bool zero = (word >> 24 & 0xff) == 0xff && (word >> 32 & 0xff) == 0xff, carry = high >> 10 & 1;
      bool move = op == 0x024 && zero && !carry; // IMAD.MOV: 0 * 0 + x; IMAD.X adds a carry to it
      s.all++, s.integer += integer(op) && !move;
      s.waits += op == ACQBULK, s.early += (op == LDG || op == LDGSTS) && !s.waits;
    }
    return s;
  }
  return s;
}
