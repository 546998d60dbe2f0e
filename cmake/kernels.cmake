# The kernels, compiled once per instruction set. Each level's code lives in a namespace of its own, so that the linker
# can never pick an AVX-512 copy of a function for a CPU without AVX-512.
file(GLOB kernel_sources CONFIGURE_DEPENDS cpp/kernels/*.cpp)
list(FILTER kernel_sources EXCLUDE REGEX "/(dispatch|gemm)\\.cpp$")

# As a property of the files, because the options of a linked interface (-O2) come after a target's own.
set_source_files_properties(${kernel_sources} PROPERTIES COMPILE_OPTIONS -O3)

set(levels baseline)
set(flags_baseline "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  list(APPEND levels avx2 avx512)
  set(flags_avx2 -mavx2 -mfma -mf16c)
  set(flags_avx512 -mavx2 -mfma -mf16c -mavx512f -mavx512vl -mavx512bw -mavx512dq -mprefer-vector-width=512)
endif()

set(kernel_objects)
set(kernel_definitions)
foreach(level IN LISTS levels)
  add_library(kernels_${level} OBJECT ${kernel_sources})
  target_link_libraries(kernels_${level} PRIVATE qkv_options)
  target_compile_definitions(kernels_${level} PRIVATE QKV_ISA=${level})
  # Masks need infinities, so -ffast-math is out; these single flags leave values alone.
  target_compile_options(kernels_${level} PRIVATE -fno-math-errno -fno-trapping-math -ffp-contract=fast
                                                  -Wno-psabi ${flags_${level}})
  list(APPEND kernel_objects $<TARGET_OBJECTS:kernels_${level}>)
  list(APPEND kernel_definitions QKV_HAVE_${level})
endforeach()
