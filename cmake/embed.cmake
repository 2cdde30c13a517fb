# Run at build time by mica_embed: bytes, not a string literal, so that nothing needs escaping.
set(bytes "")
foreach(file IN LISTS FROM)
  file(READ ${file} more HEX)
  string(APPEND bytes "${more}")
endforeach()
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${TO} "extern const char ${SYMBOL}[];\nconst char ${SYMBOL}[] = {\n${bytes}0};\n")
