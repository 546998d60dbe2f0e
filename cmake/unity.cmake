# Compiles the sources of a target in a few batches of like size, since most of the time of a small file goes into the
# headers that all of them read: WHOLE batches for a wheel, which is compiled at once, EDITABLE ones for an editable
# install, in which the change of one file compiles its batch again. Sizes are those of the time of configuration: a later
# change moves no file. Any two files may meet, so names in unnamed namespaces differ within a target.
function(qkv_compile_in_batches target)
  cmake_parse_arguments(PARSE_ARGV 1 batches "" "WHOLE;EDITABLE" "")
  set(count ${batches_WHOLE})
  if(SKBUILD_STATE STREQUAL "editable")
    set(count ${batches_EDITABLE})
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    file(SIZE "${source}" size)
    list(APPEND sized "${size} ${source}")
  endforeach()
  list(SORT sized COMPARE NATURAL ORDER DESCENDING)
  # The largest ones go to the batches 0, 1, 2 ..., the next ones back again.
  math(EXPR turn "2 * ${count}")
  set(place 0)
  foreach(source IN LISTS sized)
    string(REGEX REPLACE "^[0-9]+ " "" source "${source}")
    math(EXPR batch "${place} % ${turn}")
    if(NOT batch LESS count)
      math(EXPR batch "${turn} - 1 - ${batch}")
    endif()
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP batch_${batch})
    math(EXPR place "${place} + 1")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# One compiler needs up to 800 MB: no more of them at once than the memory holds.
cmake_host_system_information(RESULT memory QUERY TOTAL_PHYSICAL_MEMORY) # MB
math(EXPR compilers "${memory} / 1000 + 1")
set_property(GLOBAL PROPERTY JOB_POOLS compilers=${compilers})
set(CMAKE_JOB_POOL_COMPILE compilers)
