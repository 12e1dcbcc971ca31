// Exchanges arrays between Python and Stave without copies: the methods __dlpack__ and
// __dlpack_device__ of Python's array API.
// Source: https://data-apis.org/array-api/latest/API_specification, array.__dlpack__
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <stave/stave.h>

namespace arrays {

namespace py = pybind11;
using namespace stave;

// ---- capsules: a structure by its name, and by another one when somebody has taken it -----------

template <class Managed>
struct Names;
template <>
struct Names<DLManagedTensorVersioned> {
  static constexpr const char *fresh = "dltensor_versioned", *used = "used_dltensor_versioned";
};
template <>
struct Names<DLManagedTensor> {
  static constexpr const char *fresh = "dltensor", *used = "used_dltensor";
};

template <class Managed>
py::object capsule_of(Managed* managed) {
  PyObject* const capsule = PyCapsule_New(managed, Names<Managed>::fresh, [](PyObject* dropped) {
    if (!PyCapsule_IsValid(dropped, Names<Managed>::fresh)) return;
    release_dlpack(static_cast<Managed*>(PyCapsule_GetPointer(dropped, Names<Managed>::fresh)));
  });
  if (!capsule) {
    release_dlpack(managed);
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::object>(capsule);
}

template <class Managed>
Tensor taken(const py::object& capsule) {
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), Names<Managed>::fresh));
  if (!managed || PyCapsule_SetName(capsule.ptr(), Names<Managed>::used) != 0) throw py::error_already_set();
  return from_dlpack(managed);
}

// ---- what Python sees of a tensor ---------------------------------------------------------------

using DeviceNumbers = std::pair<int, int>;
constexpr int on_cpu = 1, on_cuda = 2;

/// Host memory in NumPy's array interface. NumPy keeps this object as long as its array, and does
/// not write to the memory.
struct Memory {
  Tensor value;

  py::dict interface() const {
    const Dtype dtype = value.dtype();
    const auto size = static_cast<Index>(size_of(dtype));
    std::vector<Index> strides;
    for (const Index stride : value.strides()) strides.push_back(stride * size);
    const char kind = dtype == bool_       ? 'b'
                      : dtype == bfloat16  ? 'V'  // NumPy has no bfloat16
                      : is_float(dtype)    ? 'f'
                      : is_complex(dtype)  ? 'c'
                      : is_unsigned(dtype) ? 'u'
                                           : 'i';
    py::dict fields;
    fields["version"] = 3;
    fields["typestr"] = (size == 1 ? "|" : "<") + std::string(1, kind) + std::to_string(size);
    fields["shape"] = shape_of(value);
    fields["strides"] = py::tuple(py::cast(strides));
    fields["data"] = py::make_tuple(reinterpret_cast<std::uintptr_t>(value.node().data()), true);
    return fields;
  }
  static py::tuple shape_of(const Tensor& x) {
    return py::tuple(py::cast(std::vector<Index>(x.shape().begin(), x.shape().end())));
  }
};

struct Array {
  Tensor value;

  /// NumPy's dtype; for bfloat16, which NumPy lacks, the dtype of ml_dtypes. Returns the dtype's
  /// name if these packages are not installed.
  py::object dtype() const {
    const py::str name(name_of(value.dtype()));
    try {
      if (value.dtype() == bfloat16) return numpy().attr("dtype")(py::module_::import("ml_dtypes").attr("bfloat16"));
      return numpy().attr("dtype")(name);
    } catch (py::error_already_set& error) {
      if (!error.matches(PyExc_ImportError)) throw;
      return name;
    }
  }

  std::string repr() const {
    return "Array(" + value.str() + ", shape=" + py::repr(Memory::shape_of(value)).cast<std::string>() +
           ", dtype=" + name_of(value.dtype()) + ")";
  }

  /// A read-only NumPy array over the same memory. It is a copy for another dtype, for an array on
  /// a device, and on request.
  py::object array(const py::object& wanted, std::optional<bool> copy) const {
    py::object x = numpy().attr("asarray")(Memory{to(value, cpu)});
    if (value.dtype() == bfloat16) x = x.attr("view")(py::module_::import("ml_dtypes").attr("bfloat16"));
    const bool converts = !wanted.is_none() && !numpy().attr("dtype")(wanted).equal(x.attr("dtype"));
    if (copy == false && (converts || value.device() != cpu))
      throw py::value_error("an array of this dtype on the CPU is a copy of this one");
    if (converts) return x.attr("astype")(wanted);
    return copy == true ? x.attr("copy")() : x;
  }

  static py::module_ numpy() { return py::module_::import("numpy"); }

  DeviceNumbers device() const {
    return value.device() == cpu ? DeviceNumbers(on_cpu, 0) : DeviceNumbers(on_cuda, value.device().index);
  }

  /// Memory that other libraries may read. A caller that requests a structure without a version
  /// cannot know that it must not write, so it gets a copy.
  py::object dlpack(std::optional<std::intptr_t> stream, std::optional<std::pair<int, int>> max_version,
                    std::optional<DeviceNumbers> there, std::optional<bool> copy) const {
    const bool moves = there && *there != device(), versioned = max_version && max_version->first >= 1;
    if (moves && there->first != on_cpu) throw py::buffer_error("a Stave array goes to its own device, or to the CPU");
    if (copy == false && (moves || !versioned))
      throw py::buffer_error(
          "without a copy a Stave array can be lent where it is, to who asks for max_version=(1, 0)");
    const Tensor lent = moves ? to(value, cpu) : value;
    const DlpackOptions options{.copy = copy.value_or(!versioned) && !moves, .stream = stream.value_or(1)};
    if (versioned) return capsule_of(to_dlpack(lent, options));
    return capsule_of(to_dlpack_unversioned(lent, options));
  }
};

/// The memory of any array that has these methods. Stave does not write to it.
inline Tensor tensor_of(const py::object& array) {
  if (py::isinstance<Array>(array)) return array.cast<const Array&>().value;
  if (!py::hasattr(array, "__dlpack__"))
    throw py::type_error("an array is needed, of any library that has __dlpack__, such as NumPy, PyTorch or JAX");
  const auto [kind, index] = array.attr("__dlpack_device__")().cast<DeviceNumbers>();
  py::dict arguments;
  if (kind == on_cuda) arguments["stream"] = dlpack_stream(cuda(index));
  py::object capsule;
  try {
    capsule = array.attr("__dlpack__")(py::arg("max_version") = std::pair(1, 0), **arguments);
  } catch (py::error_already_set& error) {  // a library without versions
    if (!error.matches(PyExc_TypeError)) throw;
    capsule = array.attr("__dlpack__")(**arguments);
  }
  if (PyCapsule_IsValid(capsule.ptr(), Names<DLManagedTensorVersioned>::fresh))
    return taken<DLManagedTensorVersioned>(capsule);
  return taken<DLManagedTensor>(capsule);
}

inline void add_array(py::module_& module) {
  py::class_<Memory>(module, "Memory", py::module_local())
      .def_property_readonly("__array_interface__", &Memory::interface);
  py::class_<Array>(module, "Array", "An immutable array, for every library that has from_dlpack.")
      .def_property_readonly("shape", [](const Array& x) { return Memory::shape_of(x.value); })
      .def_property_readonly("ndim", [](const Array& x) { return x.value.rank(); })
      .def_property_readonly("dtype", &Array::dtype)
      .def("__repr__", &Array::repr)
      .def("__array__", &Array::array, py::arg("dtype") = py::none(), py::arg("copy") = py::none())
      .def("__dlpack__", &Array::dlpack, py::kw_only(), py::arg("stream") = py::none(),
           py::arg("max_version") = py::none(), py::arg("dl_device") = py::none(), py::arg("copy") = py::none())
      .def("__dlpack_device__", &Array::device);
  module.def(
      "asarray", [](const py::object& array) { return Array{tensor_of(array)}; }, "The memory of any array.");
}

}  // namespace arrays
