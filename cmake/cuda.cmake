# CUDA, where the toolkit is installed; without it everything else is built, and `memory: cuda` is refused with a
# reason. Sets GPURDMA_HAVE_CUDA. Only memory/ and tests/gpu use it.
#
# Kernels are alone in .cu files; all other code that calls CUDA is C++ for the host compiler, with its warnings and
# sanitizers. nvcc gets neither: it passes generated code to the compiler, and sanitizers know nothing of a GPU's memory
# (compute-sanitizer does: tests/gpu/run).
option(GPURDMA_CUDA "Build with CUDA where its toolkit is found" ON)
set(GPURDMA_HAVE_CUDA FALSE)
if(GPURDMA_CUDA)
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    # NVIDIA's packages do not put nvcc into PATH.
    find_program(GPURDMA_NVCC nvcc HINTS ENV CUDA_PATH ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
    mark_as_advanced(GPURDMA_NVCC)
    if(GPURDMA_NVCC)
      set(CMAKE_CUDA_COMPILER ${GPURDMA_NVCC})
    endif()
  endif()
  # CUDA 13's GPUs from Turing on, and PTX for those to come. Machine code for each, for a daemon should not compile
  # when it starts.
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 86-real 89-real 90-real 100-real 120 CACHE STRING "GPUs to build for")
  endif()
  if(NOT CMAKE_CUDA_COMPILER)
    check_language(CUDA)
  endif()
  find_package(CUDAToolkit 12.8 QUIET)  # which knows architectures 100 and 120
  if(CMAKE_CUDA_COMPILER AND CUDAToolkit_FOUND)
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    enable_language(CUDA)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know yet that nvcc knows C++20
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    set(GPURDMA_HAVE_CUDA TRUE)
    message(STATUS "CUDA: ${CUDAToolkit_VERSION}, for GPUs of architecture ${CMAKE_CUDA_ARCHITECTURES}")
  else()
    message(STATUS "CUDA: no toolkit (12.8 or later) found; building without it: buffers of GPU memory are refused. "
                   "To have it, install NVIDIA's package cuda-toolkit, or name nvcc with -DCMAKE_CUDA_COMPILER=PATH")
  endif()
else()
  message(STATUS "CUDA: switched off (GPURDMA_CUDA); buffers of GPU memory are refused")
endif()

# What --version says.
if(GPURDMA_HAVE_CUDA)
  set(GPURDMA_VERSION_TEXT "${PROJECT_VERSION} (with CUDA ${CUDAToolkit_VERSION})")
else()
  set(GPURDMA_VERSION_TEXT "${PROJECT_VERSION} (without CUDA)")
endif()
