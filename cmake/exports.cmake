# stave_show_namespaces(target)
#
# A shared library exports its namespaces: `stave` and `stave_detail`, whose inline functions are
# compiled into programs, and those of the backends, which the tests and the other library call.
# Hidden are kernels, and instances of templates of the standard library, {fmt} and oneTBB. A
# version script is used instead of attributes, because a macro on each declaration could be
# forgotten.

# The patterns match mangled names, because the demangled name of a template begins with its return
# type. An entity's mangled name begins with N and its qualifiers. A prefix may say what belongs to
# the entity: a vtable (TV), typeinfo (TI, TS), a thunk (Th, Tv), a local variable (Z), a guard
# (GV).
set(patterns "")
foreach(namespace 5stave 12stave_detail 9stave_cpu 10stave_cuda)
  foreach(kind TV TI TS TT TC TW TH Th*_ Tv*_ GV GR)
    string(APPEND patterns "    _Z${kind}N${namespace}*;\n")
  endforeach()
  foreach(local "" Z GVZ)
    foreach(qualifiers "" K R O KR KO)
      string(APPEND patterns "    _Z${local}N${qualifiers}${namespace}*;\n")
    endforeach()
  endforeach()
endforeach()
file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/generated/exports.map" CONTENT "{\n  global:\n@patterns@  local: *;\n};\n" @ONLY)

function(stave_show_namespaces target)
  set(script "${PROJECT_BINARY_DIR}/generated/exports.map")
  target_link_options(${target} PRIVATE "-Wl,--version-script=${script}")
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${script}")
endfunction()
