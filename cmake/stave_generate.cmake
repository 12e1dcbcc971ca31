# stave_generate(target SOURCES file.cpp... FUNCTIONS name...)
#
# Adds functions to a target as C source that Stave writes (stave/handlers/compile/write_c.h). Each
# name is that of a C++ function in the files, which returns the program of the C function:
#
#   stave::CFunction norm_gradient() { return {trace(grad(norm))(ones({3}, float64))}; }
#
# A program calls these functions at build time. name.c becomes a source of the target, and name.h
# is in its include directories. The target needs no Stave. The project must have enabled C.
function(stave_generate target)
  cmake_parse_arguments(PARSE_ARGV 1 given "" "" "SOURCES;FUNCTIONS")
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(NOT TARGET ${target})
    message(FATAL_ERROR "stave_generate: there is no target `${target}`: name it first, then SOURCES and FUNCTIONS")
  elseif(given_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "stave_generate(${target}): what is `${given_UNPARSED_ARGUMENTS}`? Write SOURCES file.cpp... FUNCTIONS name...")
  elseif(NOT given_SOURCES OR NOT given_FUNCTIONS)
    message(FATAL_ERROR "stave_generate(${target}): which files and functions? Write SOURCES file.cpp... FUNCTIONS name...")
  elseif(NOT "C" IN_LIST languages)
    message(FATAL_ERROR "stave_generate(${target}): the project has no C compiler: write project(name LANGUAGES C CXX)")
  endif()
  set(sources "")
  foreach(file IN LISTS given_SOURCES)
    get_filename_component(file "${file}" ABSOLUTE)
    if(NOT EXISTS "${file}")
      message(FATAL_ERROR "stave_generate(${target}): there is no file ${file}")
    endif()
    list(APPEND sources "${file}")
  endforeach()

  # A target may have several generators: each is numbered.
  get_target_property(number ${target} STAVE_GENERATORS)
  if(NOT number)
    set(number 0)
  endif()
  math(EXPR number "${number} + 1")
  set_target_properties(${target} PROPERTIES STAVE_GENERATORS ${number})
  set(generator ${target}_generator_${number})
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${generator}_files")
  file(MAKE_DIRECTORY "${folder}")

  set(declarations "")
  set(list "")
  set(written "")
  set(headers "")
  foreach(name IN LISTS given_FUNCTIONS)
    string(APPEND declarations "stave::CFunction ${name}();\n")
    string(APPEND list "{\"${name}\", ${name}}, ")
    list(APPEND written "${folder}/${name}.c")
    list(APPEND headers "${folder}/${name}.h")
  endforeach()
  file(CONFIGURE OUTPUT "${folder}/main.cpp" @ONLY CONTENT
    "#include <stave/handlers/compile/write_c.h>\n\n@declarations@\nint main(int argc, char** argv) { return stave_detail::generate_c(argc, argv, {@list@}); }\n")
  add_executable(${generator} "${folder}/main.cpp" ${sources})
  target_link_libraries(${generator} PRIVATE stave::stave)
  target_compile_features(${generator} PRIVATE cxx_std_20)
  add_custom_command(OUTPUT ${written} ${headers} COMMAND ${generator} "${folder}" DEPENDS ${generator} VERBATIM
    COMMENT "Writing C functions of ${target}")

  target_sources(${target} PRIVATE ${written} ${headers})
  target_include_directories(${target} PUBLIC "$<BUILD_INTERFACE:${folder}>")
  # Contracted products and sums would be rounded once, and differ from those of the library.
  set_property(SOURCE ${written} APPEND PROPERTY COMPILE_OPTIONS -ffp-contract=off)
  if(UNIX)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      target_link_libraries(${target} PUBLIC m)
    elseif(NOT type STREQUAL "OBJECT_LIBRARY")
      target_link_libraries(${target} PRIVATE m)
    endif()
  endif()
endfunction()
