// How observers (debug, Profile, Graph, Timeline, HtmlReport, whos) write down operations: one notation for all. Nothing here performs an
// operation that a handler could see.
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

/// Where the operation was performed that a handler is answering.
struct Place {
  int depth = 0;                // handlers at work above the one that answers, and scopes
  std::vector<NamePtr> scopes;  // above the one that answers, innermost first
};
Place place_of_performer();

/// "w:f32[64,8]@cuda:0, f32[8]": the label, if it has one, the dtype, the shape, and the device, if it is not the CPU.
std::string notation(std::span<const Tensor> xs);
std::string notation(const NamePtr& label, Dtype dtype, const Shape& shape, Device device);
/// "axes=[0] keepdims"; "" if there are none.
std::string attributes_of(const Call& call);
/// "sum axes=[0] f32[64]": name, attributes, operands.
std::string notation(const Call& call);
/// Where it is computed: of several devices, that which is not the CPU.
Device device_of(const Call& call);
/// Begins to measure what the call's device will spend.
std::unique_ptr<BackendStopwatch> stopwatch_of(const Call& call);
/// "1.23 us"
std::string in_units(Clock::duration duration);
/// "1.5 KiB"
std::string in_bytes(std::uint64_t bytes);
/// What their elements take, of all lanes, each repetition by broadcasting counted once, whoever shares the storage.
std::uint64_t bytes_of(std::span<const Tensor> xs);

using Row = std::vector<std::string>;
/// Lines of columns, two spaces between them; the first column is set left, the others right.
std::string table(std::span<const Row> rows);

}  // namespace stave_detail
