# Target OpenBLAS: from the scipy-openblas32 wheel of the building Python, or the system's.
add_library(OpenBLAS INTERFACE)
if(QKV_SYSTEM_OPENBLAS)
  find_path(QKV_CBLAS_INCLUDE cblas.h REQUIRED PATH_SUFFIXES openblas openblas-pthread)
  find_library(QKV_OPENBLAS_LIBRARY openblas REQUIRED)
  target_include_directories(OpenBLAS INTERFACE ${QKV_CBLAS_INCLUDE})
  target_link_libraries(OpenBLAS INTERFACE ${QKV_OPENBLAS_LIBRARY})
else()
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c
            "import scipy_openblas32 as b; print(b.get_include_dir(), b.get_lib_dir(), b.get_library(fullname=True), sep=';')"
    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "OpenBLAS is missing: pip install scipy-openblas32, or configure with -DQKV_SYSTEM_OPENBLAS=ON")
  endif()
  list(GET found 0 include_dir)
  list(GET found 1 library_dir)
  list(GET found 2 library)
  target_include_directories(OpenBLAS SYSTEM INTERFACE ${include_dir})
  target_link_libraries(OpenBLAS INTERFACE ${library_dir}/${library})
  target_compile_definitions(OpenBLAS INTERFACE BLAS_SYMBOL_PREFIX=scipy_ QKV_BLAS_PREFIX)
endif()

# Let an installed extension find the library in the folder of its package, which stands beside its own.
function(openblas_beside target)
  if(NOT APPLE)
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/../scipy_openblas32/lib")
    return()
  endif()
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "@loader_path/../scipy_openblas32/lib")
  # A path that begins with @rpath is looked for in these folders; the library may call itself otherwise.
  get_target_property(library OpenBLAS INTERFACE_LINK_LIBRARIES)
  execute_process(COMMAND otool -D "${library}" OUTPUT_VARIABLE names OUTPUT_STRIP_TRAILING_WHITESPACE
                          COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE ".*\n" "" name "${names}")
  if(NOT name MATCHES "^@rpath/")
    cmake_path(GET name FILENAME file)
    add_custom_command(TARGET ${target} POST_BUILD
                       COMMAND install_name_tool -change "${name}" "@rpath/${file}" "$<TARGET_FILE:${target}>")
  endif()
endfunction()
