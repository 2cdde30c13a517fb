#!/usr/bin/env bash
# The C compiler of candidates that several threads call at a time, for the thread sanitizer: it must see how they wait for each other. OpenMP is left
# out, because the sanitizer does not see the barriers of its library. tests/CMakeLists.txt chooses it for tests marked `threads call candidates`.
words=()
for word; do
  [ "$word" = -fopenmp ] || words+=("$word")
done
exec cc -fsanitize=thread "${words[@]}"
