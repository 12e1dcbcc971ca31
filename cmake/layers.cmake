# stave_layers: the folders of the library from the lowest to the highest. A file may include headers
# of its own folder and of lower ones. stave_below_FOLDER: the folders that FOLDER directly depends
# on. CMakeLists.txt makes a target of each folder and links it accordingly; check_layers.cmake checks
# the includes.
set(stave_layers core/effects core/tensor core/op core/ops core/program core/io
  handlers/transforms handlers/compile handlers/taylor handlers/structure handlers/model handlers/onnx handlers/inference handlers/numerics handlers/observe handlers/debugger
  handlers/ranks)
set(stave_below_core/effects)
set(stave_below_core/tensor core/effects)
set(stave_below_core/op core/tensor)
set(stave_below_core/ops core/op)
set(stave_below_core/program core/ops)
set(stave_below_core/io core/program)
set(stave_below_handlers/transforms core/program)
set(stave_below_handlers/compile handlers/transforms)
set(stave_below_handlers/taylor handlers/compile)
set(stave_below_handlers/structure handlers/compile)
set(stave_below_handlers/model handlers/transforms)
set(stave_below_handlers/onnx handlers/compile handlers/model core/io)
set(stave_below_handlers/inference handlers/model)
set(stave_below_handlers/numerics handlers/taylor)
set(stave_below_handlers/observe handlers/inference core/io)
set(stave_below_handlers/debugger handlers/observe)
set(stave_below_handlers/ranks handlers/transforms)
