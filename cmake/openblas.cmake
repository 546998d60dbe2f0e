# Target OpenBLAS: that of the scipy-openblas32 wheel of the building Python, which the package takes along, or the
# system's.
add_library(OpenBLAS INTERFACE)
if(QKV_SYSTEM_OPENBLAS)
  find_path(QKV_CBLAS_INCLUDE cblas.h REQUIRED PATH_SUFFIXES openblas openblas-pthread)
  find_library(QKV_OPENBLAS_LIBRARY openblas REQUIRED)
  target_include_directories(OpenBLAS INTERFACE ${QKV_CBLAS_INCLUDE})
  target_link_libraries(OpenBLAS INTERFACE ${QKV_OPENBLAS_LIBRARY})
else()
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c
            "import scipy_openblas32 as b, importlib.metadata as m; \
d = m.distribution('scipy-openblas32'); \
print(b.get_include_dir(), b.get_lib_dir(), b.get_library(fullname=True), \
*(d.locate_file(f) for f in d.files if f.name == 'LICENSE.txt'), sep=';')"
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

  # The library, and those of its compiler where it is linked to some, which it finds by their places beside its own.
  get_filename_component(openblas_package ${library_dir} DIRECTORY)
  install(FILES ${library_dir}/${library} DESTINATION qkv/_openblas/lib)
  install(DIRECTORY ${openblas_package}/.dylibs DESTINATION qkv/_openblas OPTIONAL)
  install(DIRECTORY ${openblas_package}.libs DESTINATION qkv OPTIONAL)
  list(LENGTH found count)
  if(count GREATER 3)
    list(GET found 3 license)
    install(FILES ${license} DESTINATION qkv/_openblas)
  endif()
endif()
