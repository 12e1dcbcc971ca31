// The text form of operations in all observers (debug, Profile, Graph, Timeline, HtmlReport, whos).
// Nothing here performs an operation that a handler could see.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <stave/core/op/op.h>
#include <stave/core/tensor/backend.h>

namespace stave_detail {

using Clock = std::chrono::steady_clock;

/// The place where the operation that a handler is answering was performed.
struct Place {
  // The number of running handlers inside the answering one, plus the number of scopes there.
  int depth = 0;
  std::vector<NamePtr> scopes;  // scopes inside the answering handler, innermost first
};
Place place_of_performer();

/// Tensors as text: "w:f32[64,8]@cuda:0, f32[8]" gives the label, if there is one, the dtype,
/// the shape, and the device, unless it is the CPU.
std::string notation(std::span<const Tensor> xs);
std::string notation(const NamePtr& label, Dtype dtype, const Shape& shape, Device device);
/// The attributes of a call as text: "axes=[0] keepdims"; "" if there are none.
std::string attributes_of(const Call& call);
/// A call as text: "sum axes=[0] f32[64]" gives name, attributes, operands.
std::string notation(const Call& call);
/// The device that computes the call. If devices differ, it is the one that is not the CPU.
Device device_of(const Call& call);
/// Starts a stopwatch that measures the work of the call's device.
std::unique_ptr<BackendStopwatch> stopwatch_of(const Call& call);
/// A duration as text: "1.23 us".
std::string duration_text(Clock::duration duration);
/// A size as text: "1.5 KiB".
std::string size_text(std::uint64_t bytes);
/// The bytes of the elements of these tensors, of all lanes. An element that broadcasting repeats
/// counts once, and shared storage counts for each tensor.
std::uint64_t bytes_of(std::span<const Tensor> xs);

using Row = std::vector<std::string>;
/// Formats rows as a table with two spaces between columns; the first column is left-aligned,
/// the others right-aligned.
std::string table(std::span<const Row> rows);

}  // namespace stave_detail
