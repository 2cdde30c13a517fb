# mica_embed(FILES SYMBOL): a C source, made at build time, that defines `const char SYMBOL[]` with the text of the
# files one after the other, NUL-terminated. So the library carries its support header and needs no data folder at run time.
# The list `embedded_texts` collects the sources.
function(mica_embed files symbol)
  set(made ${CMAKE_BINARY_DIR}/${symbol}.c)
  list(TRANSFORM files PREPEND ${CMAKE_SOURCE_DIR}/)
  add_custom_command(OUTPUT ${made} DEPENDS ${files} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
    COMMAND ${CMAKE_COMMAND} "-DFROM=${files}" -DSYMBOL=${symbol} -DTO=${made} -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
    COMMENT "Embedding ${symbol}" VERBATIM)
  set(embedded_texts ${embedded_texts} ${made} PARENT_SCOPE)
endfunction()

# mica_fingerprint(FOLDER OUT DEPENDS files...): a C source that defines `const char build_fingerprint[]`.
function(mica_fingerprint folder out)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" DEPENDS)
  set(made ${CMAKE_BINARY_DIR}/build_fingerprint.c)
  add_custom_command(OUTPUT ${made} DEPENDS ${arg_DEPENDS} ${CMAKE_SOURCE_DIR}/cmake/fingerprint.cmake
    COMMAND ${CMAKE_COMMAND} -DFROM=${CMAKE_SOURCE_DIR}/${folder} -DTO=${made}
            -P ${CMAKE_SOURCE_DIR}/cmake/fingerprint.cmake
    COMMENT "Hashing the sources" VERBATIM)
  set(${out} ${made} PARENT_SCOPE)
endfunction()
