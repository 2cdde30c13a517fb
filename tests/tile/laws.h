// laws: the postconditions of the layout algebra (src/tile/lay_algebra.c), checked for every coordinate. The layouts are all those of one and two modes
// with small extents and strides, and random nested ones.
#ifndef LAWS_H
#define LAWS_H

enum law { COALESCE, COMPOSE, COMPLEMENT, DIVIDE, ZIPPED, PRODUCT, RIGHT_INVERSE, LEFT_INVERSE, TILE, LAWS };
struct tally {
  long cases[LAWS], held[LAWS]; // asked, and not refused
};
// Every step-th pair of the small layouts, from the first-th on.
void laws_of_pairs(long first, long step, struct tally *t);
void laws_of_random(long n, struct tally *t);

#endif
