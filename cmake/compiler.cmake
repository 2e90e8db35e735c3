# How every target is compiled: one interface library, linked by all of ours.
add_library(gpurdma_options INTERFACE)
target_include_directories(gpurdma_options INTERFACE ${PROJECT_SOURCE_DIR})
# Not for nvcc (see cuda.cmake), which does not know these options.
function(gpurdma_compile_options)
  foreach(option IN LISTS ARGN)
    target_compile_options(gpurdma_options INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:${option}>)
  endforeach()
endfunction()
gpurdma_compile_options(-Wall -Wextra -Werror -Wshadow -Wconversion -Wsign-conversion -Wcast-qual -Wformat=2)
target_compile_options(gpurdma_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual -Wold-style-cast -Wextra-semi>
  $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings -Xcompiler=-Wall>)

if(GPURDMA_SANITIZE)
  # Ahead of a folder's own options, so that one may ask for less.
  string(APPEND CMAKE_C_FLAGS " -O1")
  string(APPEND CMAKE_CXX_FLAGS " -O1")
  gpurdma_compile_options(-fsanitize=${GPURDMA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  target_link_options(gpurdma_options INTERFACE -fsanitize=${GPURDMA_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC's manual, -fsanitize: its flow-based warnings are false more often in such code; the release build keeps them.
    gpurdma_compile_options(-Wno-array-bounds -Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow
      -Wno-stringop-overread)
  endif()
  if(GPURDMA_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC says that atomic_thread_fence is not instrumented; Asio uses one where TSan needs none.
    gpurdma_compile_options(-Wno-tsan)
  endif()
else()
  gpurdma_compile_options(-fstack-protector-strong -fstack-clash-protection)
  target_compile_options(gpurdma_options INTERFACE
    $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<NOT:$<CONFIG:Debug>>>:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2>)
  target_link_options(gpurdma_options INTERFACE -Wl,-z,relro,-z,now)
endif()
if(GPURDMA_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "GPURDMA_FUZZ needs clang, whose libFuzzer it uses; the preset fuzz takes it")
  endif()
  gpurdma_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" AND NOT GPURDMA_SANITIZE)
  gpurdma_compile_options(-fcf-protection)
endif()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
include(CheckPIESupported)
check_pie_supported()

# Asio, compiled once (rdma/asio.cpp) instead of in every translation unit.
add_library(gpurdma_asio_options INTERFACE)
target_compile_definitions(gpurdma_asio_options INTERFACE
  BOOST_ASIO_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_HAS_STD_INVOKE_RESULT)
target_link_libraries(gpurdma_asio_options INTERFACE Boost::headers Threads::Threads)

# gpurdma_precompile(TARGET [REUSE_FROM OTHER] | HEADERS...): headers that most files of a target include, read once.
# Only for sanitizers, whose builds would take twice as long; the release build shows what a file forgot to include.
function(gpurdma_precompile target)
  if(NOT GPURDMA_SANITIZE)
    return()
  endif()
  if(ARGV1 STREQUAL "REUSE_FROM")
    target_precompile_headers(${target} ${ARGN})
  else()
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()

# A static library per folder of the house.
function(gpurdma_library name)
  add_library(gpurdma_${name} STATIC ${ARGN})
  target_link_libraries(gpurdma_${name} PUBLIC gpurdma_options)
endfunction()
