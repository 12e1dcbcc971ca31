// A Program made ready to run again and again: without handlers, calls, nodes, or allocation but for its results.
//
// What is done once: views are laid out; each value has its place in one arena, which values share that do not live at the same time;
// what each kernel reads and writes is written down. What is left for a run is to fill in where arguments and results lie, and to call
// the kernels. Runs at once, on several threads, have an arena each.
//
// A backend that can record work (Backend::record) is asked to where arguments and results lie where they lay before, and from then on
// launches all kernels at once. They come to lie at other addresses, but at few: memory that is freed is what is given out next, so a
// loop goes round two or three sets of addresses. Each has a recording, instead of one that works on fixed places, with copies of all
// arguments and results at every run.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include <stave/core/program/program.h>
#include <stave/core/tensor/holding.h>

namespace stave_detail {

class Executable {
  struct Activation;

 public:
  /// Of a program that it admits, for inputs of these strides. `optimized` (passes/passes.h) before.
  /// `name` says in reports (whos) what it is of.
  Executable(const Program& program, std::span<const Strides> strides, const char* name = "compile");
  ~Executable();
  Executable(const Executable&) = delete;

  /// Programs without reads and calls, all of whose values are on one device.
  static bool admits(const Program& program);

  /// Inputs of the program's shapes and dtypes, and of those strides. Throws what its operations throw.
  Outputs operator()(std::span<const Tensor> inputs) const;

  /// Runs one after another, whose results go where the caller says.
  class Steps {
   public:
    /// Of a program each output of which is an array that an instruction makes, and no view of one. It outlives this.
    explicit Steps(const Executable& executable);
    ~Steps();
    Steps(const Steps&) = delete;
    /// Where the inputs lie, and the outputs will, row-major. Throws what the program's operations throw.
    void run(std::span<void* const> inputs, std::span<void* const> outputs);

   private:
    const Executable& executable_;
    std::unique_ptr<Activation> active_;
    std::vector<std::size_t> output_of_;  // of each result
  };

  /// The bytes of the arena, and of results.
  std::size_t arena_bytes() const noexcept { return arena_bytes_; }

 private:
  class Planner;

  enum class Home : std::uint8_t { input, constant, arena, result };
  // Where a variable's elements lie.
  struct Place {
    Home home = Home::arena;
    int number = 0;          // of the input, constant or result
    std::size_t offset = 0;  // in the arena, in bytes
    Tensor layout;           // its shape, strides, and its offset in elements: a tensor without elements of its own
  };
  struct Kernel {
    const Op* op;
    AttributesPtr attributes;
    std::size_t first, inputs, outputs;  // of its views
    std::size_t together = 1;            // so many kernels from here on run some rows at a time, of
    Index rows = 0;
  };
  struct Result {
    Shape shape;
    Dtype dtype;
  };
  struct Patch {
    std::size_t view;
    int number;
    Index bytes;
  };

  std::unique_ptr<Activation> take() const;
  void give_back(std::unique_ptr<Activation> active) const;
  void run(Backend& backend, Activation& active) const;
  void run_kernels(Backend& backend, const Activation& active) const;
  Holding::Held held(const std::string& name) const;

  Device device_ = cpu;
  std::vector<Place> places_;  // of each variable
  std::vector<Kernel> kernels_;
  std::vector<int> viewed_;  // the variable of each view of the kernels
  std::vector<Tensor> constants_;
  std::vector<Result> results_;  // storage that is made for each run
  std::vector<int> outputs_;     // variables; -1: an empty Tensor
  std::vector<Patch> of_inputs_, of_results_;
  std::size_t arena_bytes_ = 0;
  mutable std::atomic<Activation*> spare_{nullptr};
  mutable std::atomic<std::size_t> arenas_{0};   // that live
  std::optional<Holding> holding_;               // for whos
  mutable std::atomic<int> recordings_left_{0};  // that may still be made
};

}  // namespace stave_detail
