# Writes OUT: the texts of the headers in FOLDER that a region's kernel includes (region_headers.h). Included, it says which they are.
set(region_headers core/tensor/half.h core/tensor/complex.h core/tensor/dtype.h core/ops/elementwise_ops.h core/ops/erfinv.h core/ops/polygamma.h
  backends/cuda/host_device.h backends/cuda/index_walk.h backends/cuda/region_input.h backends/cuda/kernels/element.cuh
  backends/cuda/kernels/lane.cuh backends/cuda/kernels/apply.cuh backends/cuda/kernels/region.cuh)
set(region_standard backends/cuda/kernels/standard.cuh)
if(NOT CMAKE_SCRIPT_MODE_FILE)
  return()
endif()

set(text "#include <stave/backends/cuda/region_headers.h>\n\nnamespace stave_cuda {\n\nnamespace {\n\n")
file(READ "${FOLDER}/${region_standard}" content)
string(APPEND text "constexpr const char* standard = R\"stave(${content})stave\";\n\nconst RegionHeader headers[] = {\n")
foreach(header IN LISTS region_headers)
  file(READ "${FOLDER}/${header}" content)
  string(APPEND text "    {\"stave/${header}\", R\"stave(${content})stave\"},\n")
endforeach()
foreach(header IN ITEMS cmath concepts cstddef cstdint limits type_traits utility)
  string(APPEND text "    {\"${header}\", standard},\n")
endforeach()
string(APPEND text "};\n\n}  // namespace\n\nstd::span<const RegionHeader> region_headers() { return headers; }\n\n}  // namespace stave_cuda\n")
file(WRITE "${OUT}" "${text}")
