# A cross build for aarch64 with Debian's compiler: cmake -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake (docs/install.md). Packages of the
# target are where Debian puts those of another architecture, or unpacked below MICA_AARCH64_ROOT.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static)
set(MICA_NATIVE OFF CACHE BOOL "the compiler's processor is not the target's")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MICA_AARCH64_ROOT)
set(ENV{PKG_CONFIG_LIBDIR} "${MICA_AARCH64_ROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${MICA_AARCH64_ROOT}/usr/share/pkgconfig")
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${MICA_AARCH64_ROOT}")
