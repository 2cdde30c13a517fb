# Files that `make install` installs, and the Debian packages of `make deb`: libmicaN (the library), libmica-dev (header, static library,
# pkg-config and CMake files) and mica (the command). N is MICA_ABI_VERSION of include/mica.h, and so is the number in libmica.so.N.
include(CMakePackageConfigHelpers)

get_target_property(MICA_SHARED_VERSION mica_shared VERSION)
set(MICA_SHARED_FILE libmica.so.${MICA_SHARED_VERSION})
set(MICA_SONAME libmica.so.${MICA_ABI_VERSION})
set(config ${CMAKE_INSTALL_LIBDIR}/cmake/mica)
file(RELATIVE_PATH MICA_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix) # whatever the prefix
string(REGEX REPLACE "/$" "" MICA_PC_PREFIX "${MICA_PC_PREFIX}")

configure_file(cmake/mica.pc.in mica.pc @ONLY)
configure_package_config_file(cmake/micaConfig.cmake.in ${CMAKE_BINARY_DIR}/micaConfig.cmake INSTALL_DESTINATION ${config}
                              PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/micaConfigVersion.cmake COMPATIBILITY SameMinorVersion)

install(TARGETS mica_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development)
install(TARGETS mica_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
file(GLOB plans CONFIGURE_DEPENDS plans/*.jsonl) # docs/plans.md; found from the library
install(FILES ${plans} DESTINATION ${CMAKE_INSTALL_DATADIR}/mica/db COMPONENT library)
install(FILES include/mica.h include/mica.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(FILES ${CMAKE_BINARY_DIR}/mica.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
install(FILES ${CMAKE_BINARY_DIR}/micaConfig.cmake ${CMAKE_BINARY_DIR}/micaConfigVersion.cmake DESTINATION ${config} COMPONENT development)
if(TARGET mica)
  install(TARGETS mica RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
  # Manual pages and completion of shells, printed by the command from its tables.
  set(papers ${CMAKE_BINARY_DIR}/papers)
  file(READ src/cli/cmd.def commands)
  string(REGEX MATCHALL "\nCMD\\([a-z]+" commands "${commands}")
  list(TRANSFORM commands REPLACE "\nCMD\\(" "")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS src/cli/cmd.def)
  add_custom_command(OUTPUT ${papers}/stamp DEPENDS mica cmake/papers.cmake
    COMMAND ${CMAKE_COMMAND} "-DMICA=${CMAKE_CROSSCOMPILING_EMULATOR};$<TARGET_FILE:mica>" "-DPAGES=${commands}" -DTO=${papers} -DGZIP=${MICA_DEB}
            -P ${CMAKE_SOURCE_DIR}/cmake/papers.cmake
    COMMENT "Printing manual pages and completion scripts" VERBATIM)
  add_custom_target(papers ALL DEPENDS ${papers}/stamp)
  list(TRANSFORM commands PREPEND mica- OUTPUT_VARIABLE pages)
  foreach(page mica ${pages})
    install(FILES ${papers}/${page}.1$<$<BOOL:${MICA_DEB}>:.gz> DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT command)
  endforeach()
  install(FILES ${papers}/mica DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT command)
  install(FILES ${papers}/_mica DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT command)
  install(FILES ${papers}/mica.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT command)
endif()

# ---- Debian packages: `cpack -G DEB` in a build folder with CMAKE_INSTALL_PREFIX=/usr and MICA_NATIVE=OFF ----
set(CPACK_PACKAGE_NAME mica)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(MICA_CONTACT "Mica developers <mica@localhost>" CACHE STRING "who answers for the packages")
set(CPACK_PACKAGE_CONTACT "${MICA_CONTACT}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "superoptimizer for tensor programs")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL library development command)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(library libmica${MICA_ABI_VERSION})
set(compiler "gcc, libc6-dev, libopenblas-openmp-dev | libopenblas-dev") # of generated kernels
set(about "Mica finds faster equivalents of programs over tensors, proves that
they are equal, and makes kernels for CPUs and NVIDIA GPUs of them.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME ${library})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_RECOMMENDS "${compiler}")
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "${about}\nThis package has the shared library.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libmica-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${library} (= ${PROJECT_VERSION}), libjansson-dev, libsqlite3-dev, libxxhash-dev")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "${about}\nThis package has the header and what else development needs.")
set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME mica)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION science)
set(CPACK_DEBIAN_COMMAND_PACKAGE_RECOMMENDS "${compiler}")
set(CPACK_COMPONENT_COMMAND_DESCRIPTION "${about}\nThis package has the command.")

# Each package has its papers, and the library says what depends on it.
file(WRITE ${CMAKE_BINARY_DIR}/deb/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: mica

Files: *
Copyright: 2026 Mica developers
License: Apache-2.0
 On Debian systems the text of the Apache License 2.0 is in
 /usr/share/common-licenses/Apache-2.0.
")
file(WRITE ${CMAKE_BINARY_DIR}/deb/changelog "mica (${PROJECT_VERSION}) unstable; urgency=medium

  * The library and the command as packages.

 -- ${MICA_CONTACT}  Sun, 01 Nov 2026 00:00:00 +0000
")
file(WRITE ${CMAKE_BINARY_DIR}/deb/triggers "activate-noawait ldconfig\n") # CPack's own scripts call ldconfig; policy wants this
file(WRITE ${CMAKE_BINARY_DIR}/deb/shlibs "libmica ${MICA_ABI_VERSION} ${library} (>= ${PROJECT_VERSION})\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA "${CMAKE_BINARY_DIR}/deb/triggers;${CMAKE_BINARY_DIR}/deb/shlibs")
if(MICA_DEB)
  execute_process(COMMAND gzip -9nkf changelog WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/deb COMMAND_ERROR_IS_FATAL ANY)
  foreach(pair library:${library} development:libmica-dev command:mica)
    string(REPLACE ":" ";" pair ${pair})
    list(GET pair 0 component)
    list(GET pair 1 package)
    install(FILES ${CMAKE_BINARY_DIR}/deb/copyright ${CMAKE_BINARY_DIR}/deb/changelog.gz DESTINATION share/doc/${package} COMPONENT ${component})
  endforeach()
endif()
include(CPack)
