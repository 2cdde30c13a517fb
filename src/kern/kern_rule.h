// Shared by the rules (rule.def).
#ifndef MICA_KERN_RULE_H
#define MICA_KERN_RULE_H

#include "kern/kern.h"

// Rewrites a value whose operands are already in k. True: *out, a value of k, replaces it. False: the value stays.
typedef bool kern_rewriter(struct kern *k, const struct kern_value *v, int *out);
#define RULE(id, name, condition, doc) kern_rewriter rule_##name;
#include "kern/rule.def"
#undef RULE
bool rule_may_run(const struct kern *k);
bool rule_may_limit(const struct kern *k);

static inline bool kern_is_map(const struct kern_value *v, int op) { return v->kind == KERN_MAP && v->op == op; }

#endif
