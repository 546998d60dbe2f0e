# The kernels, compiled once per instruction set. Each level's code lives in a namespace of its own, so that the linker
# can never pick an AVX-512 copy of a function for a CPU without AVX-512.
file(GLOB kernel_sources CONFIGURE_DEPENDS cpp/kernels/*.cpp cpp/kernels/attention/*.cpp cpp/kernels/matmul/*.cpp)
list(FILTER kernel_sources EXCLUDE REGEX "/(dispatch|blas)\\.cpp$")

# As a property of the files, because the options of a linked interface (-O2) come after a target's own.
set_source_files_properties(${kernel_sources} PROPERTIES COMPILE_OPTIONS -O3)

set(levels baseline)
set(flags_baseline "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  list(APPEND levels avx2 avx512)
  set(flags_avx2 -mavx2 -mfma -mf16c)
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag(-mavx512bf16 QKV_AVX512_BF16)
  set(flags_avx512 -mavx2 -mfma -mf16c -mavx512f -mavx512vl -mavx512bw -mavx512dq -mprefer-vector-width=512)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Scheduling before registers are assigned keeps more numbers at hand than there are registers: a tile of 24 vectors
  # then spilled two of its sums at each step.
  set(flags_baseline -fno-schedule-insns)
endif()

set(kernel_objects)
set(kernel_definitions)
foreach(level IN LISTS levels)
  add_library(kernels_${level} OBJECT ${kernel_sources})
  target_link_libraries(kernels_${level} PRIVATE qkv_options)
  target_compile_definitions(kernels_${level} PRIVATE QKV_ISA=${level})
  # Masks need infinities, so -ffast-math is out; these single flags leave values alone.
  target_compile_options(kernels_${level} PRIVATE -fno-math-errno -fno-trapping-math -Wno-psabi
                                                  ${flags_${level}})
  list(APPEND kernel_objects $<TARGET_OBJECTS:kernels_${level}>)
  list(APPEND kernel_definitions QKV_HAVE_${level})
endforeach()

# One file more for CPUs that multiply bfloat16 numbers; everything else it calls is AVX-512's.
if(QKV_AVX512_BF16)
  add_library(kernels_avx512_bf16 OBJECT cpp/kernels/matmul/packed_bfloat16.cpp cpp/kernels/activation.cpp)
  target_link_libraries(kernels_avx512_bf16 PRIVATE qkv_options)
  target_compile_definitions(kernels_avx512_bf16 PRIVATE QKV_ISA=avx512_bf16)
  target_compile_options(kernels_avx512_bf16 PRIVATE -fno-math-errno -fno-trapping-math -Wno-psabi
                                                     ${flags_avx512} -mavx512bf16)
  list(APPEND kernel_objects $<TARGET_OBJECTS:kernels_avx512_bf16>)
  list(APPEND kernel_definitions QKV_HAVE_avx512_bf16)
endif()

# On demand: programs that print a hash of what each kernel of a level computes.
foreach(level IN LISTS levels)
  if(EXISTS ${CMAKE_SOURCE_DIR}/tools/kernel_hashes.cpp)
    add_executable(kernel_hashes_${level} EXCLUDE_FROM_ALL tools/kernel_hashes.cpp $<TARGET_OBJECTS:kernels_${level}>)
    target_link_libraries(kernel_hashes_${level} PRIVATE qkv_options)
    target_compile_definitions(kernel_hashes_${level} PRIVATE QKV_ISA=${level})
    target_compile_options(kernel_hashes_${level} PRIVATE -O1 -Wno-psabi ${flags_${level}})
  endif()
endforeach()
