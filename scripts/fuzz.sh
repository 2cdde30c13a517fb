#!/usr/bin/env bash
# Fuzzes one way into Mica by libFuzzer with the address, leak and undefined-behaviour sanitizers: scripts/fuzz.sh TARGET
# SECONDS [JOBS]. Targets are the rows of tests/fuzz/targets.def. The corpus grows in build-fuzz/TARGET/corpus and begins with the target's seeds;
# the dictionary is made of the names of op.def and attr.def and the tables beside them. Inputs that break the reader lie in
# build-fuzz/TARGET/found; put such a file into tests/fuzz/found/TARGET/ with its fix, and the tests replay it.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:?which target? tests/fuzz/targets.def lists them} seconds=${2:-3600} jobs=${3:-1}
CLANG=${CLANG:-clang}
command -v "$CLANG" >/dev/null || { echo "fuzz: clang is missing" >&2; echo "  hint: apt-get install clang, or set CLANG" >&2; exit 3; }
seeds=$(sed -n "s/^FUZZ($target, \"\(.*\)\")$/\1/p" tests/fuzz/targets.def)
[ -n "$seeds" ] || { echo "fuzz: there is no target $target" >&2; sed -n 's/^FUZZ(\([a-z_]*\),.*/  \1/p' tests/fuzz/targets.def >&2; exit 2; }

folder=build-fuzz/$target
mkdir -p "$folder/corpus" "$folder/found"
for seed in $seeds; do cp -n "$seed" "$folder/corpus/$(basename "$seed")"; done

# The words of tables: a name is what stands second in a row, or the word in quotes.
words() {
  sed -n 's/^[A-Z]*(\([A-Za-z_]*\), *\([A-Za-z_0-9]*\).*/\1\n\2/p' src/ir/op.def src/ir/attr.def
  sed -n 's/^\(ONNX\|MICROSOFT\|SIMPLE\)(\([A-Za-z]*\),.*/\2/p; s/^\(WRITTEN\|OTHER\)("\(.*\)", \([A-Za-z]*\),.*/\2\n\3/p' src/onnx/node.def src/onnx/simple.def 2>/dev/null || true
  grep -oh '"[a-zA-Z_]\{2,24\}"' src/ir/json_read.c src/front/mirage.c src/onnx/*.c 2>/dev/null | tr -d '"' || true
  printf '%s\n' program graph block thread return inf f16 bf16 f32 'imap={x:0}' 'fmap={i:1}' '(; i=4)'
}
words | sed '/^$/d' | sort -u | sed 's/["\\]/\\&/g; s/.*/"&"/' >"$folder/words.dict"

flags=(-std=gnu17 -O1 -g -D_GNU_SOURCE -DMICA_FUZZ="fuzz_$target" -DMICA_VERSION=\"fuzz\" -Isrc -Iinclude -Itests/fuzz
       -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
components=(base ir front eval onnx target tile lsp mega)
sources=(tests/fuzz/fuzz_*.c)
for component in "${components[@]}"; do sources+=(src/"$component"/*.c); done
read -ra libraries <<<"$(pkg-config --cflags --libs jansson libxxhash)"
echo "fuzz: building $folder/fuzz"
"$CLANG" "${flags[@]}" "${sources[@]}" -o "$folder/fuzz" "${libraries[@]}" -lpthread -lm

echo "fuzz: $target for $seconds seconds"
UBSAN_OPTIONS=print_stacktrace=1 "$folder/fuzz" "$folder/corpus" -dict="$folder/words.dict" -artifact_prefix="$folder/found/" \
  -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=16384 -print_final_stats=1 -fork="$jobs" \
  -ignore_crashes=0 2>&1 | tee "$folder/log.txt" | grep -v NEW_FUNC | tail -40
