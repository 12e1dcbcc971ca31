# stave_add_kernels(target file.cpp...)
#
# Compiles the elementwise operations that these files define (stave/backends/cpu/own_kernels.h)
# once for each instruction set of the library's kernels. The files also become sources of the
# target. The instruction set is chosen at run time.

# Sets the options with which the library's kernels and the user's kernels are compiled.
function(stave_compile_for_isa target isa)
  set(flags_avx2 -march=x86-64-v3)
  set(flags_avx512 -march=x86-64-v4)
  target_compile_definitions(${target} PRIVATE STAVE_ISA=${isa})
  # -Wno-psabi: the calling convention for wide vectors depends on the instruction set, but no such
  # call leaves its object file. Debug builds are optimised, too: inlined functions leave no weak
  # symbols, and unoptimised vector code is useless in a debugger. Contraction is off, so that only
  # explicit FMAs are fused. Otherwise a value would depend on its place in the array and on the
  # machine.
  target_compile_options(${target} PRIVATE
    ${flags_${isa}} -fno-math-errno -fno-trapping-math -ffp-contract=off -Wno-psabi $<IF:$<CONFIG:Debug>,-O2,-O3>)
endfunction()

function(stave_add_kernels target)
  if(NOT TARGET ${target})
    message(FATAL_ERROR "stave_add_kernels: there is no target `${target}`: name it first, then the files of its operations")
  elseif(NOT ARGN)
    message(FATAL_ERROR "stave_add_kernels(${target}): which files?")
  endif()
  set(files "")
  foreach(file IN LISTS ARGN)
    get_filename_component(file "${file}" ABSOLUTE)
    if(NOT EXISTS "${file}")
      message(FATAL_ERROR "stave_add_kernels(${target}): there is no file ${file}")
    endif()
    file(STRINGS "${file}" operations REGEX "STAVE_ELEMENTWISE_OPERATION")
    if(NOT operations)
      message(FATAL_ERROR "stave_add_kernels(${target}): ${file} defines no STAVE_ELEMENTWISE_OPERATION(name, function)")
    endif()
    list(APPEND files "${file}")
  endforeach()

  get_target_property(isas stave::stave STAVE_CPU_ISAS)
  list(TRANSFORM isas REPLACE "(.+)" "X(name, \\1)" OUTPUT_VARIABLE loops)
  list(JOIN loops " " loops)
  target_sources(${target} PRIVATE ${files})
  set_property(SOURCE ${files} TARGET_DIRECTORY ${target} APPEND PROPERTY COMPILE_OPTIONS
    "$<$<STREQUAL:$<TARGET_PROPERTY:NAME>,${target}>:-DSTAVE_ADDED_ISAS(X, name)=${loops}>")
  foreach(isa IN LISTS isas)
    if(NOT TARGET ${target}_kernels_${isa})
      stave_add_kernels_library(${target} ${isa})
    endif()
    target_sources(${target}_kernels_${isa} PRIVATE ${files})
  endforeach()
endfunction()

function(stave_add_kernels_library target isa)
  set(kernels ${target}_kernels_${isa})
  add_library(${kernels} OBJECT)
  stave_compile_for_isa(${kernels} ${isa})
  set_target_properties(${kernels} PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${kernels} PRIVATE $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
  target_compile_definitions(${kernels} PRIVATE $<TARGET_PROPERTY:${target},COMPILE_DEFINITIONS>)
  target_link_libraries(${kernels} PRIVATE stave::stave)
  set(machine "${CMAKE_CURRENT_BINARY_DIR}/stave_${isa}")
  file(CONFIGURE OUTPUT "${machine}/machine.h" CONTENT "#include <stave/backends/cpu/kernels/@isa@/machine.h>\n" @ONLY)
  target_include_directories(${kernels} PRIVATE "${machine}")
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${kernels}>)

  # SLEEF is added by path, because the target that find_package defines is not visible in every
  # folder that may link to this target.
  list(PREPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_FUNCTION_LIST_DIR}")
  find_package(SLEEF QUIET)
  if(SLEEF_FOUND)
    target_include_directories(${kernels} SYSTEM PRIVATE "${SLEEF_INCLUDE_DIR}")
    set_property(TARGET ${target} APPEND PROPERTY LINK_LIBRARIES "${SLEEF_LIBRARY}")
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      set_property(TARGET ${target} APPEND PROPERTY INTERFACE_LINK_LIBRARIES "${SLEEF_LIBRARY}")
    endif()
  elseif(NOT isa STREQUAL "portable")
    message(FATAL_ERROR "stave_add_kernels(${target}): SLEEF is needed. On Debian and Ubuntu: apt-get install libsleef-dev")
  endif()

  set(checked "${CMAKE_CURRENT_BINARY_DIR}/${kernels}.checked")
  add_custom_command(OUTPUT "${checked}" VERBATIM DEPENDS $<TARGET_OBJECTS:${kernels}>
    COMMAND "${CMAKE_COMMAND}" "-DNM=${CMAKE_NM}" "-DISA=${isa}" "-DOBJECTS=$<TARGET_OBJECTS:${kernels}>"
      -DOWN=ON -P "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/check_symbols.cmake"
    COMMAND "${CMAKE_COMMAND}" -E touch "${checked}")
  add_custom_target(${kernels}_check DEPENDS "${checked}")
  add_dependencies(${target} ${kernels}_check)
endfunction()
