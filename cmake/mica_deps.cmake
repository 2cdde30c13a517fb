# MICA_DEPS: jansson, sqlite3 and xxhash as targets and files to link. With MICA_STATIC archives are taken where they are there (Debian's -dev
# packages have them), and what they keep to themselves is not shown to others: a process may have its own sqlite3 too.
set(MICA_DEPS PkgConfig::deps)
if(MICA_STATIC)
  find_library(MICA_JANSSON_ARCHIVE NAMES libjansson.a HINTS ${deps_LIBRARY_DIRS})
  find_library(MICA_SQLITE_ARCHIVE NAMES libsqlite3.a HINTS ${deps_LIBRARY_DIRS})
  find_library(MICA_XXHASH_ARCHIVE NAMES libxxhash.a HINTS ${deps_LIBRARY_DIRS})
  if(MICA_JANSSON_ARCHIVE AND MICA_SQLITE_ARCHIVE AND MICA_XXHASH_ARCHIVE)
    set(MICA_DEPS ${MICA_JANSSON_ARCHIVE} ${MICA_SQLITE_ARCHIVE} ${MICA_XXHASH_ARCHIVE} -Wl,--exclude-libs,ALL)
    include_directories(SYSTEM ${deps_INCLUDE_DIRS})
  else()
    message(STATUS "archives of jansson, sqlite3 or xxhash are missing: shared libraries are linked")
  endif()
endif()
