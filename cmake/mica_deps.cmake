# MICA_DEPS: jansson, sqlite3 and xxhash as targets and files to link. With MICA_STATIC archives are taken where they are there (Debian's -dev
# packages have them), and what they keep to themselves is not shown to others: a process may have its own sqlite3 too.
set(MICA_DEPS PkgConfig::deps)
if(MICA_STATIC)
  find_library(MICA_JANSSON_ARCHIVE NAMES libjansson.a HINTS ${deps_LIBRARY_DIRS})
  find_library(MICA_SQLITE_ARCHIVE NAMES libsqlite3.a HINTS ${deps_LIBRARY_DIRS})
  if(MICA_JANSSON_ARCHIVE AND MICA_SQLITE_ARCHIVE)
    set(MICA_DEPS ${MICA_JANSSON_ARCHIVE} ${MICA_SQLITE_ARCHIVE} -Wl,--exclude-libs,ALL) # of xxhash the header is used alone
    include_directories(SYSTEM ${deps_INCLUDE_DIRS})
  else()
    message(STATUS "archives of jansson or sqlite3 are missing: shared libraries are linked")
  endif()
endif()
