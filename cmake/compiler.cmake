# Which compilers can build the extension: the kernels are written with vector types and shuffles of GCC and Clang.
set(oldest_GNU 12)
set(oldest_Clang 14)
set(oldest_AppleClang 15)
set(oldest ${oldest_${CMAKE_CXX_COMPILER_ID}})
if(NOT DEFINED oldest)
  message(WARNING "qkv: the compiler should be GCC 12 or Clang 14 or later; got ${CMAKE_CXX_COMPILER_ID}")
elseif(CMAKE_CXX_COMPILER_VERSION VERSION_LESS oldest)
  message(FATAL_ERROR "qkv: the compiler must be GCC 12, Clang 14 or later because of its vector types; got "
                      "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} (${CMAKE_CXX_COMPILER}). Name another "
                      "one in CXX, for example: apt-get install g++-12 && CXX=g++-12 pip install .")
endif()
