// Stave's errors in Python: an exception for each cause, derived from `Error` and from Python's own
// exception of that cause. `except ValueError` and `except module.ShapeError` both catch a shape
// that does not fit.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>

#include <stave/stave.h>

namespace arrays {

namespace py = pybind11;

/// Adds the exceptions to the module. From then on they are raised instead of Stave's errors.
inline void add_errors(py::module_& module) {
  // The exceptions live as long as the interpreter.
  static struct {
    PyObject *error, *shape, *dtype, *device, *transform, *index, *linalg, *memory, *file;
  } all;
  const auto add = [&](const char* name, const char* doc, std::initializer_list<PyObject*> bases) {
    py::tuple of(bases.size());
    for (std::size_t i = 0; i < bases.size(); ++i) of[i] = py::reinterpret_borrow<py::object>(bases.begin()[i]);
    const auto full = module.attr("__name__").cast<std::string>() + "." + name;
    PyObject* const made = PyErr_NewExceptionWithDoc(full.c_str(), doc, of.ptr(), nullptr);
    if (!made) throw py::error_already_set();
    module.add_object(name, py::reinterpret_borrow<py::object>(made));
    return made;
  };
  all.error = add("Error", "What Stave cannot do.", {PyExc_RuntimeError});
  all.shape = add("ShapeError", "Shapes, ranks or axes that do not fit.", {all.error, PyExc_ValueError});
  all.dtype = add("DtypeError", "Element types that do not fit.", {all.error, PyExc_TypeError});
  all.device = add("DeviceError", "Arrays on different devices, or a device that is absent.", {all.error});
  all.transform = add("TransformError", "What a transform cannot take.", {all.error});
  all.index = add("IndexError", "An index or axis out of range.", {all.error, PyExc_IndexError});
  all.linalg = add("LinalgError", "A matrix for which a function has no result.", {all.error, PyExc_ValueError});
  all.memory = add("MemoryError", "More memory than there is.", {all.error, PyExc_MemoryError});
  all.file = add("FileError", "A file that cannot be read or written.", {all.error, PyExc_OSError});
  py::register_local_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const stave::ShapeError& error) {
      PyErr_SetString(all.shape, error.what());
    } catch (const stave::DtypeError& error) {
      PyErr_SetString(all.dtype, error.what());
    } catch (const stave::DeviceError& error) {
      PyErr_SetString(all.device, error.what());
    } catch (const stave::TransformError& error) {
      PyErr_SetString(all.transform, error.what());
    } catch (const stave::IndexError& error) {
      PyErr_SetString(all.index, error.what());
    } catch (const stave::LinalgError& error) {
      PyErr_SetString(all.linalg, error.what());
    } catch (const stave::MemoryError& error) {
      PyErr_SetString(all.memory, error.what());
    } catch (const stave::FileError& error) {
      PyErr_SetString(all.file, error.what());
    } catch (const stave::Error& error) {
      PyErr_SetString(all.error, error.what());
    }
  });
}

}  // namespace arrays
