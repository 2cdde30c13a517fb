# Compiler flags of everything in the tree. Contraction into fused multiply-adds is off, so that the interpreter
# gives the same bits on every machine; generated kernels have flags of their own (gen_flags).
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_C_FLAGS_RELEASE "-O3 -DNDEBUG")
set(CMAKE_C_FLAGS_DEBUG "-O1 -g")

set(MICA_FLAGS -Wall -Wextra -Wshadow -Wswitch-enum -Wmissing-prototypes -Wvla -Wno-missing-field-initializers
    -Wno-format-zero-length -ffp-contract=off)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU") # guesses of gcc's optimizer that differ from level to level and see errors where there are none
  list(APPEND MICA_FLAGS -Wno-maybe-uninitialized -Wno-format-truncation -Wno-restrict)
endif()
if(MICA_WERROR)
  list(APPEND MICA_FLAGS -Werror)
endif()
set(MICA_ARCH)
if(MICA_NATIVE)
  include(CheckCCompilerFlag)
  check_c_compiler_flag(-march=native MICA_HAS_MARCH)
  if(MICA_HAS_MARCH)
    set(MICA_ARCH -march=native)
  endif()
endif()

# Rates are measured with the widest vectors of the processor at hand, whatever Mica itself is compiled for.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(src/target/rates_avx2.c PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
  set_source_files_properties(src/target/rates_avx512.c PROPERTIES COMPILE_OPTIONS "-mavx512f;-mavx2;-mfma;-mf16c")
  set_source_files_properties(src/target/rates_bf16.c PROPERTIES COMPILE_OPTIONS "-mavx512bf16;-mavx512f;-mavx2;-mfma;-mf16c")
  set_source_files_properties(src/target/rates_amx.c PROPERTIES COMPILE_OPTIONS "-mamx-tile;-mamx-bf16;-mavx512bf16;-mavx512f;-mavx2;-mfma;-mf16c")
endif()

if(MICA_SANITIZE)
  set(CMAKE_C_FLAGS_DEBUG "-O1 -g1") # lines for the reports of sanitizers; variables would double the size of every test
  add_compile_options(-fsanitize=${MICA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${MICA_SANITIZE})
endif()
