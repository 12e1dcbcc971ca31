# stave_install_pkg_config(name component DESCRIPTION text LIBS -l... [REQUIRES ...] [REQUIRES_PRIVATE ...] [LIBS_PRIVATE ...])
#
# Installs name.pc. The private entries are for a static library; a shared library loads its
# dependencies itself, so its users need none of them installed. REQUIRES_PRIVATE lists packages
# that have a .pc file on all systems. LIBS_PRIVATE may list targets, which are named by their
# files.
function(stave_install_pkg_config pc_name component)
  cmake_parse_arguments(PARSE_ARGV 2 pc "" "DESCRIPTION" "LIBS;REQUIRES;REQUIRES_PRIVATE;LIBS_PRIVATE")
  if(BUILD_SHARED_LIBS)
    set(pc_REQUIRES_PRIVATE "")
    set(pc_LIBS_PRIVATE "")
  endif()
  set(folder "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
  # The prefix is relative to the file, so that the installation can be moved.
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}/${folder}" OUTPUT_VARIABLE prefix_from_pc)
  cmake_path(SET prefix_from_pc NORMALIZE "${prefix_from_pc}")
  string(REGEX REPLACE "/$" "" prefix_from_pc "${prefix_from_pc}")
  set(libs "")
  foreach(library IN LISTS pc_LIBS_PRIVATE)
    if(TARGET ${library})
      set(library "$<TARGET_FILE:${library}>")
    endif()
    list(APPEND libs "${library}")
  endforeach()
  list(JOIN libs " " pc_libs_private)
  list(JOIN pc_LIBS " " pc_libs)
  list(JOIN pc_REQUIRES ", " pc_requires)
  list(JOIN pc_REQUIRES_PRIVATE ", " pc_requires_private)
  set(pc_description "${pc_DESCRIPTION}")
  set(file "${CMAKE_CURRENT_BINARY_DIR}/generated/${pc_name}.pc")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/stave.pc.in" "${file}.in" @ONLY)
  file(GENERATE OUTPUT "${file}" INPUT "${file}.in")
  install(FILES "${file}" DESTINATION "${folder}" COMPONENT ${component})
endfunction()
